//! Time and memory limits of a program.

use std::time::Duration;

use menagerie_kernel::Moment;
use menagerie_kernel::guard::{Control, Guarded, Outcome, ProcessId};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tokio::sync::watch;
use tracing::warn;

use crate::lease::Lease;

/// Limits of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Time per question, whatever its size.
    pub time: Option<Duration>,
    /// Address space per process, in bytes.
    pub memory_bytes: Option<u64>,
}

/// Why we interrupt a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// It must stop, or its lease is over.
    Stopped,
    /// It exceeded its time limit.
    TimeLimit,
}

impl Limits {
    /// Limits the memory of a process that has just started. Processes it has started by then are not limited.
    pub(crate) fn apply(&self, process: ProcessId) {
        let Some(bytes) = self.memory_bytes else { return };
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
        if let Err(error) = prlimit(pid, Resource::As, limit) {
            warn!(pid = process.pid, %error, "its memory cannot be limited");
        }
    }

    /// Waits until a program must be ended. Meanwhile extends its guard's deadline along with the lease.
    pub(crate) async fn wait_for_interruption(
        &self,
        lease: &Lease,
        valid_until: watch::Receiver<Moment>,
        control: &Control,
    ) -> Interruption {
        let time = async {
            match self.time {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = time => Interruption::TimeLimit,
            () = lease.stopped() => Interruption::Stopped,
            () = extend_deadline(valid_until, control) => Interruption::Stopped,
        }
    }
}

/// Ends a program, and returns how it ended. Keeps extending the guard's deadline with the lease, so that a program
/// killed by its deadline had really lost its lease, and one that outlasts its grace is killed for that.
pub(crate) async fn end_program(guarded: &mut Guarded, lease: &Lease, grace: Duration) -> Outcome {
    let control = guarded.control().clone();
    control.stop(grace);
    tokio::select! {
        ended = guarded.wait() => ended,
        () = extend_deadline(lease.valid_until(), &control) => Outcome::Expired,
    }
}

/// Keeps a guard's deadline at the end of the lease. Never returns: if the lease is dropped, the last deadline stands.
async fn extend_deadline(mut valid_until: watch::Receiver<Moment>, control: &Control) {
    while valid_until.changed().await.is_ok() {
        control.set_deadline(*valid_until.borrow_and_update());
    }
    std::future::pending().await
}

/// The error of what was ended because its time limit was over.
pub(crate) fn took_too_long(limit: Option<Duration>) -> String {
    let limit = limit.map(|limit| format!(" of {limit:?}")).unwrap_or_default();
    format!("it took longer than its time limit{limit}")
}
