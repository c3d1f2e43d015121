//! Delayed messages: they become visible, or are cancelled.

use std::time::Duration;

use bytes::Bytes;
use menagerie_journal::{Commit, DelayedId, Edit, Edited, Journal, Message, MessageId, Read};

use super::{Run, partition_id};

/// A delayed message.
#[derive(Debug, Clone)]
pub struct Delayed {
    pub part: usize,
    pub meta: Bytes,
    pub body: Bytes,
    pub life: Option<Duration>,
}

impl Run {
    /// Due messages become visible by themselves; the model learns their ids by reading.
    pub fn mature(&mut self) {
        let now = self.rig.clock.now();
        while let Some(first) = self.model.delayed.first_entry().filter(|first| first.key().due <= now) {
            self.model.past = Some(*first.key());
            let Delayed { part: index, body, life: ttl, .. } = first.remove();
            let last = self.model.parts[index].last;
            let read = Read::after(partition_id(index as u8), last).limit(1).wait(Duration::from_secs(60));
            let batch = self.runtime.block_on(self.store().read(read)).unwrap();
            let message = batch.messages.first().expect("what is due is there").clone();
            assert_eq!(message.body, body);
            assert_eq!(message.expires, ttl.map(|ttl| message.id.0.plus(ttl)));
            let part = &mut self.model.parts[index];
            part.last = message.id;
            part.messages.insert(message.id, message);
        }
    }

    pub fn cancel(&mut self, index: u8, n: u8) {
        let nth = self.model.delayed.keys().nth(usize::from(n) % self.model.delayed.len().max(1)).copied();
        let Some(id) = nth.filter(|_| !n.is_multiple_of(7)).or(self.model.past) else { return };
        // Only a request for its own partition cancels it.
        let own = self.model.delayed.get(&id).map(|delayed| delayed.part as u8);
        let (from, to) = if n.is_multiple_of(2) { (0, 4) } else { (index, index + 1) };
        let edits = (from..to).map(|index| Edit::Cancel { partition: partition_id(index), id }).collect();
        let commit = Commit { edits, ..Commit::default() };
        let edited = self.runtime.block_on(self.store().commit(commit)).unwrap().edits;
        let expected = (from..to).map(|index| match own == Some(index) {
            true => Edited::Changed,
            false => Edited::Missing,
        });
        assert_eq!(edited, expected.collect::<Vec<_>>());
        if edited.contains(&Edited::Changed) {
            self.model.delayed.remove(&id);
            self.model.past = Some(id);
        }
    }

    /// All of a partition, few at a time.
    pub fn check_delayed(&self, index: u8) {
        let delayed = |(id, delayed): (&DelayedId, &Delayed)| {
            let Delayed { meta, body, life, .. } = delayed.clone();
            let expires = life.map(|life| id.due.plus(life));
            (*id, Message { id: MessageId(id.put), meta, body, expires })
        };
        let ours = self.model.delayed.iter().filter(|(_, delayed)| delayed.part == usize::from(index));
        let expected: Vec<_> = ours.map(delayed).collect();
        let (mut found, mut after) = (Vec::new(), DelayedId::ZERO);
        loop {
            let read = Read { bytes_max: 4000, ..Read::delayed(partition_id(index), after).limit(7) };
            let batch = self.runtime.block_on(self.store().read(read)).unwrap();
            assert!(batch.gap.is_none() && batch.delayed.len() == batch.messages.len());
            assert!(batch.delayed.iter().all(|id| id.put <= batch.last.0));
            let Some(last) = batch.delayed.last() else { break };
            after = *last;
            found.extend(batch.delayed.into_iter().zip(batch.messages));
        }
        assert_eq!(found, expected);
    }
}
