//! A server as tests see it: an address, and a process that can fail.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitStatus;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::guard::Guard;
use crate::process::{End, Process};

/// How to start, and restart, a server of some make.
pub(crate) trait Recipe: fmt::Debug + Send {
    /// Where it should listen at its first start; with port 0 it chooses one.
    fn address(&self) -> SocketAddr;
    /// Starts it without waiting. Every start uses the same data.
    fn spawn(&self, address: SocketAddr) -> Process;
    /// Waits until it serves, and returns where.
    fn wait_until_ready(&self, process: &mut Process, address: SocketAddr) -> SocketAddr;
    /// Where its data is.
    fn data(&self) -> &Path;
    /// Sets the tick for the next start.
    fn set_tick_ms(&mut self, tick_ms: u32);
}

/// A running server and its data. Dropping it ends the process and removes the data.
#[derive(Debug)]
pub struct Server {
    /// `None` between an end and a restart. Declared before the recipe, because the process must end before its data
    /// is removed.
    process: Option<Process>,
    address: SocketAddr,
    /// Removes the data if this process ends first.
    _guard: Guard,
    recipe: Box<dyn Recipe>,
}

impl Server {
    pub(crate) fn start(recipe: impl Recipe + 'static) -> Self {
        let mut server = Self::begin(recipe);
        server.wait_until_ready();
        server
    }

    /// Starts it without waiting: for servers that serve only together.
    pub(crate) fn begin(recipe: impl Recipe + 'static) -> Self {
        let address = recipe.address();
        let guard = Guard::of_folder(recipe.data());
        Self { process: Some(recipe.spawn(address)), address, _guard: guard, recipe: Box::new(recipe) }
    }

    /// Restarts it without waiting.
    pub(crate) fn begin_again(&mut self) {
        self.process = None;
        self.process = Some(self.recipe.spawn(self.address));
    }

    /// Sets the tick for the next start.
    pub(crate) fn set_tick_ms(&mut self, tick_ms: u32) {
        self.recipe.set_tick_ms(tick_ms);
    }

    pub(crate) fn wait_until_ready(&mut self) {
        let process = self.process.as_mut().expect("the server was started");
        self.address = self.recipe.wait_until_ready(process, self.address);
    }

    /// Whether there is a process, even a paused one.
    pub(crate) fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// Where it listens, also after a restart.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Path of its data, for tests that inspect or damage it.
    pub fn data(&self) -> &Path {
        self.recipe.data()
    }

    /// Kills it (SIGKILL). Everything acknowledged must be there after [`restart`](Self::restart).
    pub fn kill(&mut self) {
        self.take_process().kill();
    }

    /// Stops it (SIGTERM) and waits for its end.
    pub fn terminate(&mut self) -> ExitStatus {
        self.take_process().stop().status
    }

    /// Stops it (SIGTERM) without waiting.
    pub fn ask_to_end(&self) {
        self.process().signal(Signal::TERM);
    }

    /// Waits until it has ended.
    pub fn wait_for_end(&mut self) -> End {
        self.take_process().wait_for_end()
    }

    /// Its standard error so far.
    pub fn stderr(&self) -> String {
        self.process().stderr()
    }

    /// The pid of its process.
    pub fn pid(&self) -> u32 {
        self.process().id()
    }

    /// Freezes it (SIGSTOP): connections stay open, and it answers nothing from when this returns.
    pub fn pause(&self) {
        self.process().pause();
    }

    /// Ends a [`pause`](Self::pause).
    pub fn resume(&self) {
        self.process().resume();
    }

    /// Restarts it on the same data and port; kills it first if it still runs.
    pub fn restart(&mut self) {
        let address = self.address;
        self.begin_again();
        self.wait_until_ready();
        assert_eq!(address, self.address, "a restarted server has the address it had");
    }

    /// Restarts it and kills it after `life`, whether it serves by then or not.
    pub fn restart_briefly(&mut self, life: Duration) {
        self.process = None;
        let mut process = self.recipe.spawn(self.address);
        // Not a wait for anything: the moment should be arbitrary.
        thread::sleep(life);
        process.kill();
    }

    fn process(&self) -> &Process {
        self.process.as_ref().expect("the server runs; restart it after kill or terminate")
    }

    fn take_process(&mut self) -> Process {
        self.process.take().expect("the server runs; restart it after kill or terminate")
    }
}
