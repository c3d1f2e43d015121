//! A running program that is fed lines.

use std::sync::Arc;
use std::time::{Duration, Instant};

use menagerie_kernel::Moment;
use menagerie_kernel::guard::{GuardError, Guarded, Stream, spawn};
use tokio::net::unix::pipe;
use tracing::info;

use super::log::Log;
use super::stdout::Stdout;
use super::{Greeting, ServeError};
use crate::lines;
use crate::program::Program;

/// A program idle for this long loses its deadline. Most are asked again earlier, which saves their guards two messages
/// per line.
pub(super) const IDLE_AFTER: Duration = Duration::from_millis(20);

/// A running program.
pub(super) struct Running {
    pub guarded: Guarded,
    /// Time between SIGTERM and SIGKILL when its lease ends. Fixed when the guard starts.
    pub grace: Duration,
    /// Its guard's deadline; `None` if it has none.
    until: Option<Moment>,
    /// When it became idle.
    pub since: Instant,
    pub stdin: pipe::Sender,
    pub stdout: Stdout,
    pub log: Arc<Log>,
}

impl Running {
    /// Starts it, and waits for its greeting.
    pub(super) async fn start(
        program: &Program,
        greeting: Greeting,
        grace: Duration,
        line_bytes_max: usize,
    ) -> Result<Self, ServeError> {
        let name = program.name();
        let command = program.command(grace);
        let command = command.stdin(Stream::Piped).stdout(Stream::Piped).stderr(Stream::Piped);
        let mut guarded = spawn(command, &program.guard).await?;
        program.limits.apply(guarded.command());
        info!(program = name, pid = guarded.command().pid, "program started");
        let streams = (guarded.stdin.take(), guarded.stdout.take(), guarded.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
            return Err(GuardError::GuardDied { program: name }.into());
        };
        let mut running = Self {
            guarded,
            grace,
            until: None,
            since: Instant::now(),
            stdin,
            stdout: Stdout::new(stdout, line_bytes_max),
            log: Arc::new(Log::follow(stderr)),
        };
        if greeting == Greeting::Ready {
            let greeting = running.stdout.line().await;
            let greeting = greeting.and_then(|line| lines::greeting(&String::from_utf8_lossy(&line)));
            greeting.map_err(ServeError::NotReady)?;
        }
        Ok(running)
    }

    /// The process, for logs.
    pub(super) fn pid(&self) -> u32 {
        self.guarded.command().pid
    }

    /// Whether its guard has a deadline.
    pub(super) fn has_deadline(&self) -> bool {
        self.until.is_some()
    }

    /// Sets its guard's deadline, if it has changed.
    pub(super) fn set_deadline(&mut self, until: Moment) {
        if self.until.replace(until) != Some(until) {
            self.guarded.control().set_deadline(until);
        }
    }

    /// Lifts its guard's deadline: idle programs may wait for longer than any lease.
    pub(super) fn lift_deadline(&mut self) {
        if self.until.take().is_some() {
            self.guarded.control().set_deadline(Moment::NEVER);
        }
    }
}
