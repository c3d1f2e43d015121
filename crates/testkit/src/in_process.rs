//! The keeper on threads of the test.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use menagerie_keeper::{Config, Durability, Keeper};
use prometheus_client::registry::Registry;
use tempfile::TempDir;

use crate::ensemble::TICK_MS;
use crate::guard::Guard;
use crate::ports::free_port;

/// A keeper with fresh data within the test's process: nothing to build, nothing to start. It can be stopped and
/// restarted, but only a process can be killed or paused: see [`Keeper`](crate::Keeper).
pub struct InProcess {
    /// `None` while it is stopped.
    keeper: Option<Keeper>,
    config: Config,
    /// Removes the data if the process ends first, as it does when this lives in a static.
    _guard: Guard,
    data: TempDir,
}

impl InProcess {
    /// Starts one.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start() -> Self {
        let data = tempfile::tempdir().expect("a temporary directory can be made");
        // A port chosen by the keeper could be given to another process while it is stopped.
        let address = (Ipv4Addr::LOCALHOST, free_port()).into();
        let mut config = Config::new(data.path().to_owned(), address);
        config.tick_ms = TICK_MS;
        config.durability = Durability::Os;
        Self { keeper: Some(start(&config)), config, _guard: Guard::of_folder(data.path()), data }
    }

    /// Where it listens, also after a restart.
    pub fn address(&self) -> SocketAddr {
        self.config.listen
    }

    /// Where its data is.
    pub fn data(&self) -> &Path {
        self.data.path()
    }

    /// Stops the keeper: it finishes requests in flight, closes connections and keeps sessions. No effect if it is
    /// stopped.
    ///
    /// # Panics
    /// If it had failed before.
    pub fn stop(&mut self) {
        let Some(keeper) = self.keeper.take() else { return };
        keeper.stopper().stop();
        if let Err(failure) = keeper.wait() {
            panic!("the keeper had failed: {failure}");
        }
    }

    /// Restarts the keeper on the same data and port; stops it first if it still runs.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&mut self) {
        self.stop();
        self.keeper = Some(start(&self.config));
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        // Its threads must be gone before its data is; its result does not matter any more.
        if let Some(keeper) = self.keeper.take() {
            keeper.stopper().stop();
            let _ = keeper.wait();
        }
    }
}

fn start(config: &Config) -> Keeper {
    match Keeper::start(config.clone(), &mut Registry::default()) {
        Ok(keeper) => keeper,
        Err(failure) => panic!("the keeper does not start: {failure:?}; {}", failure.help()),
    }
}
