//! A program: command, user and limits.

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use menagerie_kernel::guard::{Command, Outcome, Stream, spawn};

use crate::OnDelay;
use crate::lease::Lease;
use crate::limits::Limits;

/// Back-off after a program could not be started.
const START_PAUSE: Duration = Duration::from_secs(1);
const START_PAUSE_MAX: Duration = Duration::from_secs(30);

/// What to run, as whom, and within which limits.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The guard's executable: [`menagerie_kernel::guard::this_program`], as a rule.
    pub guard: PathBuf,
    /// Time between SIGTERM and SIGKILL when it is stopped or exceeds its time limit.
    pub grace: Duration,
    /// The same when its lease ends, at most; see [`lease_grace`](crate::lease_grace). A shorter session time-out
    /// shortens it.
    pub lease_grace: Duration,
    /// Time and memory limits.
    pub limits: Limits,
    /// Run as this user; as ourselves if `None`.
    pub user: Option<User>,
}

/// A user that programs run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Login name.
    pub name: String,
    /// User id.
    pub id: u32,
    /// Primary group id.
    pub group: u32,
    /// Home directory.
    pub home: OsString,
}

/// Starts a program, and retries with back-off until it succeeds. A failed start is the machine's fault, not the job's:
/// too many open files, or a program that is being replaced. `None` if the order to stop comes first, or it is too
/// late.
pub(crate) async fn start_with_retries<T, E: Error, F: Future<Output = Result<T, E>>>(
    stopped: impl Future<Output = ()>,
    on_delay: OnDelay<'_>,
    start: impl Fn() -> F,
    too_late: impl Fn(&E) -> bool,
) -> Option<T> {
    let mut pause = START_PAUSE;
    let mut stopped = pin!(stopped);
    loop {
        let error = match start().await {
            Ok(started) => return Some(started),
            Err(error) if too_late(&error) => return None,
            Err(error) => error,
        };
        on_delay(&with_source(&error), pause);
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(START_PAUSE_MAX),
            () = &mut stopped => return None,
        }
    }
}

fn with_source(error: &dyn Error) -> String {
    let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    format!("{error}{source}")
}

impl Program {
    /// The command's name, for logs.
    pub(crate) fn name(&self) -> String {
        self.command.first().map_or(String::new(), |program| program.to_string_lossy().into_owned())
    }

    /// Waits until the lease is long enough to begin: the guard sends SIGTERM one grace before its end. After an
    /// interruption a lease stays short until ZooKeeper has answered twice. `false` if the order to stop comes first.
    pub(crate) async fn wait_for_lease(&self, lease: &Lease) -> bool {
        lease.wait_for_grace(self.lease_grace).await
    }

    /// The command for the guard; `grace` applies when the lease ends.
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

    /// Runs it once, with its own output, as a check that must succeed.
    ///
    /// # Errors
    /// Why it did not succeed.
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
