//! The same on the operating system's disk, where spares are made on a separate thread.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use menagerie_wal::{Durability, Error, Options, Recovery, Wal, verify};

use crate::harness::{Records, expected, payload};

const OPTIONS: Options =
    Options { segment_bytes: 16 << 10, record_bytes_max: 1 << 20, durability: Durability::Fsync };

fn open(dir: &Path, covered: u64) -> Result<(Wal, Recovery, Records), Error> {
    let mut records = Vec::new();
    let (wal, recovery) = Wal::open(dir, OPTIONS, covered, |sequence, payload| {
        records.push((sequence, payload.to_vec()));
        Ok::<(), Error>(())
    })?;
    Ok((wal, recovery, records))
}

fn commit_each(wal: &mut Wal, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        wal.append(&[&payload(number)]).unwrap();
        if number % 10 == 0 {
            wal.commit().unwrap();
        }
    }
    wal.commit().unwrap();
}

#[test]
fn a_log_rolls_recycles_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let (mut wal, recovery, _) = open(dir.path(), 0).unwrap();
    assert_eq!(recovery, Recovery::default());
    commit_each(&mut wal, 1..=2000);
    assert!(wal.segments() > 4);
    wal.drop_covered(1500).unwrap();
    commit_each(&mut wal, 2001..=3000);
    wal.close().unwrap();
    let report = verify(dir.path(), 1500).unwrap();
    assert!(report.clean && report.last_sequence == 3000);
    let (mut wal, recovery, records) = open(dir.path(), 1500).unwrap();
    assert_eq!((recovery.torn, records), (None, expected(1501..=3000)));
    commit_each(&mut wal, 3001..=3100);
    drop(wal);
    let (wal, recovery, records) = open(dir.path(), 1500).unwrap();
    assert_eq!((recovery.torn, records), (None, expected(1501..=3100)));
    wal.close().unwrap();
}

#[test]
fn files_of_dropped_segments_are_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let (mut wal, ..) = open(dir.path(), 0).unwrap();
    commit_each(&mut wal, 1..=2000);
    let inode = |name: &str| std::fs::metadata(dir.path().join(name)).map(|found| found.ino());
    let first = inode("log-0000000000000001").unwrap();
    wal.drop_covered(2000).unwrap();
    let mut number = 2000;
    let reused = |number| {
        (1..=number).any(|base| inode(&format!("log-{base:016x}")).is_ok_and(|found| found == first))
    };
    // A roll waits for the thread only if it has no spare; so it may take a few until the file is back.
    while !reused(number) {
        assert!(number < 20_000, "the file is not used again");
        commit_each(&mut wal, number + 1..=number + 500);
        number += 500;
    }
    drop(wal);
    assert_eq!(open(dir.path(), 2000).unwrap().2, expected(2001..=number));
}

#[test]
fn damage_is_found_on_the_real_disk_too() {
    let dir = tempfile::tempdir().unwrap();
    let (mut wal, ..) = open(dir.path(), 0).unwrap();
    commit_each(&mut wal, 1..=100);
    wal.close().unwrap();
    let path = dir.path().join("log-0000000000000001");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[1000] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let error = open(dir.path(), 0).map(|(_, recovery, _)| recovery).unwrap_err();
    assert!(matches!(&error, Error::Damaged { file, .. } if *file == path), "{error}");
}

#[test]
fn a_directory_that_is_not_there_is_not_created() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    assert!(matches!(open(&missing, 0), Err(Error::Io { action: "open", .. })));
    assert!(!missing.exists());
}
