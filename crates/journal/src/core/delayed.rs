//! Messages that are not due yet: reading and cancelling them.

use std::ops::Bound;

use bytes::Bytes;

use super::block::{self, BlockData};
use super::decide::Facts;
use super::edit;
use super::plan::StoredBytes;
use super::record::{BlockSlot, Change};
use super::state::{PartitionKey, State, WAITING};
use crate::commit::Edited;
use crate::error::JournalError;
use crate::id::{DelayedId, Ticks};
use crate::read::Message;

/// Most messages of a partition that one step returns, and most of all partitions that it examines: bounds for a read's
/// memory, and for how long it blocks others.
const FOUND_MAX: usize = 128;
const EXAMINED_MAX: usize = 16_384;

/// The next part of a read.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// Their ids, and where the block or the message itself is.
    pub(crate) found: Vec<(DelayedId, StoredBytes)>,
    /// Where to continue; `None` at the end.
    pub(crate) rest: Option<DelayedId>,
}

impl State {
    /// The next delayed messages of a partition after this one, in the order in which they are due.
    pub(crate) fn delayed_behind(
        &self,
        partition_key: PartitionKey,
        after: DelayedId,
        limit: usize,
    ) -> Result<Part, JournalError> {
        let behind = (Bound::Excluded((after.due.0, after.put.0)), Bound::Unbounded);
        let mut part = Part::default();
        for (((due, put), home), looked_at) in self.delayed.range(behind).zip(0..) {
            if looked_at >= EXAMINED_MAX || part.found.len() >= limit.min(FOUND_MAX) {
                return Ok(part);
            }
            let id = DelayedId { due: Ticks(*due), put: Ticks(*put) };
            if *home == partition_key {
                part.found.push((id, self.waits_at(*put).ok_or_else(|| lost(*put))?));
            }
            part.rest = Some(id);
        }
        part.rest = None;
        Ok(part)
    }

    fn waits_at(&self, put: u64) -> Option<StoredBytes> {
        let room = self.partition(WAITING)?;
        let data = &room.blocks[room.block_of(put)?].data;
        let range =
            |bytes: &[u8]| block::find(bytes, put).map(|(_, head)| head.offset..head.offset + head.len);
        Some(match data {
            BlockData::Open(bytes) => StoredBytes::Memory(Bytes::copy_from_slice(&bytes[range(bytes)?])),
            BlockData::Frozen(bytes) => StoredBytes::Memory(bytes.slice(range(bytes)?)),
            BlockData::Disk(location) => StoredBytes::Disk(*location),
        })
    }
}

/// A message in the waiting room, and its slot in its block.
pub(crate) fn waiting(facts: &Facts<'_>, put: u64) -> Result<(BlockSlot, Message), JournalError> {
    edit::lookup(facts, WAITING, put)?.ok_or_else(|| lost(put))
}

/// Cancels a message if it still waits, which includes one that is due but not visible yet.
pub(crate) fn cancel(
    facts: &Facts<'_>,
    partition_key: PartitionKey,
    id: DelayedId,
    changes: &mut Vec<Change>,
) -> Result<Edited, JournalError> {
    if facts.state.delayed.get(&(id.due.0, id.put.0)) != Some(&partition_key) {
        return Ok(Edited::Missing);
    }
    let (waiting, _) = waiting(facts, id.put.0)?;
    changes.push(Change::Cancel { due: id.due.0, waiting, partition_key });
    Ok(Edited::Changed)
}

pub(crate) fn lost(put: u64) -> JournalError {
    JournalError::Damaged(format!("delayed message {put:x} is not in its block"))
}

#[cfg(test)]
mod tests {
    use super::super::clock::TrustedTime;
    use super::super::decide::{Answer, Limits, Proposal, Verdict};
    use super::super::invariants;
    use super::super::pending::Pending;
    use super::*;
    use crate::commit::{Append, Appended, Commit, Edit, NewMessage};
    use crate::topic::{PartitionId, Topic, TopicConfig};

    const NOW: u64 = 1000;
    const TIME: TrustedTime = TrustedTime { now: 4000, sure: 4000, since: 4000 };

    /// The state, the time, and pending decisions.
    struct Bench {
        state: State,
        now: u64,
        pending: Pending,
    }

    impl Bench {
        fn new() -> Self {
            let mut bench = Self { state: State::new(), now: NOW, pending: Pending::default() };
            let config = TopicConfig::partitions(2);
            bench.apply(Proposal::Create { topic: Topic::new("mail").unwrap(), config });
            bench
        }

        fn decide(&mut self, mut proposal: Proposal) -> Verdict {
            let limits =
                Limits { message_bytes: 1 << 20, edits: 10, delayed: 1_000_000, quota: None, used: 0 };
            let load = |_, _| unreachable!("everything is in memory");
            let facts = Facts { state: &self.state, limits, now: self.now, steady: self.now, load: &load };
            facts.decide(&mut proposal, &mut self.pending).unwrap()
        }

        /// Decides in a separate group, and applies it.
        fn apply(&mut self, proposal: Proposal) -> Answer {
            self.pending = Pending::default();
            let Verdict::Yes(record, answer) = self.decide(proposal) else { panic!("nothing is in its way") };
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            let read = super::super::record::Record::decode(bytes.into()).unwrap();
            assert_eq!(read, record);
            self.state.apply(read, &mut |_| {});
            assert_eq!(invariants::violated(&self.state), None);
            self.pending = Pending::default();
            answer
        }

        fn delay(&mut self, number: u32, due: u64) -> DelayedId {
            match self.apply(Proposal::Commit(delay(number, due))) {
                Answer::Committed(committed) => match committed.appends[..] {
                    [Appended::Delayed(id)] => id,
                    ref other => panic!("it is delayed: {other:?}"),
                },
                other => panic!("it is committed: {other:?}"),
            }
        }

        fn cancel(&mut self, number: u32, id: DelayedId) -> Edited {
            match self.apply(cancel(number, id)) {
                Answer::Committed(committed) => committed.edits[0],
                other => panic!("it is committed: {other:?}"),
            }
        }

        /// All of a partition, and in how many steps.
        fn all(&self, number: u32, limit: usize) -> (Vec<DelayedId>, u32) {
            let (mut ids, mut after, mut looks) = (Vec::new(), Some(DelayedId::ZERO), 0);
            while let Some(behind) = after {
                let part = self.state.delayed_behind(PartitionKey::new(1, number), behind, limit).unwrap();
                ids.extend(part.found.iter().map(|(id, _)| *id));
                (after, looks) = (part.rest, looks + 1);
            }
            (ids, looks)
        }
    }

    fn partition(number: u32) -> PartitionId {
        PartitionId::new(Topic::new("mail").unwrap(), number)
    }

    fn delay(number: u32, due: u64) -> Commit {
        let message = NewMessage { due: Some(Ticks(due)), ..NewMessage::new("later") };
        Commit { appends: vec![Append { partition: partition(number), message }], ..Commit::default() }
    }

    fn cancel(number: u32, id: DelayedId) -> Proposal {
        let edits = vec![Edit::Cancel { partition: partition(number), id }];
        Proposal::Commit(Commit { edits, ..Commit::default() })
    }

    #[test]
    fn they_are_given_as_they_will_be_due_and_only_those_of_the_partition() {
        let mut bench = Bench::new();
        let late = bench.delay(1, 3000);
        let other = bench.delay(2, 1500);
        let (first, second) = (bench.delay(1, 2000), bench.delay(1, 2000));
        assert_eq!(bench.all(1, 10), (vec![first, second, late], 1));
        assert_eq!(bench.all(1, 1), (vec![first, second, late], 3), "ties are no trouble");
        assert_eq!(bench.all(2, 10).0, [other]);
        let behind = bench.state.delayed_behind(PartitionKey::new(1, 1), first, 1).unwrap();
        assert_eq!(behind.found[0].0, second);
    }

    #[test]
    fn a_look_ends_although_those_of_others_are_many() {
        let mut bench = Bench::new();
        let append = delay(2, 2000).appends.remove(0);
        let many = Commit { appends: vec![append; EXAMINED_MAX + 1], ..Commit::default() };
        bench.apply(Proposal::Commit(many));
        let last = bench.delay(1, 3000);
        assert_eq!(bench.all(1, 10), (vec![last], 2));
        let part = bench.state.delayed_behind(PartitionKey::new(1, 2), DelayedId::ZERO, usize::MAX).unwrap();
        assert_eq!((part.found.len(), part.rest), (FOUND_MAX, part.found.last().map(|(id, _)| *id)));
    }

    #[test]
    fn one_that_is_cancelled_is_never_visible_and_one_that_is_visible_is_never_cancelled() {
        let mut bench = Bench::new();
        let (early, late) = (bench.delay(1, 2000), bench.delay(1, 3000));
        assert_eq!(bench.cancel(2, early), Edited::Missing, "it is of another partition");
        assert_eq!(bench.cancel(1, DelayedId { due: Ticks(2001), ..early }), Edited::Missing);
        // Due, but not visible yet: whoever comes first gets it.
        bench.now = 4000;
        assert_eq!(bench.cancel(1, early), Edited::Changed);
        assert_eq!(bench.cancel(1, early), Edited::Missing);
        bench.apply(Proposal::Mature { after: (0, 0), time: TIME });
        assert_eq!(bench.cancel(1, late), Edited::Missing);
        assert_eq!(bench.state.partition(PartitionKey::new(1, 1)).unwrap().messages, 1);
        assert!(bench.state.delayed.is_empty());
    }

    #[test]
    fn what_is_on_its_way_is_waited_for() {
        let mut bench = Bench::new();
        let id = bench.delay(1, 2000);
        assert!(matches!(bench.decide(cancel(1, id)), Verdict::Yes(..)));
        assert!(matches!(bench.decide(cancel(1, id)), Verdict::Later), "it is being cancelled");
        assert!(matches!(bench.decide(Proposal::Mature { after: (0, 0), time: TIME }), Verdict::Later));
        bench.pending = Pending::default();
        assert!(matches!(bench.decide(Proposal::Commit(delay(1, 2000))), Verdict::Yes(..)));
        let next = DelayedId { due: Ticks(2000), put: Ticks(id.put.0 + 1) };
        assert!(matches!(bench.decide(cancel(1, next)), Verdict::Later), "it is being put");
    }

    #[test]
    fn a_time_beyond_all_times_is_the_last_one() {
        let mut bench = Bench::new();
        let id = bench.delay(1, u64::MAX);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(bench.cancel(1, id), Edited::Changed);
    }
}
