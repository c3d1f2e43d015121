//! The first 64 bytes of a segment. Fields: log id, base, base of the previous segment, its length, salt (16).

use super::block::{self, BLOCK_BYTES, Block, Unreadable};

/// Where the first record of a segment begins.
pub(crate) const HEADER_BYTES: u64 = BLOCK_BYTES as u64;
const MAGIC: &[u8; 8] = b"menagLOG";

/// The header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// The log it belongs to, so that files of two logs cannot be mixed.
    pub(crate) log: u64,
    /// Sequence number of its first record.
    pub(crate) base: u64,
    /// The segment before it. Its length is kept here because it is final when this one is begun: a segment that
    /// was cut or lengthened since does not agree with its successor.
    pub(crate) previous: Previous,
    /// Goes into the checksum of each record. Drawn at random for each segment, so that neither records left over
    /// from a former life of the file, nor bytes a client chose, can pass for records of this one.
    pub(crate) salt: [u8; 16],
}

/// The segment before another; zeroes before the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Previous {
    pub(crate) base: u64,
    pub(crate) length: u64,
}

impl Header {
    pub(crate) fn encode(&self) -> Block {
        let Previous { base, length } = self.previous;
        let (low, high) = (block::long(&self.salt, 0), block::long(&self.salt, 8));
        block::seal(MAGIC, [self.log, self.base, base, length, low, high])
    }

    pub(crate) fn decode(bytes: &Block) -> Result<Self, Unreadable> {
        let [log, base, previous_base, length, low, high] = block::open(MAGIC, bytes)?;
        let mut salt = [0; 16];
        salt[..8].copy_from_slice(&low.to_le_bytes());
        salt[8..].copy_from_slice(&high.to_le_bytes());
        Ok(Self { log, base, previous: Previous { base: previous_base, length }, salt })
    }

    /// Where the checksum of each record of this segment starts from.
    pub(crate) fn seed(&self) -> u32 {
        crc32c::crc32c(&self.salt)
    }
}
