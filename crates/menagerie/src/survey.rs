//! Asks each server for its version and mode.

use std::time::Duration;

use menagerie_kernel::words::{self, Answer};
use serde::Serialize;

use crate::config::Settings;

/// A healthy server answers at once.
pub const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Server {
    /// `host:port`
    pub address: String,
    /// `None` if it does not say.
    pub version: Option<String>,
    /// `standalone`, `leader`, `follower` or `observer`, if it says.
    pub mode: Option<String>,
    /// Why it does not say.
    pub note: Option<String>,
}

/// Asks all servers concurrently.
pub async fn servers(settings: &Settings) -> Vec<Server> {
    let tls = settings.tls_ca.is_some();
    let hosts = settings.servers.value.hosts().iter().cloned();
    let asked: Vec<_> = hosts.map(|host| (host.clone(), tokio::spawn(ask(host, tls)))).collect();
    let mut servers = Vec::with_capacity(asked.len());
    for (address, server) in asked {
        servers.push(server.await.unwrap_or_else(|error| silent(address, error.to_string())));
    }
    servers
}

async fn ask(address: String, tls: bool) -> Server {
    if tls {
        return silent(address, "not asked: four-letter words are not encrypted".to_owned());
    }
    match words::ask(&address, "srvr", PATIENCE).await.map(|answer| words::read_srvr(&answer)) {
        Ok(Answer::Report(report)) => {
            Server { address, version: Some(report.version), mode: Some(report.mode), note: None }
        }
        Ok(Answer::NotAllowed) => silent(address, "srvr is not in its 4lw.commands.whitelist".to_owned()),
        Ok(Answer::NotServing) => silent(address, "it runs, but has no quorum".to_owned()),
        Ok(Answer::Strange) => silent(address, "it does not answer like ZooKeeper".to_owned()),
        Err(error) => silent(address, error.to_string()),
    }
}

fn silent(address: String, note: String) -> Server {
    Server { address, version: None, mode: None, note: Some(note) }
}
