//! Gathers inputs: environment, configuration file, and `menagerie up` on this machine.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, test_kill_process};
use serde::Deserialize;

use super::file::FileText;
use super::{ConfigError, Inputs, Origin};
use crate::commands::data::DataArgs;

const FILE: &str = "menagerie.toml";

pub fn gather(
    zookeeper: Option<String>,
    namespace: Option<String>,
    config: Option<PathBuf>,
) -> Result<Inputs, ConfigError> {
    // Variables that are not UTF-8 are of no use to us.
    let environment: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with("MENAGERIE_"))
        .collect();
    let file = file(config, &environment)?;
    Ok(Inputs { zookeeper, namespace, file, local: local(&environment), environment })
}

/// The first configuration file that exists; one that was named must exist.
fn file(
    flag: Option<PathBuf>,
    environment: &BTreeMap<String, String>,
) -> Result<Option<(FileText, Origin)>, ConfigError> {
    let variable = environment.get("MENAGERIE_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
    let named = match (flag, variable) {
        (Some(path), _) => Some((path, "--config", Origin::Flag("--config"))),
        (None, Some(path)) => Some((path, "MENAGERIE_CONFIG", Origin::Environment("MENAGERIE_CONFIG"))),
        (None, None) => None,
    };
    if let Some((path, named_by, origin)) = named {
        let text = fs::read_to_string(&path);
        let text = text.map_err(|source| ConfigError::Read { path: path.clone(), named_by, source })?;
        return Ok(Some((FileText { path, text }, origin)));
    }
    let home = std::env::home_dir().map(|home| home.join(".config/menagerie").join(FILE));
    let places = [Some(PathBuf::from(FILE)), home, Some(Path::new("/etc/menagerie").join(FILE))];
    for path in places.into_iter().flatten() {
        match fs::read_to_string(&path) {
            Ok(text) => return Ok(Some((FileText { path, text }, Origin::Default))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // An unreadable file must not be skipped silently.
            Err(source) => {
                return Err(ConfigError::Read { path, named_by: "where it is looked for", source });
            }
        }
    }
    Ok(None)
}

/// The part of `addresses.json` that clients need.
#[derive(Deserialize)]
struct Addresses {
    pid: i32,
    keeper: String,
}

/// The keeper of `menagerie up` on this machine: our own, else the system's.
fn local(environment: &BTreeMap<String, String>) -> Option<(String, PathBuf)> {
    let data = environment.get("MENAGERIE_DATA").filter(|path| !path.is_empty()).map(PathBuf::from);
    DataArgs { data }.searched().into_iter().find_map(|root| {
        let path = root.join("addresses.json");
        let addresses: Addresses = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        is_alive(addresses.pid).then_some((addresses.keeper, path))
    })
}

/// Whether the process that wrote the file still runs: after a kill the file is stale.
fn is_alive(pid: i32) -> bool {
    let Some(pid) = Pid::from_raw(pid) else { return false };
    match test_kill_process(pid) {
        Ok(()) => true,
        // EPERM: the process lives and belongs to another user.
        Err(error) => error == rustix::io::Errno::PERM,
    }
}
