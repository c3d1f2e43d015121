//! Makes due messages visible, and drops delayed messages whose topics are gone.

use std::ops::Bound;

use super::clock::TrustedTime;
use super::decide::{Answer, Facts, Verdict};
use super::delayed;
use super::pending::Pending;
use super::record::Change;
use super::state::{PartitionKey, State};
use crate::error::JournalError;
use crate::id::{MessageId, Ticks};

/// Most messages that one record makes visible, and about how many bytes: everybody else waits meanwhile.
pub(crate) const MATURE_MAX: usize = 1000;
const MATURE_BYTES: u64 = 4 << 20;
/// Most entries that one step examines in search of deleted topics.
const EXAMINED_MAX: usize = 16_384;

/// A delayed message: when it is due, and its id in the waiting room.
pub(crate) type DelayedKey = (u64, u64);

/// Due messages that could not be read: they stay delayed, and do not hold up the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skipped {
    pub(crate) count: u64,
    /// The last of them, its partition, and the error.
    pub(crate) last: DelayedKey,
    pub(crate) partition_key: PartitionKey,
    pub(crate) why: JournalError,
}

impl State {
    /// The due messages after this one, oldest first. While the clock is doubted: those that are certainly due, and of
    /// those that came since then, all that are due by the doubted clock.
    pub(crate) fn due(
        &self,
        time: TrustedTime,
        after: DelayedKey,
    ) -> impl Iterator<Item = (&DelayedKey, &PartitionKey)> {
        let behind =
            move |from: DelayedKey| self.delayed.range((Bound::Excluded(after.max(from)), Bound::Unbounded));
        let before = behind((0, 0)).take_while(move |((due, _), _)| *due <= time.sure);
        let since = behind((time.since, u64::MAX)).take_while(move |((due, _), _)| *due <= time.now);
        before.chain(since.filter(move |((_, put), _)| *put >= time.since))
    }
}

impl Facts<'_> {
    /// Makes the messages visible that are due after this one.
    pub(super) fn mature(&self, after: DelayedKey, time: TrustedTime, pending: &mut Pending) -> Verdict {
        if !pending.claim() {
            return Verdict::Later;
        }
        let (mut changes, mut bytes) = (Vec::new(), 0);
        let mut passed: Option<Skipped> = None;
        for ((due, id), partition_key) in self.state.due(time, after).take(MATURE_MAX) {
            let (waiting, mut message) = match delayed::waiting(self, *id) {
                Ok(found) => found,
                Err(why) => {
                    let count = passed.map_or(0, |passed| passed.count) + 1;
                    passed = Some(Skipped { count, last: (*due, *id), partition_key: *partition_key, why });
                    continue;
                }
            };
            let id = pending.next_id(self.state, *partition_key, self.now);
            message.id = MessageId(Ticks(id));
            message.expires = message.expires.map(|ttl| Ticks(id.saturating_add(ttl.0)));
            bytes += u64::from(waiting.bytes);
            changes.push(Change::Mature { due: *due, waiting, partition_key: *partition_key, message });
            if bytes > MATURE_BYTES {
                break;
            }
        }
        Verdict::Yes(self.record(changes), Answer::Matured(passed))
    }

    /// Cancels messages whose topics are gone. Those that cannot be read stay: their slot in their block is unknown.
    pub(super) fn forget(&self, after: DelayedKey, pending: &mut Pending) -> Verdict {
        if !pending.claim() {
            return Verdict::Later;
        }
        let (mut changes, mut looked) = (Vec::new(), None);
        let behind = self.state.delayed.range((Bound::Excluded(after), Bound::Unbounded));
        for ((due, id), partition_key) in behind.take(EXAMINED_MAX) {
            looked = Some((*due, *id));
            if self.state.partition(*partition_key).is_some() {
                continue;
            }
            if let Ok((waiting, _)) = delayed::waiting(self, *id) {
                changes.push(Change::Cancel { due: *due, waiting, partition_key: *partition_key });
            }
            if changes.len() >= MATURE_MAX {
                break;
            }
        }
        Verdict::Yes(self.record(changes), Answer::Forgotten(looked))
    }
}
