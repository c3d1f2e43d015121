//! `menagerie up --demo`: a small job of every engine, beside everything else.
//!
//! - `slots.rs`: five hosts want the same at once. `queues.rs`: two workers share a queue.

mod queues;
mod slots;

use std::net::SocketAddr;
use std::thread;

use menagerie_kernel::Config;
use tracing::warn;

use crate::client;
use crate::exit::CliError;

/// Runs it.
pub fn start(keeper: SocketAddr, namespace: &str) -> Result<(), CliError> {
    let config = Config::new(keeper.to_string(), namespace);
    // Where clients look by themselves there is nothing to say.
    let hint = match keeper.port() {
        2181 => String::new(),
        _ => format!(" --zookeeper {keeper}"),
    };
    let run = move || {
        let shown = client::block_on(async {
            let (slots, queues) = tokio::join!(slots::run(config.clone(), &hint), queues::run(config, &hint));
            for error in [slots.err(), queues.err()].into_iter().flatten() {
                warn!(error, "the demo has ended early");
            }
            Ok(())
        });
        if let Err(error) = shown {
            warn!(%error, "there is no demo");
        }
    };
    let spawned = thread::Builder::new().name("demo".to_owned()).spawn(run);
    spawned.map(drop).map_err(CliError::io("start a thread"))
}
