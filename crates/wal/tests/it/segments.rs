//! Segments: sizes, rolling, dropping, recycling.

use std::sync::Arc;

use menagerie_wal::sim::{Chance, SimDisk};
use menagerie_wal::{Durability, Error, Options, Wal, verify_on};

use crate::harness::*;

#[test]
fn dropped_segments_come_back_as_the_files_of_later_ones() {
    let disk = SimDisk::new();
    let mut wal = small_log(&disk);
    let old: Vec<_> = segments(&disk.files()).iter().map(|name| disk.inode(name)).collect();
    let dropped = wal.drop_covered(LAST).unwrap();
    assert_eq!(wal.segments(), 1);
    assert!(dropped >= 2);
    let spares = disk.files().keys().filter(|name| name.starts_with("spare-")).count();
    assert!((1..=2).contains(&spares), "{spares} spares");
    let mut reused = 0;
    for number in LAST + 1..LAST + 30 {
        commit(&mut wal, number..=number);
        reused = reused.max(
            segments(&disk.files()).iter().filter(|name| old[..dropped].contains(&disk.inode(name))).count(),
        );
    }
    assert!(reused >= 1, "no file was used again");
    drop(wal);
    let after = open(&disk.power_cut(&mut Chance::new(3)), SMALL, LAST).unwrap();
    assert_eq!(after.records, expected(LAST + 1..LAST + 30));
}

#[test]
fn a_thrifty_log_keeps_no_spares_and_begins_short_segments() {
    let disk = SimDisk::new();
    let options = Options { segment_bytes: 4 << 20, record_bytes_max: 1 << 20, ..SMALL };
    let mut wal = open(&disk, options, 0).unwrap().wal;
    let spares = |disk: &SimDisk| disk.files().keys().filter(|name| name.starts_with("spare-")).count();
    let record = vec![7; 300 << 10];
    let mut written = 0;
    let mut write = |wal: &mut Wal, count| {
        for _ in 0..count {
            wal.append(&[&record]).unwrap();
            wal.commit().unwrap();
            written += 1;
        }
        written
    };
    write(&mut wal, 10);
    assert_eq!((wal.segments(), spares(&disk)), (2, 1), "one is ready for the next segment");
    wal.set_thrifty(true).unwrap();
    assert_eq!(spares(&disk), 0);
    write(&mut wal, 20);
    let lengths: Vec<usize> =
        segments(&disk.files()).iter().map(|name| disk.files()[name].len() >> 20).collect();
    assert_eq!(lengths[..2], [1, 4], "{lengths:?}");
    assert!(lengths.len() > 4 && lengths[2..].iter().all(|length| *length == 1), "{lengths:?}");
    let covered = write(&mut wal, 1) - 1;
    assert!(wal.drop_covered(covered).unwrap() > 2);
    assert_eq!(spares(&disk), 0, "what is covered goes");
    wal.set_thrifty(false).unwrap();
    let last = write(&mut wal, 10);
    assert_eq!((spares(&disk), wal.segments()), (1, 2), "all is as usual again");
    drop(wal);
    let after = open(&disk.power_cut(&mut Chance::new(3)), options, covered).unwrap();
    assert!(after.records.iter().map(|(number, _)| *number).eq(covered + 1..=last));
}

#[test]
fn only_wholly_covered_segments_are_dropped_and_never_the_current_one() {
    let disk = SimDisk::new();
    let mut wal = small_log(&disk);
    let bases: Vec<u64> =
        segments(&disk.files()).iter().map(|name| u64::from_str_radix(&name[4..], 16).unwrap()).collect();
    assert_eq!(wal.drop_covered(bases[1] - 2).unwrap(), 0);
    let before = wal.log_bytes();
    assert_eq!(wal.drop_covered(bases[1] - 1).unwrap(), 1);
    assert!(wal.log_bytes() < before);
    assert_eq!(wal.drop_covered(u64::MAX).unwrap(), bases.len() - 2);
    assert_eq!(wal.segments(), 1);
    drop(wal);
    let error = open(&disk, SMALL, bases[1] - 1).map(|opened| opened.records).unwrap_err();
    assert!(matches!(error, Error::SegmentMissing { sequence, .. } if sequence == bases[1]), "{error}");
    let base = *bases.last().unwrap();
    assert_eq!(open(&disk, SMALL, base - 1).unwrap().records, expected(base..=LAST));
}

#[test]
fn covered_segments_are_dropped_unread_when_opening() {
    let disk = SimDisk::new();
    drop(small_log(&disk));
    let first = segments(&disk.files()).remove(0);
    let damaged = with_change(&disk, &first, |file| file.fill(0xee));
    let opened = open(&damaged, SMALL, 12).unwrap();
    assert_eq!(opened.records, expected(13..=LAST));
    assert_eq!(opened.recovery.records, LAST - 12);
    assert!(!damaged.files().contains_key(&first));
}

#[test]
fn a_group_longer_than_a_segment_gets_one_of_its_own_length() {
    let disk = SimDisk::new();
    let mut wal = open(&disk, SMALL, 0).unwrap().wal;
    let mut all = Vec::new();
    // First into an empty log, then into a used segment, then twice in a row.
    for (sequence, bytes) in (1..).zip([1900, 10, 1500, 1700, 20]) {
        let payload = vec![sequence as u8; bytes];
        wal.append(&[&payload]).unwrap();
        wal.commit().unwrap();
        all.push((sequence, payload));
    }
    wal.close().unwrap();
    assert_eq!(records(&disk), all);
}

#[test]
fn a_log_opened_and_closed_without_records_stays_as_it_was() {
    let disk = SimDisk::new();
    small_log(&disk).close().unwrap();
    let before = disk.files();
    for _ in 0..5 {
        let opened = open(&disk, SMALL, 0).unwrap();
        assert_eq!((opened.records, opened.recovery.torn), (expected(1..=LAST), None));
        opened.wal.close().unwrap();
    }
    assert_eq!(disk.files(), before);
}

#[test]
fn a_segment_reopened_often_is_finished_at_its_usual_length() {
    let disk = SimDisk::new();
    for number in 1..=40 {
        let mut wal = open(&disk, SMALL, 0).unwrap().wal;
        commit(&mut wal, number..=number);
        wal.close().unwrap();
    }
    assert!(segments(&disk.files()).len() > 3);
    assert!(disk.files().values().all(|file| file.len() as u64 <= SMALL.segment_bytes));
    assert_eq!(records(&disk), expected(1..=40));
}

#[test]
fn abandoned_records_give_their_numbers_back() {
    let disk = SimDisk::new();
    let mut wal = open(&disk, SMALL, 0).unwrap().wal;
    assert_eq!(wal.append(&[b"no"]).unwrap(), 1);
    assert_eq!(wal.append_with(|group| group.extend_from_slice(b"nor this")).unwrap(), 2);
    wal.abandon();
    commit(&mut wal, 1..=3);
    wal.append(&[b"never committed"]).unwrap();
    wal.close().unwrap();
    assert_eq!(records(&disk), expected(1..=3));
}

#[test]
fn a_record_above_the_maximum_is_refused_and_leaves_the_group_alone() {
    let disk = SimDisk::new();
    let mut wal = open(&disk, SMALL, 0).unwrap().wal;
    wal.append(&[&payload(1)]).unwrap();
    let long = vec![0; SMALL.record_bytes_max as usize + 1];
    assert!(matches!(wal.append(&[&long]), Err(Error::TooLarge { bytes: 2049, max: 2048 })));
    assert!(matches!(wal.append_with(|group| group.extend_from_slice(&long)), Err(Error::TooLarge { .. })));
    wal.append(&[&payload(2)]).unwrap();
    wal.commit().unwrap();
    drop(wal);
    assert_eq!(records(&disk), expected(1..=2));
}

#[test]
fn an_empty_record_is_a_record() {
    let disk = SimDisk::new();
    let mut wal = open(&disk, SMALL, 0).unwrap().wal;
    wal.append(&[]).unwrap();
    wal.append(&[b"", b"x"]).unwrap();
    wal.commit().unwrap();
    drop(wal);
    assert_eq!(records(&disk), [(1, vec![]), (2, b"x".to_vec())]);
}

#[test]
fn without_syncs_only_rolls_and_sync_make_records_durable() {
    let disk = SimDisk::new();
    let lazy = Options { durability: Durability::Os, ..SMALL };
    let mut wal = open(&disk, lazy, 0).unwrap().wal;
    commit(&mut wal, 1..=3);
    assert_eq!((wal.last_sequence(), wal.synced_sequence()), (3, 0));
    wal.sync().unwrap();
    assert_eq!(wal.synced_sequence(), 3);
    for number in 4..=12 {
        commit(&mut wal, number..=number);
    }
    let synced = wal.synced_sequence();
    assert!(wal.segments() == 2 && synced > 3 && synced < 12, "{synced}");
    drop(wal);
    for seed in 0..32 {
        let found = open(&disk.power_cut(&mut Chance::new(seed)), lazy, 0).unwrap().records;
        assert!(found.len() as u64 >= synced);
        assert_eq!(found, expected(1..=found.len() as u64));
    }
}

#[test]
fn a_log_can_begin_after_a_snapshot_from_elsewhere() {
    let disk = SimDisk::new();
    let mut wal = Wal::create_on(Arc::new(disk.clone()), SMALL, 100).unwrap();
    commit(&mut wal, 101..=103);
    drop(wal);
    assert_eq!(open(&disk, SMALL, 100).unwrap().records, expected(101..=103));
    assert!(matches!(open(&disk, SMALL, 99), Err(Error::SegmentMissing { sequence: 100, .. })));
    assert!(matches!(Wal::create_on(Arc::new(disk), SMALL, 100), Err(Error::Exists { .. })));
}

#[test]
fn verifying_reports_and_changes_nothing() {
    let disk = SimDisk::new();
    let wal = small_log(&disk);
    let bytes = wal.log_bytes();
    let files = disk.files();
    let report = verify_on(Arc::new(disk.clone()), 5).unwrap();
    assert_eq!((report.clean, report.first_sequence, report.last_sequence), (false, 1, LAST));
    assert_eq!((report.records, report.bytes, report.segments), (LAST, bytes, wal.segments()));
    assert_eq!(disk.files(), files);
    wal.close().unwrap();
    assert!(verify_on(Arc::new(disk.clone()), 0).unwrap().clean);
    let behind = verify_on(Arc::new(disk), LAST + 1);
    assert!(matches!(behind, Err(Error::Behind { last: LAST, .. })));
    let empty = verify_on(Arc::new(SimDisk::new()), 0).unwrap();
    assert_eq!((empty.segments, empty.last_sequence), (0, 0));
}

#[test]
fn a_power_cut_while_segments_are_dropped_leaves_a_run_without_gaps() {
    for (operations, seed) in (0..14).flat_map(|operations| (0..16).map(move |seed| (operations, seed))) {
        let disk = SimDisk::new();
        let mut wal = small_log(&disk);
        commit(&mut wal, LAST + 1..=LAST + 6);
        commit(&mut wal, LAST + 7..=LAST + 12);
        commit(&mut wal, LAST + 13..=LAST + 18);
        assert!(wal.segments() >= 6, "too few for some to be removed, not recycled");
        disk.cut_power_after(operations);
        let _ = wal.drop_covered(LAST + 18);
        drop(wal);
        let left = disk.power_cut(&mut Chance::new(seed << 8 | operations));
        let report = verify_on(Arc::new(left), LAST + 18).unwrap();
        assert_eq!(report.last_sequence, LAST + 18);
    }
}
