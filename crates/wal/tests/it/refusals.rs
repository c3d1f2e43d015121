//! Directories that are not a whole log of this program.

use menagerie_wal::sim::SimDisk;
use menagerie_wal::{Damage, Error};

use crate::harness::*;

fn refusal(disk: &SimDisk, covered: u64) -> Error {
    open(disk, SMALL, covered).map(|opened| opened.recovery).unwrap_err()
}

#[test]
fn segments_without_a_mark_are_refused() {
    for clean in [false, true] {
        let disk = SimDisk::new();
        let wal = small_log(&disk);
        if clean {
            wal.close().unwrap();
        }
        let mut files = disk.files();
        files.remove("mark");
        let error = refusal(&SimDisk::with_files(files), 0);
        assert!(matches!(error, Error::MarkMissing { .. }), "{error}");
        assert_eq!(error.to_string(), "/sim/mark is missing, but there is a log: /sim/log-0000000000000001");
    }
}

#[test]
fn a_missing_segment_is_named() {
    let disk = SimDisk::new();
    drop(small_log(&disk));
    let names = segments(&disk.files());
    for name in &names {
        let mut files = disk.files();
        files.remove(name);
        let error = refusal(&SimDisk::with_files(files), 0);
        assert!(matches!(error, Error::SegmentMissing { .. }), "{error}");
        assert!(error.to_string().contains(name.as_str()), "{error}");
    }
}

#[test]
fn a_newer_format_is_refused_as_such() {
    let disk = SimDisk::new();
    small_log(&disk).close().unwrap();
    for name in ["mark".to_owned(), segments(&disk.files()).remove(1)] {
        let error = refusal(&with_change(&disk, &name, |file| file[8] = 2), 0);
        assert!(matches!(error, Error::NewerFormat { found: 2, known: 1, .. }), "{error}");
        assert!(error.help().contains("newer program"));
    }
}

#[test]
fn a_segment_of_another_log_is_refused() {
    let disk = SimDisk::new();
    small_log(&disk).close().unwrap();
    // Made on a disk with other random numbers.
    let other = SimDisk::new().power_cut(&mut menagerie_wal::sim::Chance::new(99));
    small_log(&other).close().unwrap();
    let name = segments(&disk.files()).remove(1);
    let stranger = other.files()[&name].clone();
    let error = refusal(&with_change(&disk, &name, |file| *file = stranger), 0);
    assert!(matches!(error, Error::Damaged { damage: Damage::Foreign, .. }), "{error}");
}

#[test]
fn a_snapshot_ahead_of_the_log_is_refused() {
    assert!(matches!(refusal(&SimDisk::new(), 7), Error::Behind { last: 0, covered: 7, .. }));
    let disk = SimDisk::new();
    small_log(&disk).close().unwrap();
    assert!(matches!(refusal(&disk, LAST + 1), Error::Behind { last: LAST, .. }));
    drop(open(&disk, SMALL, LAST).unwrap());
    assert!(is_refusal(&refusal(&disk, LAST + 1)));
}

#[test]
fn a_segment_that_the_mark_cannot_have_missed_is_refused() {
    let disk = SimDisk::new();
    let wal = small_log(&disk);
    let old_mark = disk.files()["mark"].clone();
    wal.close().unwrap();
    let mut wal = open(&disk, SMALL, 0).unwrap().wal;
    commit(&mut wal, LAST + 1..=LAST + 20);
    drop(wal);
    let error = refusal(&with_change(&disk, "mark", |mark| *mark = old_mark), 0);
    assert!(is_refusal(&error), "{error}");
}

#[test]
fn the_owners_own_error_comes_back_and_changes_nothing() {
    #[derive(Debug)]
    enum OwnerError {
        Log(Error),
        Mine(u64),
    }
    impl From<Error> for OwnerError {
        fn from(error: Error) -> Self {
            Self::Log(error)
        }
    }
    let disk = SimDisk::new();
    small_log(&disk).close().unwrap();
    let files = disk.files();
    let opened = menagerie_wal::Wal::open_on(std::sync::Arc::new(disk.clone()), SMALL, 0, |sequence, _| {
        if sequence == 4 { Err(OwnerError::Mine(sequence)) } else { Ok(()) }
    });
    match opened.map(|(_, recovery)| recovery) {
        Err(OwnerError::Mine(4)) => {}
        Err(OwnerError::Mine(other)) => panic!("stopped at {other}"),
        Err(OwnerError::Log(error)) => panic!("{error}"),
        Ok(recovery) => panic!("{recovery:?}"),
    }
    assert_eq!(disk.files(), files);
}

#[test]
fn damage_names_file_offset_sequence_and_reason() {
    let disk = SimDisk::new();
    drop(small_log(&disk));
    let name = segments(&disk.files()).remove(0);
    let third = layout(&disk.files()[&name])[2].1.start;
    let error = refusal(&with_change(&disk, &name, |file| file[third + 30] ^= 4), 0);
    let next = u64::from_str_radix(&segments(&disk.files())[1][4..], 16).unwrap();
    assert_eq!(
        error.to_string(),
        format!(
            "/sim/{name} is damaged at offset {third} (sequence 3): a later segment begins with sequence {next}"
        )
    );
}
