//! Torn tails: what may be cut, and what must not come back.

use menagerie_wal::sim::SimDisk;
use menagerie_wal::{Damage, Error, Options};

use crate::harness::*;

/// One group of three records of equal length, after a first group.
fn torn_after_first() -> (SimDisk, String) {
    let disk = SimDisk::new();
    let mut wal = open(&disk, SMALL, 0).unwrap().wal;
    wal.append(&[b"first"]).unwrap();
    wal.commit().unwrap();
    for payload in [b"old 2", b"old 3", b"old 4"] {
        wal.append(&[payload]).unwrap();
    }
    wal.commit().unwrap();
    drop(wal);
    let name = last_segment(&disk);
    let second = layout(&disk.files()[&name])[1].1.clone();
    (with_change(&disk, &name, |file| file[second.start + PREFIX_BYTES] ^= 1), name)
}

#[test]
fn a_stale_intact_record_behind_a_cut_tail_is_not_resurrected() {
    let (disk, name) = torn_after_first();
    let Opened { mut wal, recovery, records } = open(&disk, SMALL, 0).unwrap();
    assert_eq!(records, [(1, b"first".to_vec())]);
    assert_eq!(recovery.torn.map(|torn| (torn.sequence, torn.bytes)), Some((2, 3 * 32 - 3)));
    // As long as the one it replaces: the old record 3 would be exactly where its successor is looked for.
    wal.append(&[b"new 2"]).unwrap();
    wal.commit().unwrap();
    drop(wal);
    let again = open(&disk, SMALL, 0).unwrap();
    assert_eq!(again.records, [(1, b"first".to_vec()), (2, b"new 2".to_vec())]);
    assert_eq!(again.recovery.torn, None);
    assert_eq!(layout(&disk.files()[&name]).len(), 2);
}

#[test]
fn intact_records_of_the_same_group_are_no_evidence_and_of_the_next_group_are() {
    let (disk, _) = torn_after_first();
    let mut wal = open(&disk, SMALL, 0).unwrap().wal;
    for group in [2..=4, 5..=5] {
        for sequence in group {
            assert_eq!(wal.append(&[b"again"]).unwrap(), sequence);
        }
        wal.commit().unwrap();
    }
    drop(wal);
    let name = last_segment(&disk);
    let records = layout(&disk.files()[&name]);
    let (damaged_at, later_at) = (records[2].1.start, records[4].1.start);
    let damaged = with_change(&disk, &name, |file| file[damaged_at] ^= 1);
    // Synced before the open above: the mark knows that.
    let error = open(&damaged, SMALL, 0).map(|opened| opened.records).unwrap_err();
    let Error::Damaged { offset, sequence, damage, .. } = error else { panic!("{error}") };
    assert_eq!((offset, sequence), (damaged_at as u64, 3));
    assert_eq!(damage, Damage::LaterRecord { offset: later_at as u64, sequence: 5, synced: 4 });
}

#[test]
fn damage_below_the_mark_is_refused_although_nothing_follows() {
    let disk = SimDisk::new();
    let mut wal = open(&disk, SMALL, 0).unwrap().wal;
    commit(&mut wal, 1..=3);
    drop(wal);
    drop(open(&disk, SMALL, 0).unwrap());
    let name = last_segment(&disk);
    let third = layout(&disk.files()[&name])[2].1.clone();
    let damaged = with_change(&disk, &name, |file| file[third.start] ^= 1);
    let error = open(&damaged, SMALL, 0).map(|opened| opened.records).unwrap_err();
    assert!(
        matches!(error, Error::Damaged { sequence: 3, damage: Damage::BelowMark { mark: 3 }, .. }),
        "{error}"
    );
}

#[test]
fn damage_below_the_owners_snapshot_is_refused_although_nothing_follows() {
    let disk = SimDisk::new();
    commit(&mut open(&disk, SMALL, 0).unwrap().wal, 1..=3);
    let name = last_segment(&disk);
    let third = layout(&disk.files()[&name])[2].1.clone();
    let damaged = with_change(&disk, &name, |file| file[third.start] ^= 1);
    let error = open(&damaged, SMALL, 3).map(|opened| opened.records).unwrap_err();
    assert!(
        matches!(error, Error::Damaged { sequence: 3, damage: Damage::Covered { covered: 3 }, .. }),
        "{error}"
    );
    assert_eq!(open(&damaged, SMALL, 2).unwrap().records, []);
}

/// A record as it would be in a segment with this salt.
fn image(sequence: u64, synced: u64, salt: &[u8]) -> Vec<u8> {
    let payload = *b"forgery!";
    let rest = [&sequence.to_le_bytes()[..], &synced.to_le_bytes(), &payload].concat();
    let len = (payload.len() as u32).to_le_bytes();
    let sum = crc32c::crc32c(&[salt, &len, &rest].concat());
    [&len[..], &sum.to_le_bytes(), &rest].concat()
}

#[test]
fn a_record_image_in_a_payload_is_not_taken_for_a_record() {
    let disk = SimDisk::new();
    let mut wal = small_log(&disk);
    let files = disk.files();
    let last = last_segment(&disk);
    let next = LAST + 1;
    // What a client can know: the format, and (at worst) an older segment. Its own segment's salt it cannot.
    let older_salt = files[&segments(&files)[0]][48..64].to_vec();
    let own_salt = files[&last][48..64].to_vec();
    let forged = [image(next + 1, next, b""), image(next + 1, next, &older_salt)].concat();
    wal.append(&[&forged]).unwrap();
    wal.commit().unwrap();
    drop(wal);
    assert_eq!(last_segment(&disk), last, "it must be in the same segment for the test to mean anything");
    let at = layout(&disk.files()[&last]).pop().unwrap().1.start;
    let torn = with_change(&disk, &last, |file| file[at] ^= 0x80);
    assert_eq!(open(&torn, SMALL, 0).unwrap().recovery.torn.map(|torn| torn.sequence), Some(next));
    // The same with the right salt is accepted, so the forgeries above were well made.
    let genuine = image(next + 1, next, &own_salt);
    let believed = with_change(&disk, &last, |file| {
        file[at] ^= 0x80;
        file[at + PREFIX_BYTES..at + PREFIX_BYTES + genuine.len()].copy_from_slice(&genuine);
    });
    assert!(matches!(
        open(&believed, SMALL, 0),
        Err(Error::Damaged { damage: Damage::LaterRecord { .. }, .. })
    ));
}

#[test]
fn what_was_acknowledged_under_a_greater_limit_is_read_under_a_smaller_one() {
    for length in [2048, 300] {
        let disk = SimDisk::new();
        let mut wal = open(&disk, SMALL, 0).unwrap().wal;
        let long = vec![7; length];
        wal.append(&[&long]).unwrap();
        wal.commit().unwrap();
        // As after a kill: nothing but the record itself says that it was durable.
        drop(wal);
        let smaller = Options { record_bytes_max: 200, ..SMALL };
        let Opened { mut wal, recovery, records } = open(&disk, smaller, 0).unwrap();
        assert!(recovery.torn.is_none() && records == [(1, long.clone())]);
        assert!(matches!(wal.append(&[&long]), Err(Error::TooLarge { .. })), "the limit is for what comes");
    }
}
