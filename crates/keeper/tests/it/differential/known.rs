//! Where the keeper is meant to differ from Apache ZooKeeper 3.8.0, the only version at hand: all of it, here. It behaves
//! as 3.9, and it does not copy what is plainly a fault.
//!
//! # Masked: both are sent, and what differs is not compared
//! - Identities from `whoAmI`, access lists and children come in the order of Java's hashes: sorted.
//! - Ephemerals of one closed session go in that order too: the events of that step are sorted ([`events_have_no_order`]).
//! - Events carry their transaction from 3.9 on, -1 before: [`event_zxid_is_right`] says what is right for whom.
//! - A refused `multi` or `multiRead` has now and then an empty list of results behind the error; clients do not look:
//!   [`body_behind_error`].
//!
//! # Not generated: Apache's answer is an accident, or no answer
//! - `check` on its own that succeeds: Apache never replies.
//! - `createTTL` with another flag and a negative TTL: Apache logs it, dies of it, and dies again of the log.
//! - `createSession` from a client: Apache answers with a second handshake.
//! - `sasl`: nobody configured it on either side.
//! - Null strings, null lists of watches, text that is not UTF-8: Apache trips over them differently in each operation
//!   (and `multi` leaves a hole in the transactions); the keeper answers all with a marshalling error.
//! - In a `multi`, a creation whose flags belong to another operation (a container that is ephemeral, a TTL without
//!   `createTTL`): Apache forgets the operation and goes by the flags, or refuses the whole `multi`.
//! - `getAllChildrenNumber` of the empty path: Apache counts the root as its own child.
//! - A wrong password for a session that is connected: Apache closes the innocent connection first.
//! - Quotas: Apache judges by what is applied, so a `multi`, or writes that come close together, go beyond a hard limit.
//!
//! # Not generated: 3.9 decided otherwise
//! - Kinds 4 and 5 (persistent, recursive) of `checkWatches` and `removeWatches`: unknown to 3.8.
//! - Kinds 1 and 2 of those on a persistent watch: 3.8 keeps such a watch as one on data and one on children, and takes
//!   away one half.
//! - `checkWatches` on a path that another session watches: 3.8 finds that session's watch.
//! - Two ways of watching one path in one session: in 3.8 the later replaces the earlier, in 3.9 they stand side by side.

use menagerie_testkit::Notification;
use menagerie_wire::OpCode;

use super::script::Action;

/// Which make of server a transcript comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Make {
    Keeper,
    Apache38,
}

/// Whether the order of the events of this step is anybody's.
pub fn events_have_no_order(action: &Action) -> bool {
    match action {
        Action::Close => true,
        Action::Cut(cut) => cut.under_way.iter().any(|message| message.op == OpCode::CloseSession.code()),
        Action::Send(_) | Action::Resume(_) | Action::ConnectAhead => false,
    }
}

/// Whether the event's header is as it should be, given the transaction of the step that caused it. Events that tell of
/// what was missed while away have no transaction in 3.9 either.
pub fn event_zxid_is_right(make: Make, event: &Notification, action: &Action, cause: Option<i64>) -> bool {
    let missed = |op| matches!(OpCode::from_code(op), Some(OpCode::SetWatches | OpCode::SetWatches2));
    match (make, action) {
        (Make::Apache38, _) => event.zxid == -1,
        (Make::Keeper, Action::Send(message)) if missed(message.op) => event.zxid == -1,
        // Each of the requests that were under way may have caused it; what was asked behind them has seen them all.
        (Make::Keeper, Action::Cut(cut)) => match event.zxid {
            -1 => missed(cut.first.op),
            zxid => zxid > 0 && Some(zxid) <= cause,
        },
        (Make::Keeper, _) => Some(event.zxid) == cause,
    }
}

/// What stands behind the header of a refusal, as far as it is compared.
pub fn body_behind_error(op: i32, body: &[u8]) -> &[u8] {
    const NO_RESULTS: [u8; 9] = [0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff];
    match OpCode::from_code(op) {
        Some(OpCode::Multi | OpCode::MultiRead) if body == NO_RESULTS => &[],
        _ => body,
    }
}
