//! What can be told from the bytes of one segment; no IO.
//!
//! # Why an intact record behind a tear proves nothing by itself
//!
//! A group of records is one write, and until its sync has returned the disk may hold any of its sectors and not
//! the others. So after a power cut the third record of a group can be intact and the second torn, and nobody has
//! been told that either was safe: cutting both is right. Had the second been acknowledged, a sync had returned
//! after it, and each record of each *later* group says so, in its `synced` field. Hence the rule: a damaged
//! record is known to have been durable exactly if an intact record behind it has `synced` at or above it.

use crate::dir::nonzero_bytes;
use crate::error::Damage;
use crate::format::block::long;
use crate::format::header::HEADER_BYTES;
use crate::format::record::{self, PREFIX_BYTES, Record};

/// A segment's bytes and what is needed to read them.
#[derive(Clone, Copy)]
pub(crate) struct Segment<'a> {
    pub(crate) bytes: &'a [u8],
    /// From the salt in its header.
    pub(crate) seed: u32,
}

/// The first place that does not hold the record expected there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stop {
    pub(crate) offset: usize,
    pub(crate) sequence: u64,
}

/// Up to where records are known to have been durable, from outside the segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Proven {
    pub(crate) mark: u64,
    pub(crate) covered: u64,
}

/// How the last segment ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With zeroes, or with the file.
    Clean,
    /// With bytes of a group that was never durable.
    Torn {
        /// Up to the last that is not zero.
        bytes: usize,
    },
    /// With something that had been durable.
    Damaged(Damage),
}

impl<'a> Segment<'a> {
    /// Visits the records in order, the first having sequence number `base`, until one is not there.
    pub(crate) fn walk<E>(
        &self,
        base: u64,
        mut visit: impl FnMut(Record<'a>) -> Result<(), E>,
    ) -> Result<Stop, E> {
        let mut stop = Stop { offset: HEADER_BYTES as usize, sequence: base };
        while let Some(record) = record::read(self.bytes, stop.offset, self.seed) {
            if record.sequence != stop.sequence {
                break;
            }
            visit(record)?;
            stop.offset += record.bytes();
            stop.sequence += 1;
        }
        Ok(stop)
    }

    /// Bytes from `offset` to the last that is not zero.
    pub(crate) fn rest(&self, offset: usize) -> usize {
        nonzero_bytes(&self.bytes[offset..])
    }

    /// Decides about the end of the last segment after a crash.
    pub(crate) fn ending(&self, stop: Stop, proven: Proven) -> Ending {
        if stop.sequence <= proven.mark {
            return Ending::Damaged(Damage::BelowMark { mark: proven.mark });
        }
        if stop.sequence <= proven.covered {
            return Ending::Damaged(Damage::Covered { covered: proven.covered });
        }
        match (self.rest(stop.offset), self.evidence(stop)) {
            (0, _) => Ending::Clean,
            (_, Some(later)) => Ending::Damaged(later),
            (bytes, None) => Ending::Torn { bytes },
        }
    }

    /// An intact record behind `stop` that says that the one expected there had been durable.
    fn evidence(&self, stop: Stop) -> Option<Damage> {
        let end = stop.offset + self.rest(stop.offset);
        (stop.offset..end).step_by(8).find_map(|offset| {
            // Cheap questions first: payloads are full of numbers that look like lengths, and summing up
            // megabytes for each of them would take hours.
            if offset + PREFIX_BYTES > self.bytes.len() {
                return None;
            }
            let (sequence, synced) = (long(self.bytes, offset + 8), long(self.bytes, offset + 16));
            let distance = (offset - stop.offset) as u64;
            if synced < stop.sequence || synced >= sequence || sequence - stop.sequence > distance {
                return None;
            }
            let later = record::read(self.bytes, offset, self.seed)?;
            Some(Damage::LaterRecord {
                offset: offset as u64,
                sequence: later.sequence,
                synced: later.synced,
            })
        })
    }
}
