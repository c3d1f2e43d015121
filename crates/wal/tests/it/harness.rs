//! Shared by the tests: a small log, opening it, and reading its files without the crate's own code.

use std::collections::BTreeMap;
use std::sync::Arc;

use menagerie_wal::sim::SimDisk;
use menagerie_wal::{Durability, Error, Options, Recovery, Wal};

/// Segments so small that a dozen records fill several.
pub const SMALL: Options =
    Options { segment_bytes: 512, record_bytes_max: 2048, durability: Durability::Fsync };
pub const HEADER_BYTES: usize = 64;
pub const PREFIX_BYTES: usize = 24;

pub type Records = Vec<(u64, Vec<u8>)>;

pub struct Opened {
    pub wal: Wal,
    pub recovery: Recovery,
    pub records: Records,
}

pub fn open(disk: &SimDisk, options: Options, covered: u64) -> Result<Opened, Error> {
    let mut records = Vec::new();
    let (wal, recovery) = Wal::open_on(Arc::new(disk.clone()), options, covered, |sequence, payload| {
        records.push((sequence, payload.to_vec()));
        Ok::<(), Error>(())
    })?;
    Ok(Opened { wal, recovery, records })
}

/// The records of a log that must open.
pub fn records(disk: &SimDisk) -> Records {
    open(disk, SMALL, 0).expect("the log is sound").records
}

/// A payload that differs for each number, in content and length.
pub fn payload(number: u64) -> Vec<u8> {
    (0..8 + number * 7 % 37).map(|byte| (number * 31 + byte * 5 + 1) as u8).collect()
}

pub fn expected(numbers: impl IntoIterator<Item = u64>) -> Records {
    numbers.into_iter().map(|number| (number, payload(number))).collect()
}

/// Commits one group with a record for each number, whose sequence number it must get.
pub fn commit(wal: &mut Wal, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        assert_eq!(wal.append(&[&payload(number)]).unwrap(), number);
    }
    wal.commit().unwrap();
}

/// The groups of the small log: three segments, and a last group of three records.
pub const GROUPS: &[std::ops::RangeInclusive<u64>] =
    &[1..=1, 2..=4, 5..=5, 6..=6, 7..=9, 10..=10, 11..=14, 15..=15, 16..=17, 18..=20];
pub const LAST: u64 = 20;

/// A log with all [`GROUPS`], still open.
pub fn small_log(disk: &SimDisk) -> Wal {
    let mut wal = open(disk, SMALL, 0).unwrap().wal;
    for group in GROUPS {
        commit(&mut wal, group.clone());
    }
    assert!(wal.segments() >= 3, "only {} segments", wal.segments());
    wal
}

/// Where the records of a segment are: sequence number, and its bytes as a range. Trusts the file.
pub fn layout(segment: &[u8]) -> Vec<(u64, std::ops::Range<usize>)> {
    let mut found = Vec::new();
    let mut at = HEADER_BYTES;
    while at + PREFIX_BYTES <= segment.len() {
        let sequence = u64::from_le_bytes(segment[at + 8..at + 16].try_into().unwrap());
        if sequence == 0 {
            break;
        }
        let len = u32::from_le_bytes(segment[at..at + 4].try_into().unwrap()) as usize;
        let end = at + (PREFIX_BYTES + len).next_multiple_of(8);
        found.push((sequence, at..end));
        at = end;
    }
    found
}

pub fn segments(files: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    files.keys().filter(|name| name.starts_with("log-")).cloned().collect()
}

pub fn last_segment(disk: &SimDisk) -> String {
    segments(&disk.files()).pop().unwrap()
}

/// A copy of a disk with one file changed, everything durable.
pub fn with_change(disk: &SimDisk, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> SimDisk {
    let mut files = disk.files();
    change(files.get_mut(name).unwrap());
    SimDisk::with_files(files)
}

/// True for the refusals that say what is wrong with the files.
pub fn is_refusal(error: &Error) -> bool {
    match error {
        Error::Damaged { .. }
        | Error::MarkMissing { .. }
        | Error::SegmentMissing { .. }
        | Error::SegmentUnknown { .. }
        | Error::NewerFormat { .. }
        | Error::Behind { .. } => true,
        Error::Io { .. }
        | Error::Full { .. }
        | Error::OutOfFiles { .. }
        | Error::Exists { .. }
        | Error::TooLarge { .. } => false,
    }
}
