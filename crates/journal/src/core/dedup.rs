//! Dedup ids that a topic remembers.
//!
//! Two generations: ids go into the young one; when that is as old as the window, or too large, it becomes the old one
//! and the old one is forgotten. So an id is remembered for at least one window, at most two, unless there are too many.
//! Time is [`Steady`](super::clock::Steady): a wall clock that is set forgets nothing.

use std::collections::HashMap;

use bytes::Bytes;

use crate::codec::{Malformed, Sink, Source};

/// Most ids that a topic remembers in each of two generations. At about 100 bytes each, a full topic takes some 25 MB.
pub(crate) const GENERATION_MAX: usize = 131_072;

/// What an id was used for: the message; `None` for a delayed one.
pub(crate) type Use = Option<u64>;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Dedup {
    young: HashMap<Bytes, Use>,
    old: HashMap<Bytes, Use>,
    /// When the young generation began.
    since: u64,
}

impl Dedup {
    pub(crate) fn find(&self, id: &[u8]) -> Option<Use> {
        self.young.get(id).or_else(|| self.old.get(id)).copied()
    }

    /// Remembers an id.
    pub(crate) fn insert(&mut self, id: &[u8], used: Use, now: u64, window: u64) {
        if self.young.is_empty() {
            self.since = now;
        }
        if now.saturating_sub(self.since) > window || self.young.len() >= GENERATION_MAX {
            self.old = std::mem::take(&mut self.young);
            self.since = now;
        }
        // Copied: a slice would keep the whole batch in memory.
        self.young.insert(Bytes::copy_from_slice(id), used);
    }

    /// Forgets generations that are older than the window, even if nothing is inserted.
    pub(crate) fn age(&mut self, now: u64, window: u64) {
        if now.saturating_sub(self.since) > window.saturating_mul(2) {
            *self = Self::default();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

/// A dedup id as persisted between two snapshots, so that a snapshot need not repeat all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DedupRecord {
    pub(crate) topic: u32,
    pub(crate) now: u64,
    pub(crate) used: Use,
    pub(crate) id: Bytes,
}

/// Encodes a [`DedupRecord`] straight into a buffer.
pub(crate) fn note(topic: u32, now: u64, used: Use, id: &[u8], out: &mut Vec<u8>) {
    out.put_u32(topic);
    out.put_u64(now);
    out.put_u64(used.unwrap_or(0));
    out.put_short(id);
}

impl DedupRecord {
    pub(crate) fn decode(source: &mut Source) -> Result<Self, Malformed> {
        let (topic, now, used) = (source.u32()?, source.u64()?, source.u64()?);
        Ok(Self { topic, now, used: (used != 0).then_some(used), id: source.short()? })
    }
}
