//! The states of a peer and the ways between them.

use menagerie_znodes::flows::PeerState;

/// Why a peer changes its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The scheduler offers it a task.
    Offered,
    /// It accepts, and the task is still open.
    Acked,
    /// Its share is drained, and others still work on the task.
    Drained,
    /// Its share is drained, and everybody else waits.
    DrainedLast,
    /// It waits, and the peer that sealed died.
    Promoted,
    /// It has sealed.
    Sealed,
    /// The task needs it no longer, or cannot use it now: it is complete, its job has ended, everybody who worked on it
    /// is dead, or there is more urgent work.
    Released,
}

/// The next state; `None` if there is no such way. From every state a peer may die, which ends its record.
pub fn next(state: PeerState, cause: Cause) -> Option<PeerState> {
    use PeerState::{Acking, Active, Idle, Sealing, Waiting};
    match (state, cause) {
        (Idle, Cause::Offered) => Some(Acking),
        (Acking, Cause::Acked) => Some(Active),
        (Active, Cause::Drained) => Some(Waiting),
        (Active, Cause::DrainedLast) | (Waiting, Cause::Promoted) => Some(Sealing),
        (Sealing, Cause::Sealed) | (Acking | Active | Waiting | Sealing, Cause::Released) => Some(Idle),
        (Idle, Cause::Acked | Cause::Drained | Cause::DrainedLast | Cause::Promoted)
        | (Idle, Cause::Sealed | Cause::Released)
        | (Acking, Cause::Offered | Cause::Drained | Cause::DrainedLast | Cause::Promoted | Cause::Sealed)
        | (Active, Cause::Offered | Cause::Acked | Cause::Promoted | Cause::Sealed)
        | (Waiting, Cause::Offered | Cause::Acked | Cause::Drained | Cause::DrainedLast | Cause::Sealed)
        | (Sealing, Cause::Offered | Cause::Acked | Cause::Drained | Cause::DrainedLast | Cause::Promoted) => {
            None
        }
    }
}
