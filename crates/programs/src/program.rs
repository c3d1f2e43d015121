//! What to run, as whom, and within which limits.

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use menagerie_kernel::guard::{Command, Outcome, Stream, spawn};

use crate::OnDelay;
use crate::lease::Lease;
use crate::limits::Limits;

/// After a program that could not be started.
const START_PAUSE: Duration = Duration::from_secs(1);
const START_PAUSE_MAX: Duration = Duration::from_secs(30);

/// What to run, and within which limits.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The executable that guards it: [`menagerie_kernel::guard::this_program`], as a rule.
    pub guard: PathBuf,
    /// Between SIGTERM and SIGKILL, when it is stopped or takes too long.
    pub grace: Duration,
    /// The same when the lease runs out, at most; see [`lease_grace`](crate::lease_grace). A session time-out that has become
    /// shorter since makes it shorter.
    pub lease_grace: Duration,
    /// How long and how much.
    pub limits: Limits,
    /// As whom, if not as ourselves.
    pub user: Option<User>,
}

/// Somebody as whom programs run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// What they are called.
    pub name: String,
    /// Their number.
    pub id: u32,
    /// Their group's number.
    pub group: u32,
    /// Where they are at home.
    pub home: OsString,
}

/// Starts a program, however often it takes. What keeps it from starting is a fault of this machine and not of what is to be
/// done: too many open files, or a program that is being replaced. None, if it is to stop, or too late, before that.
pub(crate) async fn started<T, E: Error, F: Future<Output = Result<T, E>>>(
    lease: &Lease,
    on_delay: OnDelay<'_>,
    start: impl Fn() -> F,
    too_late: impl Fn(&E) -> bool,
) -> Option<T> {
    let mut pause = START_PAUSE;
    loop {
        let error = match start().await {
            Ok(started) => return Some(started),
            Err(error) if too_late(&error) => return None,
            Err(error) => error,
        };
        on_delay(&with_source(&error), pause);
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(START_PAUSE_MAX),
            () = lease.stopped() => return None,
        }
    }
}

fn with_source(error: &dyn Error) -> String {
    let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    format!("{error}{source}")
}

impl Program {
    /// What it is called.
    pub(crate) fn name(&self) -> String {
        self.command.first().map_or(String::new(), |program| program.to_string_lossy().into_owned())
    }

    /// Waits until what begins is not told to end at once: its guard would do so, one grace before the lease is over, and a
    /// lease that nobody could prolong for a while is short until ZooKeeper has answered twice. Not, if it is to stop.
    pub(crate) async fn may_begin(&self, lease: &Lease) -> bool {
        lease.lasts(self.lease_grace).await
    }

    /// As the guard is told of it; `grace` applies when the lease ends.
    pub(crate) fn command(&self, grace: Duration) -> Command {
        let nothing = OsString::new();
        let (program, args) = self.command.split_first().unwrap_or((&nothing, &[]));
        let command = Command::new(program, grace).args(args);
        match &self.user {
            Some(User { name, id, group, home }) => {
                command.user(*id, *group).env("USER", name).env("LOGNAME", name).env("HOME", home)
            }
            None => command,
        }
    }

    /// Runs it once, with its own output, before there is anything to do: it has to succeed.
    ///
    /// # Errors
    /// What is wrong.
    pub async fn run_once(&self) -> Result<(), String> {
        let started = spawn(self.command(self.lease_grace).stdin(Stream::Null), &self.guard).await;
        let mut running = started.map_err(|error| with_source(&error))?;
        self.limits.apply(running.command());
        match running.wait().await {
            Outcome::Exited(0) => Ok(()),
            Outcome::Exited(code) => Err(format!("it exited with code {code}")),
            Outcome::Signaled(signal) => Err(format!("it was ended by signal {signal}")),
            Outcome::Expired | Outcome::GuardDied => Err("its guard was killed".to_owned()),
        }
    }
}
