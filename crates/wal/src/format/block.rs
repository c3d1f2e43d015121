//! The frame that the mark and a segment's header share: 64 bytes with a magic, a version and a checksum over all the
//! others.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | magic |
//! | 8 | 4 | format version |
//! | 12 | 4 | CRC32C of the other 60 bytes |
//! | 16 | 48 | fields |

/// Length of a block: below the 512 bytes that a disk writes whole or not at all.
pub(crate) const BLOCK_BYTES: usize = 64;
/// The format this program reads and writes.
pub(crate) const VERSION: u32 = 1;
const FIELDS: usize = 16;

pub(crate) type Block = [u8; BLOCK_BYTES];

/// Why a block cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    Damaged,
    Newer(u32),
}

/// Encodes fields after the magic, and seals them with a checksum.
pub(crate) fn seal(magic: &[u8; 8], fields: [u64; 6]) -> Block {
    let mut block = [0; BLOCK_BYTES];
    block[..8].copy_from_slice(magic);
    block[8..12].copy_from_slice(&VERSION.to_le_bytes());
    for (field, at) in fields.iter().zip((FIELDS..).step_by(8)) {
        block[at..at + 8].copy_from_slice(&field.to_le_bytes());
    }
    let sum = checksum(&block);
    block[12..16].copy_from_slice(&sum.to_le_bytes());
    block
}

/// The fields of an intact block.
pub(crate) fn open(magic: &[u8; 8], block: &Block) -> Result<[u64; 6], Unreadable> {
    if &block[..8] != magic {
        return Err(Unreadable::Damaged);
    }
    // Before the checksum: a newer format may well compute it differently.
    let version = word(block, 8);
    if version > VERSION {
        return Err(Unreadable::Newer(version));
    }
    if version != VERSION || word(block, 12) != checksum(block) {
        return Err(Unreadable::Damaged);
    }
    Ok(std::array::from_fn(|field| long(block, FIELDS + 8 * field)))
}

fn checksum(block: &Block) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&block[..12]), &block[FIELDS..])
}

/// The four bytes at `at` as a number. The caller has checked that they are there.
pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// The eight bytes at `at` as a number. The caller has checked that they are there.
pub(crate) fn long(bytes: &[u8], at: usize) -> u64 {
    let mut long = [0; 8];
    long.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(long)
}
