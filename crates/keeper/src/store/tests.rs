//! Opening and restoring folders.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use menagerie_wal::Options as LogOptions;
use tempfile::TempDir;

use super::*;
use crate::core::{Options, State};

/// 2026, in seconds.
const NOW: u64 = 1_790_000_000;

/// A backup of an empty server.
fn backup(path: &Path) {
    let state = State::new(Options::default());
    let mut writer = snapshot::Writer::new(fs::File::create(path).unwrap()).unwrap();
    let mut znodes = Vec::new();
    assert_eq!(snapshot::encode_znodes(&state, 0, &mut znodes), None);
    writer.znodes(&znodes).unwrap();
    writer.end(snapshot::Position { sequence: 7, zxid: 5, last_session: 0 }).unwrap();
}

fn restore_at(file: &Path, into: &Path, seconds: u64) -> i64 {
    restore(file, into, UNIX_EPOCH + Duration::from_secs(seconds), &|_, _| None).unwrap().zxid
}

#[test]
fn same_backup_restored_again_later_starts_a_higher_epoch() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("backup");
    backup(&file);
    let first = restore_at(&file, &folder.path().join("first"), NOW);
    let second = restore_at(&file, &folder.path().join("second"), NOW + 1);
    assert!(first >> 32 > 0 && second >> 32 > first >> 32, "{first:#x} {second:#x}");
}

#[test]
fn clock_that_stands_in_the_past_still_gives_a_new_epoch() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("backup");
    backup(&file);
    assert_eq!(restore_at(&file, &folder.path().join("keeper"), 0) >> 32, 1);
}

#[test]
fn files_that_we_did_not_write_are_neither_used_nor_removed() {
    let data = TempDir::new().unwrap();
    let foreign = ["snapshot-monday", "snapshot-20240101", "snapshot-0000000000000001.bak"];
    for name in foreign {
        fs::write(data.path().join(name), "mine").unwrap();
    }
    let folder = Folder::open(data.path()).unwrap();
    assert_eq!(folder.snapshots().unwrap(), []);
    recover(&folder, Options::default(), LogOptions::default()).unwrap();
    for name in foreign {
        assert_eq!(fs::read(data.path().join(name)).unwrap(), b"mine", "{name}");
    }
}

#[test]
fn snapshot_that_was_not_finished_is_removed() {
    let data = TempDir::new().unwrap();
    let leftover = Folder::open(data.path()).unwrap().snapshot_in_the_making();
    fs::write(&leftover, "half of it").unwrap();
    drop(Folder::open(data.path()).unwrap());
    assert!(!leftover.exists());
}

#[test]
fn restore_puts_in_what_it_is_told_to_and_leaves_the_rest() {
    let folder = TempDir::new().unwrap();
    let (file, data) = (folder.path().join("backup"), folder.path().join("keeper"));
    backup(&file);
    let revise = |path: &str, _: &[u8]| (path == "/zookeeper").then(|| b"new".to_vec());
    let restored = restore(&file, &data, UNIX_EPOCH + Duration::from_secs(NOW), &revise).unwrap();
    assert_eq!(restored.revised, ["/zookeeper"]);
    let folder = Folder::open(&data).unwrap();
    let state = recover(&folder, Options::default(), LogOptions::default()).unwrap().state;
    let znode = state.tree.get("/zookeeper").unwrap();
    assert_eq!(znode.data.as_deref(), Some(&b"new"[..]));
    assert_eq!((znode.meta.version, znode.meta.mzxid), (1, restored.zxid));
    let other = state.tree.get("/zookeeper/quota").unwrap();
    assert_eq!((other.data.as_deref().unwrap_or_default(), other.meta.version), (&b""[..], 0));
}

#[test]
fn folder_of_a_restore_that_did_not_come_to_its_end_is_refused() {
    let folder = TempDir::new().unwrap();
    let (file, data) = (folder.path().join("backup"), folder.path().join("keeper"));
    backup(&file);
    restore_at(&file, &data, NOW);
    // The snapshot gets its name last.
    let folder = Folder::open(&data).unwrap();
    let snapshots = folder.snapshots().unwrap();
    let (_, snapshot) = snapshots.first().expect("it was restored");
    fs::remove_file(snapshot).unwrap();
    assert!(recover(&folder, Options::default(), LogOptions::default()).is_err());
}

#[test]
fn snapshot_under_another_name_than_its_own_is_refused_and_nothing_is_removed() {
    let data = TempDir::new().unwrap();
    let folder = Folder::open(data.path()).unwrap();
    let (older, newest) = (folder.snapshot(7), folder.snapshot(8));
    backup(&older);
    backup(&newest);
    let refused = recover(&folder, Options::default(), LogOptions::default()).err();
    assert!(matches!(refused, Some(StoreError::Data(DataError::Damaged { .. }))), "{refused:?}");
    assert!(older.exists() && newest.exists());
}

#[test]
fn what_is_stored_is_for_its_owner_alone() {
    let data = TempDir::new().unwrap();
    fs::set_permissions(data.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let folder = Folder::open(data.path()).unwrap();
    let recovered = recover(&folder, Options::default(), LogOptions::default()).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(data.path()), 0o700);
    for file in fs::read_dir(folder.log()).unwrap().chain(fs::read_dir(data.path()).unwrap()) {
        let path = file.unwrap().path();
        assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
    }
    drop(recovered.log);
}
