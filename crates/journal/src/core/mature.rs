//! Delayed messages that are due become visible, and those whose topics are gone go, too.

use std::ops::Bound;

use super::clock::Hour;
use super::decide::{Answer, Facts, Verdict};
use super::delayed;
use super::pending::Pending;
use super::record::Change;
use super::state::{Spot, State};
use crate::error::JournalError;
use crate::id::{MessageId, Ticks};

/// At most so many become visible with one record, and not many more bytes: meanwhile everybody else waits.
pub(crate) const MATURE_MAX: usize = 1000;
const MATURE_BYTES: u64 = 4 << 20;
/// So many are looked at when those are sought whose topics are gone.
const LOOKED_AT_MAX: usize = 16_384;

/// A delayed message: when it is due, and its id in the waiting room.
pub(crate) type Waits = (u64, u64);

/// Delayed messages that are due and could not be read: they stay where they are, and the others are not kept waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PassedOver {
    pub(crate) count: u64,
    /// The last of them, for which partition it is, and why.
    pub(crate) last: Waits,
    pub(crate) spot: Spot,
    pub(crate) why: JournalError,
}

impl State {
    /// What is due behind one of them, the oldest first. While the clock is doubted, that is what would be due without it,
    /// and of what has come since then, all that is due by it.
    pub(crate) fn due(&self, hour: Hour, after: Waits) -> impl Iterator<Item = (&Waits, &Spot)> {
        let behind =
            move |from: Waits| self.delayed.range((Bound::Excluded(after.max(from)), Bound::Unbounded));
        let before = behind((0, 0)).take_while(move |((due, _), _)| *due <= hour.sure);
        let since = behind((hour.since, u64::MAX)).take_while(move |((due, _), _)| *due <= hour.now);
        before.chain(since.filter(move |((_, put), _)| *put >= hour.since))
    }
}

impl Facts<'_> {
    /// What is due behind `after`.
    pub(super) fn mature(&self, after: Waits, hour: Hour, pending: &mut Pending) -> Verdict {
        if !pending.claim() {
            return Verdict::Later;
        }
        let (mut changes, mut bytes) = (Vec::new(), 0);
        let mut passed: Option<PassedOver> = None;
        for ((due, id), spot) in self.state.due(hour, after).take(MATURE_MAX) {
            let (waiting, mut message) = match delayed::waiting(self, *id) {
                Ok(found) => found,
                Err(why) => {
                    let count = passed.map_or(0, |passed| passed.count) + 1;
                    passed = Some(PassedOver { count, last: (*due, *id), spot: *spot, why });
                    continue;
                }
            };
            let id = pending.next_id(self.state, *spot, self.now);
            message.id = MessageId(Ticks(id));
            message.expires = message.expires.map(|ttl| Ticks(id.saturating_add(ttl.0)));
            bytes += u64::from(waiting.bytes);
            changes.push(Change::Mature { due: *due, waiting, spot: *spot, message });
            if bytes > MATURE_BYTES {
                break;
            }
        }
        Verdict::Yes(self.record(changes), Answer::Matured(passed))
    }

    /// Cancels those whose topics are gone. What cannot be read stays: nobody knows its place in its block.
    pub(super) fn forget(&self, after: Waits, pending: &mut Pending) -> Verdict {
        if !pending.claim() {
            return Verdict::Later;
        }
        let (mut changes, mut looked) = (Vec::new(), None);
        let behind = self.state.delayed.range((Bound::Excluded(after), Bound::Unbounded));
        for ((due, id), spot) in behind.take(LOOKED_AT_MAX) {
            looked = Some((*due, *id));
            if self.state.partition(*spot).is_some() {
                continue;
            }
            if let Ok((waiting, _)) = delayed::waiting(self, *id) {
                changes.push(Change::Cancel { due: *due, waiting, spot: *spot });
            }
            if changes.len() >= MATURE_MAX {
                break;
            }
        }
        Verdict::Yes(self.record(changes), Answer::Forgotten(looked))
    }
}
