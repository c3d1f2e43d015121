//! Addresses of everything that runs: a block for people, and `addresses.json`, with which commands on this machine
//! find it.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::secret;
use crate::role::Ready;

/// File in the data folder, while everything runs.
pub const ADDRESSES: &str = "addresses.json";

/// Serving roles in the order of their start.
#[derive(Debug, Default)]
pub struct Addresses {
    roles: Vec<Listed>,
    pub metrics: Option<SocketAddr>,
    /// With it, this user acts on the dashboard.
    pub token: Option<String>,
}

#[derive(Debug)]
struct Listed {
    kind: &'static str,
    ready: Ready,
    about: &'static str,
}

impl Addresses {
    /// Adds a serving role; `about` says what it is for, with ADDRESS where its address belongs.
    pub fn add(&mut self, kind: &'static str, ready: Ready, about: &'static str) {
        self.roles.push(Listed { kind, ready, about });
    }

    /// Atomic: a reader finds the old file or the new one, never half of one.
    pub fn write(&self, root: &Path) -> io::Result<AddressesFile> {
        let (file, partial) = (root.join(ADDRESSES), root.join(format!("{ADDRESSES}.partial")));
        fs::write(&partial, serde_json::to_vec_pretty(&self.json())?)?;
        fs::rename(&partial, &file)?;
        Ok(AddressesFile(file))
    }

    fn json(&self) -> Value {
        let roles = self.roles.iter().filter_map(|role| Some((role.kind, role.ready.address?)));
        let all = roles.chain(self.metrics.map(|address| ("metrics", address)));
        let mut fields: Map<String, Value> =
            all.map(|(kind, address)| (kind.to_owned(), address.to_string().into())).collect();
        fields.insert("pid".to_owned(), std::process::id().into());
        fields.into()
    }

    /// Ready lines for programs, and a block for people. Commands find what runs in the default data folder by themselves.
    pub fn text(&self, root: &Path, is_default: bool, open: bool) -> String {
        let mut lines: Vec<String> =
            self.roles.iter().flat_map(|role| role.ready.lines(role.kind)).chain([String::new()]).collect();
        for Listed { kind, ready, about } in &self.roles {
            let address = ready.address.map(|address| address.to_string()).unwrap_or_default();
            lines.push(format!("  {kind:<13}{address:<22}{}", about.replace("ADDRESS", &address)));
        }
        if let Some(metrics) = self.metrics {
            lines.push(format!("  metrics      {:<22}/metrics and /healthz", metrics.to_string()));
        }
        lines.push(format!("  data         {}", root.display()));
        lines.push(match open {
            true => "  access       everybody who reaches the keeper".to_owned(),
            false => format!(
                "  access       this user; other clients by the secret in {}",
                secret::path(root).display()
            ),
        });
        if !is_default {
            lines.push(format!("  commands     MENAGERIE_DATA={} menagerie …", root.display()));
        }
        let dashboard = self.roles.iter().find(|role| role.kind == "web").and_then(|role| role.ready.address);
        // What systemd keeps, others may read.
        let is_kept = std::env::var_os("JOURNAL_STREAM").is_some();
        if let Some((address, token)) = dashboard.zip(self.token.as_ref()).filter(|_| !is_kept) {
            lines.push(format!("\n  open         http://{address}/login?token={token}"));
        }
        lines.extend([String::new(), "Ctrl-C stops everything.".to_owned(), String::new()]);
        lines.join("\n")
    }
}

/// The file of a process that runs. Dropped, it is removed, so that nobody is misled to where nothing runs.
pub struct AddressesFile(PathBuf);

impl Drop for AddressesFile {
    fn drop(&mut self) {
        // Whoever has removed it before has done our work.
        let _ = fs::remove_file(&self.0);
    }
}
