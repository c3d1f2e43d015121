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
/// Orders are carried out in the order in which they were given. None of them blocks; if the guard is gone, they do
/// nothing, and [`Guarded::wait`] says why.
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

    /// Moves the deadline, to later or to earlier. SIGTERM goes to everything one grace before it, and SIGKILL at it. Once
    /// SIGTERM is sent, moving it to later saves nobody.
    pub fn set_deadline(&self, deadline: Moment) {
        self.order(Order::Deadline(deadline.as_nanos()));
    }

    /// SIGTERM now to everything, SIGKILL after this grace to whatever is left, or at the deadline if that is earlier.
    pub fn stop(&self, grace: Duration) {
        self.order(Order::Stop(nanos(grace)));
    }

    fn order(&self, order: Order) {
        // Past tokio: it may not have noticed yet that the socket takes bytes, and this must not wait to find out.
        let sent = send(&self.channel, &order.encode(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        // Only a guard that somebody has stopped reads nothing for so long. A deadline that it misses is one not prolonged.
        if sent == Err(Errno::AGAIN) {
            warn!(?order, "guard does not read its orders");
        }
    }
}

/// A command that runs under a guard. Dropping it kills the command and all that it has started, without waiting for it.
#[derive(Debug)]
pub struct Guarded {
    /// To the command's standard input, if that is piped. Dropping it ends that input.
    pub stdin: Option<pipe::Sender>,
    /// From the command's standard output, if that is piped.
    pub stdout: Option<pipe::Receiver>,
    /// From the command's standard error, if that is piped.
    pub stderr: Option<pipe::Receiver>,
    seat: Seat,
    command: ProcessId,
    /// The guard stays when the command has ended.
    stays: bool,
    /// Known before the guard is waited for: that wait may be interrupted.
    outcome: Option<Outcome>,
}

/// A guard process, as its wrapper has it. Dropped, it ends, and all that runs under it.
#[derive(Debug)]
pub(super) struct Seat {
    pub control: Control,
    pub guard: ProcessId,
    pub child: Child,
    /// What its descendants have in their environment.
    pub marker: String,
}

impl Guarded {
    pub(super) fn new(seat: Seat, command: ProcessId, stays: bool, pipes: Pipes) -> Self {
        let Pipes { stdin, stdout, stderr } = pipes;
        Self { stdin, stdout, stderr, seat, command, stays, outcome: None }
    }

    /// The guard, for another command: if it was started to stay, and this one has been waited for.
    pub(super) fn into_seat(self) -> Option<Seat> {
        let ended =
            matches!(self.outcome, Some(Outcome::Exited(_) | Outcome::Signaled(_) | Outcome::Expired));
        (self.stays && ended).then_some(self.seat)
    }

    /// The command. Its number is also that of its process group.
    pub fn command(&self) -> ProcessId {
        self.command
    }

    /// The guard.
    pub fn guard(&self) -> ProcessId {
        self.seat.guard
    }

    /// By which the guard gets its orders.
    pub fn control(&self) -> &Control {
        &self.seat.control
    }

    /// How the command ended. Returns when nothing is left of it and all that it has started.
    ///
    /// Can be dropped and called again without loss. Piped outputs have to be read meanwhile: a command that waits for room
    /// in a full pipe does not end.
    pub async fn wait(&mut self) -> Outcome {
        if let Some(outcome) = self.outcome {
            self.reap_guard().await;
            return outcome;
        }
        let outcome = match read_report(&self.seat.control.channel).await {
            Some(Report::Ended(end)) => Outcome::from(end),
            Some(Report::Expired(_)) => Outcome::Expired,
            Some(_) | None => {
                // The channel closes a moment before a dying guard's children become ours.
                self.reap_guard().await;
                warn!(
                    guard = self.seat.guard.pid,
                    command = self.command.pid,
                    "guard died; killing what it guarded"
                );
                sweep::sweep(&self.seat.marker, self.command).await;
                Outcome::GuardDied
            }
        };
        self.outcome = Some(outcome);
        self.reap_guard().await;
        outcome
    }

    async fn reap_guard(&mut self) {
        // Also ends one that has said something senseless.
        if self.outcome.is_none() {
            let _ = self.seat.child.start_kill();
        }
        if self.stays && !matches!(self.outcome, None | Some(Outcome::GuardDied)) {
            return;
        }
        // Fails only if somebody else has waited for it.
        let _ = self.seat.child.wait().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // Other clones of the control would keep the channel open, and with it the command alive.
        let _ = shutdown(&self.control.channel, Shutdown::Both);
    }
}

/// The guard's next report; none if it is gone.
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
