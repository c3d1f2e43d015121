//! A running command, as its wrapper sees it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use rustix::process::Signal;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::Child;
use tracing::warn;

use super::protocol::{FRAME_BYTES, Order, Report};
use super::spawn::Pipes;
use super::{Outcome, ProcessId, sweep};
use crate::clock::{Moment, nanos};

/// Gives orders to a guard. Cheap to clone, so that one loop can prolong the deadline while another one waits.
///
/// The guard executes orders in the order in which they were sent. None of them blocks; if the guard is gone they have
/// no effect, and [`Guarded::wait`] says why.
#[derive(Debug, Clone)]
pub struct Control {
    pub(super) channel: Arc<UnixStream>,
}

impl Control {
    pub(super) fn new(channel: Arc<UnixStream>) -> Self {
        Self { channel }
    }

    /// Sends this signal to the command's process group, as a terminal would.
    pub fn signal(&self, signal: Signal) {
        self.order(Order::Signal(signal.as_raw()));
    }

    /// Moves the deadline, to later or to earlier. SIGTERM goes to everything one grace before it, and SIGKILL at it.
    /// Once SIGTERM is sent, a later deadline has no effect.
    pub fn set_deadline(&self, deadline: Moment) {
        self.order(Order::Deadline(deadline.as_nanos()));
    }

    /// Sends SIGTERM to everything now, and SIGKILL to whatever is left after this grace, or at the deadline if that is
    /// earlier.
    pub fn stop(&self, grace: Duration) {
        self.order(Order::Stop(nanos(grace)));
    }

    fn order(&self, order: Order) {
        // Not through tokio: it may not know yet that the socket is writable, and this must not wait.
        let sent = send(&self.channel, &order.encode(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        // The buffer fills only if somebody has stopped (SIGSTOP) the guard. If it misses a deadline, the earlier one
        // stays.
        if sent == Err(Errno::AGAIN) {
            warn!(?order, "guard does not read its orders");
        }
    }
}

/// A command that runs under a guard. Dropping it kills the command and all its descendants, without waiting.
#[derive(Debug)]
pub struct Guarded {
    /// To the command's standard input, if that is piped. Dropping it ends that input.
    pub stdin: Option<pipe::Sender>,
    /// From the command's standard output, if that is piped.
    pub stdout: Option<pipe::Receiver>,
    /// From the command's standard error, if that is piped.
    pub stderr: Option<pipe::Receiver>,
    process: GuardProcess,
    command: ProcessId,
    /// The guard outlives the command, for the next one.
    stays: bool,
    /// Kept because [`Self::wait`] may be cancelled between the report and the end of the guard.
    outcome: Option<Outcome>,
}

/// The wrapper's handle of a guard process. Dropping it ends the guard and all that runs under it.
#[derive(Debug)]
pub(super) struct GuardProcess {
    pub control: Control,
    pub guard: ProcessId,
    pub child: Child,
    /// The value of [`MARKER`](super::spawn::MARKER) in the environment of its descendants.
    pub marker: String,
}

impl Guarded {
    pub(super) fn new(process: GuardProcess, command: ProcessId, stays: bool, pipes: Pipes) -> Self {
        let Pipes { stdin, stdout, stderr } = pipes;
        Self { stdin, stdout, stderr, process, command, stays, outcome: None }
    }

    /// The guard, for another command; `None` unless it is reusable and this command has ended.
    pub(super) fn into_process(self) -> Option<GuardProcess> {
        let ended =
            matches!(self.outcome, Some(Outcome::Exited(_) | Outcome::Signaled(_) | Outcome::Expired));
        (self.stays && ended).then_some(self.process)
    }

    /// The command. Its pid is also its process group.
    pub fn command(&self) -> ProcessId {
        self.command
    }

    /// The guard.
    pub fn guard(&self) -> ProcessId {
        self.process.guard
    }

    /// Sends orders to the guard.
    pub fn control(&self) -> &Control {
        &self.process.control
    }

    /// Waits until the command and all its descendants are gone.
    ///
    /// Cancel-safe. The caller must read piped outputs meanwhile: a command that waits for room in a full pipe does not
    /// end.
    pub async fn wait(&mut self) -> Outcome {
        if let Some(outcome) = self.outcome {
            self.reap_guard().await;
            return outcome;
        }
        let outcome = match read_report(&self.process.control.channel).await {
            Some(Report::Ended(end)) => Outcome::from(end),
            Some(Report::Expired(_)) => Outcome::Expired,
            Some(_) | None => {
                // The channel closes a moment before a dying guard's children become ours.
                self.reap_guard().await;
                warn!(
                    guard = self.process.guard.pid,
                    command = self.command.pid,
                    "guard died; killing what it guarded"
                );
                sweep::sweep(&self.process.marker, self.command).await;
                Outcome::GuardDied
            }
        };
        self.outcome = Some(outcome);
        self.reap_guard().await;
        outcome
    }

    async fn reap_guard(&mut self) {
        // Also ends a guard that sent a malformed report.
        if self.outcome.is_none() {
            let _ = self.process.child.start_kill();
        }
        if self.stays && !matches!(self.outcome, None | Some(Outcome::GuardDied)) {
            return;
        }
        // Fails only if somebody else has reaped it.
        let _ = self.process.child.wait().await;
    }
}

impl Drop for GuardProcess {
    fn drop(&mut self) {
        // Clones of the control would keep the channel open, and the command alive.
        let _ = shutdown(&self.control.channel, Shutdown::Both);
    }
}

/// The guard's next report; `None` if the guard is gone.
pub(super) async fn read_report(channel: &UnixStream) -> Option<Report> {
    loop {
        channel.readable().await.ok()?;
        let mut frame = [0; FRAME_BYTES];
        match channel.try_read(&mut frame) {
            Ok(FRAME_BYTES) => return Report::decode(&frame),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Frames are written whole.
            Ok(_) | Err(_) => return None,
        }
    }
}
