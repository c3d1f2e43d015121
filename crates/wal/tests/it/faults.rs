//! Errors of the disk: which poison the log, and which it survives.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use menagerie_wal::sim::{Chance, Operation, SimDisk};
use menagerie_wal::{Committed, Error};

use crate::harness::*;

fn new_log(disk: &SimDisk) -> menagerie_wal::Wal {
    open(disk, SMALL, 0).unwrap().wal
}

#[test]
fn a_failed_sync_poisons_the_log_for_good() {
    let disk = SimDisk::new();
    let mut wal = new_log(&disk);
    commit(&mut wal, 1..=2);
    wal.append(&[&payload(3)]).unwrap();
    disk.fail(Operation::Sync, 0, ErrorKind::Other);
    let first = wal.commit().unwrap_err();
    assert!(matches!(first, Error::Io { action: "sync", .. }), "{first}");
    let syncs = disk.counts()[&Operation::Sync];
    let answers = [
        wal.commit().map(|_| ()).unwrap_err(),
        wal.append(&[b"x"]).map(|_| ()).unwrap_err(),
        wal.append_with(|_| ()).map(|_| ()).unwrap_err(),
        wal.sync().unwrap_err(),
        wal.drop_covered(1).map(|_| ()).unwrap_err(),
        wal.close().unwrap_err(),
    ];
    assert!(answers.iter().all(|answer| answer.to_string() == first.to_string()));
    assert_eq!(disk.counts()[&Operation::Sync], syncs, "a failed sync is never tried again");
    for seed in 0..16 {
        let found = records(&disk.power_cut(&mut Chance::new(seed)));
        assert!(found == expected(1..=2) || found == expected(1..=3));
    }
}

#[test]
fn a_failed_write_of_a_group_poisons_the_log_even_for_want_of_room() {
    for kind in [ErrorKind::StorageFull, ErrorKind::Other] {
        let disk = SimDisk::new();
        let mut wal = new_log(&disk);
        wal.append(&[&payload(1)]).unwrap();
        disk.fail(Operation::Write, 0, kind);
        assert!(matches!(wal.commit(), Err(Error::Io { action: "write", .. })));
        assert!(matches!(wal.append(&[b"x"]), Err(Error::Io { action: "write", .. })));
    }
}

/// However much of the group is there: whole records of it are committed, the rest is gone.
#[test]
fn a_log_that_had_no_room_for_a_group_is_opened_again_in_place() {
    let options = menagerie_wal::Options { segment_bytes: 4096, ..SMALL };
    // Where the payloads of the group end: padding is zero already.
    let mut length = 0;
    let ends = [6, 7, 8].map(|number| {
        let end = length + PREFIX_BYTES + payload(number).len();
        length = end.next_multiple_of(8);
        end
    });
    for bytes in 0..=length {
        let disk = SimDisk::new();
        let mut wal = open(&disk, options, 0).unwrap().wal;
        commit(&mut wal, 1..=5);
        for number in 6..=8 {
            wal.append(&[&payload(number)]).unwrap();
        }
        disk.cut_write(0, bytes);
        let error = wal.commit().unwrap_err();
        assert!(error.is_unwritten() && !error.is_full(), "{error}");
        assert!(wal.append(&[b"x"]).is_err() && wal.sync().is_err(), "poisoned until it is opened again");
        // At first there is no room for a mark either.
        let used: usize = disk.files().values().map(Vec::len).sum();
        disk.set_capacity(Some(used as u64));
        let full = wal.reopen(0).unwrap_err();
        assert!(full.is_full(), "{full}");
        disk.set_capacity(None);
        let there = ends.iter().filter(|end| **end <= bytes).count() as u64;
        assert_eq!(wal.reopen(0).unwrap(), there, "{bytes} bytes");
        assert_eq!((wal.last_sequence(), wal.synced_sequence()), (5 + there, 5 + there));
        for seed in 0..4 {
            assert_eq!(records(&disk.power_cut(&mut Chance::new(seed))), expected(1..=5 + there));
        }
        assert_eq!(wal.reopen(0).unwrap(), 0, "a log that is sound stays as it is");
        commit(&mut wal, 6 + there..=20);
        drop(wal);
        assert_eq!(records(&disk.power_cut(&mut Chance::new(1))), expected(1..=20));
    }
}

#[test]
fn a_log_whose_sync_failed_is_not_opened_again() {
    let disk = SimDisk::new();
    let mut wal = new_log(&disk);
    wal.append(&[&payload(1)]).unwrap();
    disk.fail(Operation::Sync, 0, ErrorKind::StorageFull);
    assert!(!wal.commit().unwrap_err().is_unwritten());
    assert!(wal.reopen(0).is_err());
}

/// Commits until the next group would not fit into the segment. Returns the number that comes next.
fn fill_first_segment(disk: &SimDisk) -> (menagerie_wal::Wal, u64) {
    let mut wal = new_log(disk);
    commit(&mut wal, 1..=7);
    assert_eq!(wal.segments(), 1);
    (wal, 8)
}

#[test]
fn a_full_disk_at_a_roll_loses_the_group_and_nothing_else() {
    let disk = SimDisk::new();
    let (mut wal, next) = fill_first_segment(&disk);
    // The spare that was made early is not enough for a group of its own length.
    disk.set_capacity(Some(0));
    wal.append(&[&[7; 1000]]).unwrap();
    for _ in 0..2 {
        let error = wal.commit().unwrap_err();
        assert!(error.is_full(), "{error}");
    }
    assert_eq!(wal.last_sequence(), next - 1);
    for seed in 0..16 {
        assert_eq!(records(&disk.power_cut(&mut Chance::new(seed))), expected(1..next));
    }
    wal.abandon();
    assert_eq!(wal.append(&[&payload(next)]).unwrap(), next, "the number is used again");
    disk.set_capacity(None);
    wal.commit().unwrap();
    commit(&mut wal, next + 1..=next + 20);
    wal.close().unwrap();
    assert_eq!(records(&disk), expected(1..=next + 20));
}

#[test]
fn a_group_refused_for_want_of_room_can_be_committed_later() {
    let disk = SimDisk::new();
    let (mut wal, next) = fill_first_segment(&disk);
    disk.set_capacity(Some(0));
    wal.append(&[&[7; 1000]]).unwrap();
    assert!(wal.commit().unwrap_err().is_full());
    disk.set_capacity(None);
    assert_eq!(wal.commit().unwrap().records, 1);
    drop(wal);
    assert_eq!(records(&disk).last(), Some(&(next, vec![7; 1000])));
}

#[test]
fn without_files_to_open_a_roll_loses_the_group_and_nothing_else() {
    let disk = SimDisk::new();
    let (mut wal, next) = fill_first_segment(&disk);
    disk.set_out_of_files(true);
    wal.append(&[&[7; 1000]]).unwrap();
    for _ in 0..2 {
        let error = wal.commit().unwrap_err();
        assert!(matches!(error, Error::OutOfFiles { .. }) && error.is_full(), "{error}");
    }
    wal.abandon();
    disk.set_out_of_files(false);
    commit(&mut wal, next..=next + 20);
    wal.close().unwrap();
    assert_eq!(records(&disk), expected(1..=next + 20));
}

#[test]
fn a_log_that_had_no_room_waits_also_for_files_to_be_opened_again() {
    let disk = SimDisk::new();
    let mut wal = new_log(&disk);
    commit(&mut wal, 1..=2);
    wal.append(&[&payload(3)]).unwrap();
    disk.cut_write(0, 0);
    assert!(wal.commit().unwrap_err().is_unwritten());
    disk.set_out_of_files(true);
    for _ in 0..2 {
        let error = wal.reopen(0).unwrap_err();
        assert!(matches!(error, Error::OutOfFiles { .. }), "{error}");
    }
    disk.set_out_of_files(false);
    assert_eq!(wal.reopen(0).unwrap(), 0);
    commit(&mut wal, 3..=20);
    drop(wal);
    assert_eq!(records(&disk), expected(1..=20));
}

/// Want of room in each single operation of a roll, and in each of growing an empty segment.
#[test]
fn want_of_room_in_any_step_leaves_a_log_that_goes_on_or_says_that_it_cannot() {
    use Operation::{Create, Rename, SetLen, Sync, Write};
    let (mut survived, mut poisoned) = (0, 0);
    for first_group in [0, 7] {
        for (operation, skipped) in
            [Create, Rename, SetLen, Sync, Write].iter().flat_map(|o| (0..4).map(move |n| (*o, n)))
        {
            let disk = SimDisk::new();
            let mut wal = new_log(&disk);
            commit(&mut wal, 1..=first_group);
            disk.fail(operation, skipped, ErrorKind::StorageFull);
            wal.append(&[&[7; 1000]]).unwrap();
            let what = format!("{operation:?} {skipped} after {first_group}");
            let mut all = expected(1..=first_group);
            match wal.commit() {
                Ok(_) => all.push((first_group + 1, vec![7; 1000])),
                Err(error) if error.is_full() => {
                    survived += 1;
                    for seed in 0..8 {
                        assert_eq!(records(&disk.power_cut(&mut Chance::new(seed))), all, "{what}");
                    }
                    if skipped % 2 == 0 {
                        wal.commit().expect(&what);
                        all.push((first_group + 1, vec![7; 1000]));
                    } else {
                        wal.abandon();
                        commit(&mut wal, first_group + 1..=first_group + 1);
                        all.push((first_group + 1, payload(first_group + 1)));
                    }
                }
                Err(_) => {
                    poisoned += 1;
                    drop(wal);
                    let found = records(&disk.power_cut(&mut Chance::new(1)));
                    assert_eq!(found[..all.len()], all, "{what}");
                    continue;
                }
            }
            drop(wal);
            assert_eq!(records(&disk.power_cut(&mut Chance::new(1))), all, "{what}");
        }
    }
    assert!(survived >= 12 && poisoned >= 2, "{survived} survived, {poisoned} poisoned");
}

#[test]
fn a_log_on_a_full_disk_opens_and_can_be_relieved_by_a_snapshot() {
    let disk = SimDisk::new();
    small_log(&disk).close().unwrap();
    // Room for a mark and no more.
    let used: usize = disk.files().values().map(Vec::len).sum();
    disk.set_capacity(Some(used as u64 + 64));
    let Opened { mut wal, records, .. } = open(&disk, SMALL, 0).unwrap();
    assert_eq!(records, expected(1..=LAST));
    wal.append(&[&payload(LAST + 1)]).unwrap();
    disk.set_capacity(Some(used as u64));
    let before = wal.segments();
    assert!(wal.drop_covered(LAST).unwrap() > 0 && wal.segments() < before);
    disk.set_capacity(Some(used as u64 + 64));
    wal.commit().unwrap();
    drop(wal);
    assert_eq!(open(&disk, SMALL, LAST).unwrap().records, expected(LAST + 1..=LAST + 1));
}

/// Some file systems need room to remove or rename something.
#[test]
fn a_covered_segment_that_cannot_go_does_not_end_the_log_and_goes_with_the_next_one() {
    for (thrifty, operation) in [(true, Operation::Remove), (false, Operation::Rename)] {
        let disk = SimDisk::new();
        let mut wal = small_log(&disk);
        wal.set_thrifty(thrifty).unwrap();
        let before = segments(&disk.files());
        disk.fail(operation, 0, ErrorKind::StorageFull);
        assert!(wal.drop_covered(LAST).unwrap() > 1);
        let left = segments(&disk.files());
        assert!(before.ends_with(&left), "a gap: {left:?} of {before:?}");
        commit(&mut wal, LAST + 1..=LAST + 30);
        wal.drop_covered(LAST + 30).unwrap();
        assert_eq!(segments(&disk.files()).len(), wal.segments());
        drop(wal);
        assert_eq!(open(&disk, SMALL, LAST + 30).unwrap().records, []);
    }
}

#[test]
fn an_error_while_preparing_a_spare_counts_like_any_other() {
    let disk = SimDisk::new();
    let mut wal = new_log(&disk);
    wal.append(&[&[1; 200]]).unwrap();
    // The first sync is the group's; the next is that of the spare which is begun when a quarter is used.
    disk.fail(Operation::Sync, 1, ErrorKind::Other);
    assert!(wal.commit().is_err());
    assert!(wal.commit().is_err(), "poisoned");
}

#[test]
fn a_commit_costs_one_write_and_one_sync() {
    let disk = SimDisk::new();
    let options = menagerie_wal::Options { segment_bytes: 1 << 20, ..SMALL };
    let mut wal = open(&disk, options, 0).unwrap().wal;
    for group in [1, 1, 512, 3] {
        let before = disk.counts();
        for _ in 0..group {
            wal.append(&[&[5; 100], &[6; 156]]).unwrap();
        }
        let Committed { bytes, records, .. } = wal.commit().unwrap();
        assert_eq!((bytes, records), (group * 280, group));
        let mut after = disk.counts();
        for (operation, count) in before {
            *after.get_mut(&operation).unwrap() -= count;
        }
        after.retain(|_, count| *count > 0);
        assert_eq!(after.into_iter().collect::<Vec<_>>(), [(Operation::Write, 1), (Operation::Sync, 1)]);
    }
    let before = disk.operations();
    assert_eq!(wal.commit().unwrap(), Committed::default());
    assert_eq!(disk.operations(), before, "an empty group costs nothing");
}

#[test]
fn a_commit_returns_only_after_a_slow_sync() {
    let disk = SimDisk::new();
    drop(new_log(&disk));
    let (entered, syncing) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    // Fast while the log is opened.
    let slow = Arc::new(AtomicBool::new(false));
    let is_slow = Arc::clone(&slow);
    let hooked = disk.with_sync_hook(move || {
        if is_slow.load(Ordering::SeqCst) {
            entered.send(()).unwrap();
            released.lock().unwrap().recv().unwrap();
        }
    });
    let (acknowledge, acknowledged) = mpsc::channel();
    let owner = std::thread::spawn(move || {
        let mut wal = new_log(&hooked);
        slow.store(true, Ordering::SeqCst);
        wal.append(&[&payload(1)]).unwrap();
        wal.commit().unwrap();
        acknowledge.send(()).unwrap();
    });
    syncing.recv().unwrap();
    assert!(acknowledged.try_recv().is_err(), "acknowledged during its sync");
    let lost = |seed| records(&disk.power_cut(&mut Chance::new(seed))).is_empty();
    assert!((0..32).any(lost), "durable before its sync");
    release.send(()).unwrap();
    acknowledged.recv().unwrap();
    assert!(!(0..32).any(lost), "not durable after its sync");
    owner.join().unwrap();
}
