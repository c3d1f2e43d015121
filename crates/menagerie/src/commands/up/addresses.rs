//! Addresses of everything that runs: a block for people, and `addresses.json`, with which commands on this machine
//! find it.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

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
    pub fn write(&self, root: &Path) -> io::Result<()> {
        let partial = root.join(format!("{ADDRESSES}.partial"));
        fs::write(&partial, serde_json::to_vec_pretty(&self.json())?)?;
        fs::rename(&partial, root.join(ADDRESSES))
    }

    fn json(&self) -> Value {
        let roles = self.roles.iter().filter_map(|role| Some((role.kind, role.ready.address?)));
        let all = roles.chain(self.metrics.map(|address| ("metrics", address)));
        let mut fields: Map<String, Value> =
            all.map(|(kind, address)| (kind.to_owned(), address.to_string().into())).collect();
        fields.insert("pid".to_owned(), std::process::id().into());
        fields.into()
    }

    /// Prints ready lines for programs and a block for people.
    pub fn print(&self, root: &Path, open: bool) {
        for role in &self.roles {
            for line in role.ready.lines(role.kind) {
                println!("{line}");
            }
        }
        println!();
        for Listed { kind, ready, about } in &self.roles {
            let address = ready.address.map(|address| address.to_string()).unwrap_or_default();
            println!("  {kind:<10}{address:<22}{}", about.replace("ADDRESS", &address));
        }
        if let Some(metrics) = self.metrics {
            println!("  metrics   {:<22}/metrics and /healthz", metrics.to_string());
        }
        println!("  data      {}", root.display());
        if open {
            println!("  access    everybody who reaches the keeper");
        } else {
            println!(
                "  access    this user; other clients by the secret in {}",
                secret::path(root).display()
            );
        }
        println!();
        println!("Ctrl-C stops everything.");
    }
}
