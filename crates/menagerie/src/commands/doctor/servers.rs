//! Checks each server by itself, and whether they form one ensemble.

use std::time::{Duration, Instant};

use menagerie_kernel::{Session, words};

use super::finding::Findings;
use crate::client;
use crate::config::Settings;
use crate::exit::CliError;
use crate::survey::{self, Server};

/// A server that takes longer to open a session is unusable for us.
const PATIENCE: Duration = Duration::from_secs(5);

/// Connects to each server and asks for its version and mode.
pub async fn examine(settings: &Settings, findings: &mut Findings) -> Result<(), CliError> {
    let surveyed = survey::servers(settings).await;
    let alone = surveyed.len() == 1;
    for server in &surveyed {
        let reached = reach(settings, server).await?;
        let description = match (&server.version, &server.mode, &server.note) {
            (Some(version), Some(mode), _) => format!("version {version}, {mode}"),
            (_, _, Some(note)) => note.clone(),
            _ => String::new(),
        };
        match reached {
            Ok(took) => {
                findings.ok(
                    "server",
                    format!("{}: a session within {} ms; {description}", server.address, took.as_millis()),
                );
            }
            Err(why) => {
                let finding = format!("{}: no session: {why}; {description}", server.address);
                let remedy =
                    "start it, or correct --zookeeper; check the port, the firewall and whether it wants TLS";
                // The other servers serve us meanwhile; if none does, the session check fails.
                if alone {
                    findings.fail("server", finding, remedy)
                } else {
                    findings.warn("server", finding, remedy)
                }
            }
        }
    }
    ensemble(&surveyed, findings);
    if let Some(leader) = surveyed.iter().find(|server| server.mode.as_deref() == Some("leader")) {
        quorum(leader, surveyed.len(), findings).await;
    }
    Ok(())
}

/// Opens a session on this server alone and returns how long that took.
async fn reach(settings: &Settings, server: &Server) -> Result<Result<Duration, String>, CliError> {
    let mut config = client::kernel_config(settings, &settings.servers.value.only(&server.address))?;
    config.timeout = config.timeout.min(PATIENCE);
    let began = Instant::now();
    Ok(match tokio::time::timeout(PATIENCE, Session::connect(config)).await {
        Ok(Ok(session)) => {
            let took = began.elapsed();
            client::close(session).await;
            Ok(took)
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("nothing within {} s", PATIENCE.as_secs())),
    })
}

/// Checks that the servers' own statements fit together.
fn ensemble(servers: &[Server], findings: &mut Findings) {
    let modes: Vec<&str> = servers.iter().filter_map(|server| server.mode.as_deref()).collect();
    let leaders = modes.iter().filter(|mode| **mode == "leader").count();
    let standalone = modes.iter().filter(|mode| **mode == "standalone").count();
    if modes.is_empty() {
        return;
    }
    match (leaders, standalone) {
        (0, 1) if servers.len() == 1 => {
            findings.ok("ensemble", "one standalone server: if it fails, no other takes over")
        }
        (_, 1..) if servers.len() > 1 => findings.fail(
            "ensemble",
            format!("{standalone} of {} servers are standalone: they are not one ensemble", servers.len()),
            "list only servers of one ensemble in --zookeeper",
        ),
        (2.., _) => findings.fail(
            "ensemble",
            format!("{leaders} servers lead: they are not one ensemble"),
            "list only servers of one ensemble in --zookeeper",
        ),
        (1, _) if servers.len().is_multiple_of(2) => findings.warn(
            "ensemble",
            format!(
                "{} servers with a leader: an even number tolerates no more failures than one server fewer",
                servers.len()
            ),
            "run an odd number of voting servers, and list them all",
        ),
        (1, _) => findings.ok("ensemble", format!("{} servers with a leader", servers.len())),
        (_, _) => findings.warn(
            "ensemble",
            format!("no leader among the {} servers that are listed", servers.len()),
            "list all servers of the ensemble in --zookeeper, so that clients can use any of them",
        ),
    }
}

/// Checks that followers keep up, if the leader says.
async fn quorum(leader: &Server, servers: usize, findings: &mut Findings) {
    let Ok(answer) = words::ask(&leader.address, "mntr", survey::PATIENCE).await else { return };
    let Some(synced) = words::read_synced_followers(&answer) else { return };
    let finding = format!("{} leads, and {synced} followers are up to date", leader.address);
    if synced + 1 >= servers {
        findings.ok("quorum", finding);
    } else {
        findings.warn(
            "quorum",
            finding,
            "find out why the others are behind: one more failure may stop the ensemble",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Health;
    use super::*;

    #[test]
    fn ensembles_that_are_none_are_found_out() {
        for (modes, health) in [
            (vec!["standalone"], Health::Ok),
            (vec!["leader", "follower", "follower"], Health::Ok),
            (vec!["leader", "follower"], Health::Warn),
            (vec!["follower"], Health::Warn),
            (vec!["standalone", "standalone"], Health::Fail),
            (vec!["leader", "leader", "follower"], Health::Fail),
        ] {
            let server = |mode: &&str| Server {
                address: "a:1".to_owned(),
                version: None,
                mode: Some((*mode).to_owned()),
                note: None,
            };
            let servers: Vec<Server> = modes.iter().map(server).collect();
            let mut findings = Findings::default();
            ensemble(&servers, &mut findings);
            assert_eq!(findings.count(health), 1, "{modes:?}: {findings:?}");
        }
    }
}
