//! Changes every byte of every file, and truncates every file at every length.

use std::collections::BTreeMap;
use std::sync::Arc;

use menagerie_wal::sim::{Chance, SimDisk};
use menagerie_wal::{Torn, verify_on};

use crate::harness::*;

/// All copies of a file with one byte changed in one of three ways; with the offset of the byte.
fn flips(contents: &[u8]) -> impl Iterator<Item = (usize, Vec<u8>)> {
    (0..contents.len()).flat_map(move |at| {
        let old = contents[at];
        let mut values = vec![old ^ 0x01, old ^ 0xff, 0];
        values.retain(|value| *value != old);
        values.dedup();
        values.into_iter().map(move |value| {
            let mut changed = contents.to_vec();
            changed[at] = value;
            (at, changed)
        })
    })
}

/// All copies of a file with another length: shorter ones, and longer ones by zeroes and by something else.
fn cuts(contents: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let longer = [0, 0xaa].map(|byte| [contents, &[byte]].concat());
    (0..contents.len()).map(|length| contents[..length].to_vec()).chain(longer)
}

fn log_files(disk: &SimDisk) -> BTreeMap<String, Vec<u8>> {
    disk.files().into_iter().filter(|(name, _)| name == "mark" || name.starts_with("log-")).collect()
}

fn assert_refused(disk: &SimDisk, what: &str) {
    let before = disk.files();
    let error = open(disk, SMALL, 0).map(|opened| opened.records.len()).expect_err(what);
    assert!(is_refusal(&error), "{what}: {error}");
    let error = verify_on(Arc::new(disk.clone()), 0).expect_err(what);
    assert!(is_refusal(&error), "{what}: {error}");
    assert_eq!(disk.files(), before, "{what}: a refusal changes nothing");
}

#[test]
fn after_a_clean_close_any_change_is_refused() {
    let disk = SimDisk::new();
    small_log(&disk).close().unwrap();
    assert_eq!(records(&SimDisk::with_files(disk.files())), expected(1..=LAST));
    for (name, contents) in log_files(&disk) {
        for (at, changed) in flips(&contents) {
            let value = changed[at];
            let damaged = with_change(&disk, &name, |file| *file = changed);
            assert_refused(&damaged, &format!("{name} with {value:#x} at {at}"));
        }
        for changed in cuts(&contents) {
            let length = changed.len();
            let damaged = with_change(&disk, &name, |file| *file = changed);
            assert_refused(&damaged, &format!("{name} with {length} bytes"));
        }
        let mut files = disk.files();
        files.remove(&name);
        assert_refused(&SimDisk::with_files(files), &format!("{name} missing"));
    }
}

/// How opening must handle damage at one byte of the last segment after a crash.
fn lost_from(segment: &[u8], at: usize) -> Option<u64> {
    let last_group = GROUPS.last().unwrap();
    let hit = layout(segment).into_iter().find(|(_, range)| range.contains(&at));
    match hit {
        Some((sequence, _)) if last_group.contains(&sequence) => Some(sequence),
        Some(_) => None,
        None if at < HEADER_BYTES => None,
        None => Some(LAST + 1),
    }
}

#[test]
fn after_a_crash_only_what_nobody_was_told_about_is_cut() {
    let disk = SimDisk::new();
    drop(small_log(&disk));
    let last = last_segment(&disk);
    let mut cut = 0;
    for (name, contents) in log_files(&disk) {
        for (at, changed) in flips(&contents) {
            let what = format!("{name} with {:#x} at {at}", changed[at]);
            let damaged = with_change(&disk, &name, |file| *file = changed);
            match lost_from(&contents, at).filter(|_| name == last) {
                None => assert_refused(&damaged, &what),
                Some(lost) => {
                    assert_cut(&damaged, lost, &what);
                    cut += 1;
                }
            }
        }
        for changed in cuts(&contents) {
            let length = changed.len();
            let damaged = with_change(&disk, &name, |file| *file = changed);
            assert_refused(&damaged, &format!("{name} with {length} bytes"));
        }
        let mut files = disk.files();
        files.remove(&name);
        assert_refused(&SimDisk::with_files(files), &format!("{name} missing"));
    }
    assert!(cut > 100, "only {cut} changes hit the last group");
}

/// Opens to everything before `lost`, says so, and goes on from there.
fn assert_cut(disk: &SimDisk, lost: u64, what: &str) {
    let report = verify_on(Arc::new(disk.clone()), 0).expect(what);
    let Opened { mut wal, recovery, records } = open(disk, SMALL, 0).expect(what);
    assert_eq!(records, expected(1..lost), "{what}");
    let Some(Torn { sequence, segment, offset, bytes }) = recovery.torn else {
        panic!("{what}: nothing was reported");
    };
    assert_eq!((sequence, report.torn, report.last_sequence), (lost, recovery.torn, lost - 1), "{what}");
    assert!(bytes > 0 && disk.files().contains_key(&format!("log-{segment:016x}")), "{what}");
    assert!(offset + bytes <= SMALL.segment_bytes, "{what}");
    commit(&mut wal, lost..lost + 2);
    drop(wal);
    let again = open(&disk.power_cut(&mut Chance::new(lost)), SMALL, 0).expect(what);
    assert_eq!((again.records, again.recovery.torn), (expected(1..lost + 2), None), "{what}");
}

/// The states in between (rolling, opening, closing) as a crash leaves them, damaged at each byte: refused, or a
/// prefix that holds at least all that was acknowledged before the last group.
#[test]
fn damage_to_a_log_left_between_two_states_never_goes_unnoticed() {
    let acknowledged = GROUPS[GROUPS.len() - 2].end();
    let whole = SimDisk::new();
    drop(small_log(&whole));
    for operations in 0..10 {
        let disk = SimDisk::with_files(whole.files());
        let wal = open(&disk, SMALL, 0).unwrap().wal;
        disk.cut_power_after(operations);
        let _ = wal.close();
        disk.restart();
        for (name, contents) in log_files(&disk) {
            for (at, changed) in flips(&contents) {
                let damaged = with_change(&disk, &name, |file| *file = changed);
                let Ok(opened) = open(&damaged, SMALL, 0) else { continue };
                let last = opened.recovery.last_sequence;
                assert_eq!(opened.records, expected(1..=last), "{operations} {name} {at}");
                assert!(last >= *acknowledged, "{operations} {name} {at}: {last}");
                assert!(last == LAST || opened.recovery.torn.is_some(), "{operations} {name} {at}");
            }
        }
    }
}
