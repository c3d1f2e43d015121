//! A long-running `menagerie` process.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::process::Command;

use crate::process::Process;

/// A [`Process`] that has reported ready and can be restarted: a journal, a worker, any role that prints `<role>
/// ready`. [`kill`](Process::kill) sends SIGKILL, [`stop`](Process::stop) SIGTERM. Dropping it kills it; its data
/// stays where its command keeps it.
#[derive(Debug)]
pub struct Daemon {
    process: Process,
    role: String,
    /// For restarts.
    command: Command,
    /// Where it listens, if it does.
    address: Option<SocketAddr>,
}

impl Daemon {
    /// Starts a command and waits until it reports ready.
    ///
    /// # Panics
    /// If it does not in time.
    #[track_caller]
    pub fn start(role: &str, mut command: Command) -> Self {
        let process = Process::spawn(&mut command);
        let address = process.wait_until_ready(role).parse().ok();
        Self { process, role: role.to_owned(), command, address }
    }

    /// Where it listens, also after a restart.
    ///
    /// # Panics
    /// If it does not listen.
    #[track_caller]
    pub fn address(&self) -> SocketAddr {
        match self.address {
            Some(address) => address,
            None => panic!("{} has not said where it listens", self.role),
        }
    }

    /// Restarts the same command, and waits until it is ready; kills it first if it still runs.
    ///
    /// # Panics
    /// If it is not ready in time, or listens elsewhere: then its port was not of our choice, see
    /// [`serve`](crate::Environment::serve).
    #[track_caller]
    pub fn restart(&mut self) {
        self.process.kill();
        self.process = Process::spawn(&mut self.command);
        let address = self.process.wait_until_ready(&self.role).parse().ok();
        assert_eq!(address, self.address, "a restarted {} has the address it had", self.role);
    }
}

impl Deref for Daemon {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl DerefMut for Daemon {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.process
    }
}
