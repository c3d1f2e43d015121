//! How long a program may take, and how much memory.

use std::time::Duration;

use menagerie_kernel::Moment;
use menagerie_kernel::guard::{Control, Guarded, Outcome, ProcessId};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tokio::sync::watch;
use tracing::warn;

use crate::lease::Lease;

/// What a program may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// For what it is asked at once, however much that is.
    pub time: Option<Duration>,
    /// Bytes of address space, of each process.
    pub memory_bytes: Option<u64>,
}

/// Why a program was ended before it had answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// It is to stop, or its lease is over.
    Stopped,
    /// It took too long.
    TimeLimit,
}

impl Limits {
    /// Limits the memory of a process that has just been started. What it has started before that is not limited.
    pub(crate) fn apply(&self, process: ProcessId) {
        let Some(bytes) = self.memory_bytes else { return };
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
        if let Err(error) = prlimit(pid, Resource::As, limit) {
            warn!(pid = process.pid, %error, "its memory cannot be limited");
        }
    }

    /// Waits until a program has to be ended. Meanwhile its guard is told how long the lease lasts, when that changes.
    pub(crate) async fn cut(
        &self,
        lease: &Lease,
        valid_until: watch::Receiver<Moment>,
        control: &Control,
    ) -> Cut {
        let time = async {
            match self.time {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = time => Cut::TimeLimit,
            () = lease.stopped() => Cut::Stopped,
            () = prolong(valid_until, control) => Cut::Stopped,
        }
    }
}

/// Ends a program, and tells how that was. While the lease is kept up, so is its guard's deadline: what ends by that had no
/// right any more, and what does not end in its grace is killed for that.
pub(crate) async fn end(guarded: &mut Guarded, lease: &Lease, grace: Duration) -> Outcome {
    let control = guarded.control().clone();
    control.stop(grace);
    tokio::select! {
        ended = guarded.wait() => ended,
        () = prolong(lease.valid_until(), &control) => Outcome::Expired,
    }
}

/// Keeps a guard's deadline at the end of the lease. Never ends by itself: the guard has its last deadline.
async fn prolong(mut valid_until: watch::Receiver<Moment>, control: &Control) {
    while valid_until.changed().await.is_ok() {
        control.set_deadline(*valid_until.borrow_and_update());
    }
    std::future::pending().await
}
