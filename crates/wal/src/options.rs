//! Options of a log.

use crate::format::header::HEADER_BYTES;

/// When a commit is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// When it returns: one fdatasync per group.
    Fsync,
    /// When the operating system gets to it: a crash of the process loses nothing, a power cut may lose any number
    /// of the last records. Before a snapshot is made durable, [`crate::Wal::sync`] must have returned.
    Os,
}

/// Options of a log. They may differ from one opening to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Length of a segment's file. The first one of a log is shorter, and a group longer than that gets a segment
    /// of its own length.
    pub segment_bytes: u64,
    /// Longest payload of an appended record. Existing records are read however long they are.
    pub record_bytes_max: u32,
    /// When a commit is durable.
    pub durability: Durability,
}

/// Bytes that are prepared while the caller waits, when a log is created or opened: about a millisecond of writing.
const INLINE_BYTES: u64 = 1 << 20;

impl Default for Options {
    fn default() -> Self {
        Self { segment_bytes: 32 << 20, record_bytes_max: 64 << 20, durability: Durability::Fsync }
    }
}

impl Options {
    /// Length of the first segment of a log.
    pub(crate) fn first_bytes(&self) -> u64 {
        self.segment_bytes.clamp(HEADER_BYTES, INLINE_BYTES)
    }

    /// Length to which a segment that ends at `end` is extended when it is opened again. Never beyond the length
    /// of a segment: one that grew with each opening would never be covered.
    pub(crate) fn reopened_bytes(&self, end: u64) -> u64 {
        self.segment_bytes.min(end + INLINE_BYTES).max(end)
    }

    /// Length of a new segment for a group of `group` bytes; when thrifty, as short as the first one.
    pub(crate) fn rolled_bytes(&self, group: u64, thrifty: bool) -> u64 {
        let usual = if thrifty { self.first_bytes() } else { self.segment_bytes };
        usual.max(HEADER_BYTES + group)
    }
}
