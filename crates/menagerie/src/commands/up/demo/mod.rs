//! `menagerie up --demo`: a small job for every engine, beside everything else.
//!
//! - `slots.rs`: five hosts want the same at once. `queues.rs`: two workers share a queue, and a message fails. `flows.rs`: virtual peers count
//!   the words of `text.txt`. `pipelines.rs`: a gate, on the repositories of `gate.rs`.

mod flows;
mod gate;
mod pipelines;
mod queues;
mod slots;

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use menagerie_kernel::whole;
use menagerie_queues::journals::{Access, TokenFiles};
use tokio::sync::watch;
use tracing::warn;

pub use gate::Gate;

use super::servers::Local;
use crate::client;
use crate::exit::CliError;

/// Longest wait for the demo to end.
const LEAVE: Duration = Duration::from_secs(30);

/// A running demo.
pub struct Demo {
    stop: watch::Sender<bool>,
    stopped: mpsc::Receiver<()>,
}

/// Becomes true when the demo is to end.
type Stopping = watch::Receiver<bool>;

async fn stop_requested(mut stopping: Stopping) {
    let _ = stopping.wait_for(|stop| *stop).await;
}

impl Demo {
    /// Starts it; files that it needs for a moment are in the data folder, `root`.
    pub fn start(
        local: &Local,
        token_file: &Path,
        root: &Path,
        gate: Option<Gate>,
    ) -> Result<Self, CliError> {
        let (config, keeper, root) = (local.config(), local.keeper, root.to_owned());
        let access = Access { tokens: TokenFiles::Named(token_file.to_owned()), authority: None };
        // Clients find a keeper on the default port by themselves.
        let menagerie = match keeper.port() {
            2181 => "menagerie".to_owned(),
            _ => format!("MENAGERIE_ZOOKEEPER={keeper} menagerie"),
        };
        let (stop, stopping) = watch::channel(false);
        let (done, stopped) = mpsc::channel();
        let run = move || {
            let shown = client::block_on(async {
                let gated = async {
                    match gate {
                        Some(gate) => {
                            let (config, access) = (config.clone(), access.clone());
                            pipelines::run(config, access, gate, &menagerie, stopping.clone()).await
                        }
                        None => Ok(()),
                    }
                };
                let (slots, queues, flows, gated) = tokio::join!(
                    slots::run(config.clone(), &menagerie, stopping.clone()),
                    queues::run(config.clone(), access.clone(), &root, &menagerie, stopping.clone()),
                    flows::run(config.clone(), &root, &menagerie, stopping.clone()),
                    gated,
                );
                for error in [slots.err(), queues.err(), flows.err(), gated.err()].into_iter().flatten() {
                    warn!(error, "the demo has ended early");
                }
                Ok(())
            });
            if let Err(error) = shown {
                warn!(error = %whole(&error), "there is no demo");
            }
            let _ = done.send(());
        };
        let spawned = thread::Builder::new().name("demo".to_owned()).spawn(run);
        spawned.map(|_| Self { stop, stopped }).map_err(CliError::io("start a thread"))
    }

    /// Ends the demo; keeper and journal must still run, so that it can close its sessions.
    pub fn stop(self) {
        self.stop.send_replace(true);
        let _ = self.stopped.recv_timeout(LEAVE);
    }
}
