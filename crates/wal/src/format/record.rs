//! One record: `len u32 | crc u32 | sequence u64 | synced u64 | payload`, padded with zeroes to 8 bytes.
//!
//! The checksum covers the segment's salt, then every byte of the record but itself, padding included.

use super::block::{long, word};

/// Bytes before the payload.
pub(crate) const PREFIX_BYTES: usize = 24;

/// A record whose checksum is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) sequence: u64,
    /// The highest sequence number known durable when this record's group was written.
    pub(crate) synced: u64,
    pub(crate) payload: &'a [u8],
}

impl Record<'_> {
    /// Its length on disk.
    pub(crate) fn bytes(&self) -> usize {
        stored_bytes(self.payload.len())
    }
}

/// Length on disk of a record with a payload of `len` bytes.
pub(crate) fn stored_bytes(len: usize) -> usize {
    (PREFIX_BYTES + len).next_multiple_of(8)
}

/// Appends the prefix of a record whose payload follows; [`finish`] completes it.
pub(crate) fn begin(group: &mut Vec<u8>, sequence: u64) {
    group.extend_from_slice(&[0; 8]);
    group.extend_from_slice(&sequence.to_le_bytes());
    group.extend_from_slice(&[0; 8]);
}

/// Pads the record that began at `start` and writes its length.
pub(crate) fn finish(group: &mut Vec<u8>, start: usize) {
    let len = group.len() - start - PREFIX_BYTES;
    group.resize(start + stored_bytes(len), 0);
    group[start..start + 4].copy_from_slice(&(len as u32).to_le_bytes());
}

/// Completes all records of a group: only when it is written is it known what was durable before it, and into which
/// segment, with which salt, it goes.
pub(crate) fn seal(group: &mut [u8], synced: u64, seed: u32) {
    let mut start = 0;
    while start < group.len() {
        let end = start + stored_bytes(word(group, start) as usize);
        let record = &mut group[start..end];
        record[16..24].copy_from_slice(&synced.to_le_bytes());
        let sum = checksum(record, seed);
        record[4..8].copy_from_slice(&sum.to_le_bytes());
        start = end;
    }
}

/// The record at `at`, if an intact one is there. Only the file limits its length: what was appended under a greater
/// limit than today's was acknowledged, too.
pub(crate) fn read(bytes: &[u8], at: usize, seed: u32) -> Option<Record<'_>> {
    let rest = bytes.get(at..).filter(|rest| rest.len() >= PREFIX_BYTES)?;
    let len = word(rest, 0);
    let record = rest.get(..stored_bytes(len as usize))?;
    let (sequence, synced) = (long(record, 8), long(record, 16));
    if synced >= sequence || word(record, 4) != checksum(record, seed) {
        return None;
    }
    Some(Record { sequence, synced, payload: &record[PREFIX_BYTES..PREFIX_BYTES + len as usize] })
}

fn checksum(record: &[u8], seed: u32) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(seed, &record[..4]), &record[8..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_record_is_covered() {
        for len in 0..20 {
            let mut group = Vec::new();
            begin(&mut group, 7);
            group.extend((0..len).map(|byte| byte as u8));
            finish(&mut group, 0);
            seal(&mut group, 5, 99);
            let whole = read(&group, 0, 99).unwrap();
            assert_eq!(
                (whole.sequence, whole.synced, whole.payload.len(), whole.bytes()),
                (7, 5, len, group.len())
            );
            assert_eq!(read(&group, 0, 98), None, "another segment's salt");
            for at in 0..group.len() {
                for flip in 1..=255 {
                    group[at] ^= flip;
                    assert_eq!(read(&group, 0, 99), None, "byte {at} xor {flip}");
                    group[at] ^= flip;
                }
                assert_eq!(read(&group[..at], 0, 99), None, "cut at {at}");
            }
        }
    }
}
