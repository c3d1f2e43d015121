//! The program of a build, under its guard.

use std::fs::File;
use std::future::{Future, pending};
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use menagerie_kernel::guard::{Command, Control, GuardError, Guarded, Outcome, Stream, spawn};
use menagerie_kernel::recipes::grant::Grant;
use menagerie_kernel::{Moment, whole};
use menagerie_programs::lease_grace;
use menagerie_znodes::pipelines::FrozenJob;
use tokio::time::sleep;

use super::build::End;
use super::environment::withheld;
use super::workspace::Prepared;

/// Time between SIGTERM and SIGKILL, at most: a short lease shortens it.
const GRACE: Duration = Duration::from_secs(10);

/// A program that runs.
pub(super) struct Process {
    guarded: Guarded,
    time_limit: Duration,
}

impl Process {
    /// Starts a program. It may run as long as the grant holds.
    pub(super) async fn start(
        prepared: &Prepared,
        environment: Vec<(&'static str, String)>,
        log: File,
        grant: &Grant,
        job: &FrozenJob,
        guard: &Path,
    ) -> Result<Self, End> {
        wait_for_lease(grant).await?;
        let command = Command::new(&prepared.program, grace(grant))
            .directory(&prepared.directory)
            .stdin(Stream::Null)
            .output_to(log)
            .deadline(*grant.valid_until().borrow());
        let command = withheld().fold(command, Command::env_remove);
        let command =
            environment.into_iter().fold(command, |command, (name, value)| command.env(name, value));
        let guarded = spawn(command, guard).await.map_err(|error| not_started(&error, job))?;
        Ok(Self { guarded, time_limit: Duration::from_secs(job.timeout_s) })
    }

    /// Waits until nothing of the program is left. Stops it when it is interrupted or takes too long; the deadline of its
    /// guard follows the lease all the time.
    pub(super) async fn run(
        mut self,
        grant: &Grant,
        interrupted: Pin<&mut impl Future<Output = End>>,
    ) -> End {
        let control = self.guarded.control().clone();
        let seconds = self.time_limit.as_secs();
        let end = tokio::select! {
            // A program that has ended has ended, whatever happened at the same time.
            biased;
            outcome = self.guarded.wait() => return end_of(outcome),
            end = interrupted => end,
            () = sleep(self.time_limit) => End::TimedOut(format!("it took longer than {seconds} s")),
            never = extend_deadline(grant, &control) => never,
        };
        control.stop(grace(grant));
        tokio::select! {
            outcome = self.guarded.wait() => match outcome {
                // Its deadline came before our order: somebody else may have the build by now.
                Outcome::Expired => End::Lost,
                Outcome::Exited(_) | Outcome::Signaled(_) | Outcome::GuardDied => end,
            },
            never = extend_deadline(grant, &control) => never,
        }
    }
}

/// The guard sends SIGTERM one grace before the end of the lease, so a shorter lease must be extended first.
async fn wait_for_lease(grant: &Grant) -> Result<(), End> {
    let mut valid_until = grant.valid_until();
    let is_long = |until: &Moment| *until > Moment::after(grace(grant));
    tokio::select! {
        until = valid_until.wait_for(is_long) => until.map(drop).map_err(|_| End::Lost),
        _ = grant.lost() => Err(End::Lost),
    }
}

fn grace(grant: &Grant) -> Duration {
    lease_grace(GRACE, grant.term().timeout())
}

/// Keeps the guard's deadline at the end of the lease. Never returns: once the lease is over, the last deadline stands.
async fn extend_deadline<T>(grant: &Grant, control: &Control) -> T {
    let mut valid_until = grant.valid_until();
    loop {
        control.set_deadline(*valid_until.borrow_and_update());
        if valid_until.changed().await.is_err() {
            return pending().await;
        }
    }
}

fn end_of(outcome: Outcome) -> End {
    match outcome {
        Outcome::Exited(0) => End::Success,
        Outcome::Exited(_) => End::Failure(None),
        Outcome::Signaled(signal) => End::Failure(Some(format!("it was ended by signal {signal}"))),
        Outcome::Expired => End::Lost,
        Outcome::GuardDied => End::Aborted("its guard was killed".to_owned()),
    }
}

fn not_started(error: &GuardError, job: &FrozenJob) -> End {
    match error {
        GuardError::TooLate { .. } => End::Lost,
        GuardError::NoProgram { source, .. } => End::Error(format!(
            "{} of {} cannot be run: {source}. Its first line must name an interpreter that executors have, as in #!/bin/sh.",
            job.run, job.project
        )),
        GuardError::NoDirectory { .. }
        | GuardError::NoInput { .. }
        | GuardError::NoGuard { .. }
        | GuardError::GuardDied { .. } => End::Aborted(format!("the executor failed: {}", whole(error))),
    }
}
