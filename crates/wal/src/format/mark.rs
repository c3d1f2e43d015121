//! The mark: how far the log was durable, and its state. Fields: log id, state, sequence, base, end, length.

use super::block::{self, Block, Unreadable};

const MAGIC: &[u8; 8] = b"menagMRK";

/// The state of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// No segment has been used; there may be one, empty.
    New,
    /// Records may follow the mark.
    Open,
    /// No record follows the mark. The last segment is being truncated or extended: bytes after `end` are meaningless,
    /// and its length can be anything from `end` on.
    Still,
    /// Closed cleanly: the last segment ends at `end`.
    Closed,
}

/// The content of the mark file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Identifies the log; its segments carry it, too.
    pub(crate) log: u64,
    pub(crate) state: State,
    /// Everything up to here was durable when the mark was written.
    pub(crate) sequence: u64,
    /// The segment in use, by its first sequence number.
    pub(crate) base: u64,
    /// Where in that segment the record after `sequence` goes.
    pub(crate) end: u64,
    /// Length of that segment's file.
    pub(crate) length: u64,
}

impl Mark {
    pub(crate) fn encode(&self) -> Block {
        let state = match self.state {
            State::New => 0,
            State::Open => 1,
            State::Still => 2,
            State::Closed => 3,
        };
        block::seal(MAGIC, [self.log, state, self.sequence, self.base, self.end, self.length])
    }

    pub(crate) fn decode(bytes: &Block) -> Result<Self, Unreadable> {
        let [log, state, sequence, base, end, length] = block::open(MAGIC, bytes)?;
        let state = match state {
            0 => State::New,
            1 => State::Open,
            2 => State::Still,
            3 => State::Closed,
            _ => return Err(Unreadable::Damaged),
        };
        Ok(Self { log, state, sequence, base, end, length })
    }
}
