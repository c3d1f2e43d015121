//! Reads the world: the environment, the file that counts, and what runs on this machine.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, test_kill_process};
use serde::Deserialize;

use super::file::FileText;
use super::resolve::Inputs;
use super::{ConfigError, Origin};
use crate::commands::data::DataArgs;

const FILE: &str = "menagerie.toml";

/// Gathers all that decides.
pub fn gather(
    zookeeper: Option<String>,
    namespace: Option<String>,
    config: Option<PathBuf>,
) -> Result<Inputs, ConfigError> {
    // What is no text is nothing that we could use.
    let environment: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with("MENAGERIE_"))
        .collect();
    let file = file(config, &environment)?;
    Ok(Inputs { zookeeper, namespace, file, local: local(&environment), environment })
}

/// The first file that there is; one that was named must be there.
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
            // A file that we may not read must not silently count for nothing.
            Err(source) => {
                return Err(ConfigError::Read { path, named_by: "where it is looked for", source });
            }
        }
    }
    Ok(None)
}

/// What clients want of `addresses.json`.
#[derive(Deserialize)]
struct Addresses {
    pid: i32,
    keeper: String,
}

/// The keeper that `menagerie up` runs on this machine: ours, else the system's.
fn local(environment: &BTreeMap<String, String>) -> Option<(String, PathBuf)> {
    let data = environment.get("MENAGERIE_DATA").filter(|path| !path.is_empty()).map(PathBuf::from);
    DataArgs { data }.searched().into_iter().find_map(|root| {
        let path = root.join("addresses.json");
        let addresses: Addresses = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        is_alive(addresses.pid).then_some((addresses.keeper, path))
    })
}

/// A file that a killed process left behind leads nowhere, or to somebody else.
fn is_alive(pid: i32) -> bool {
    let Some(pid) = Pid::from_raw(pid) else { return false };
    match test_kill_process(pid) {
        Ok(()) => true,
        // Somebody else's process is alive too.
        Err(error) => error == rustix::io::Errno::PERM,
    }
}
