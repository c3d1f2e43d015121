//! From a backup to a new data folder.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use menagerie_datadir::private;
use menagerie_wal::{Options as LogOptions, Wal};

use super::folder::Folder;
use super::{StoreError, snapshot};
use crate::core::sessions::Millis;
use crate::core::{Change, Options, State};

/// The last epoch that leaves the zxid positive.
const EPOCH_MAX: i64 = i32::MAX as i64 - 1;
/// Epochs count seconds from 2020 on: that leaves 31 bits until 2088.
const EPOCHS_BEGIN: u64 = 1_577_836_800;

/// Summary of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Znodes.
    pub znodes: usize,
    /// Paths whose data differs from the backup.
    pub revised: Vec<String>,
    /// The first transaction of the new epoch.
    pub zxid: i64,
}

/// Returns new data for a znode, by its path and its data; `None`: keep it.
pub type Revise<'a> = &'a dyn Fn(&str, &[u8]) -> Option<Vec<u8>>;

/// Restores the backup `file` into the folder `into`, which must hold no data yet.
///
/// Two things differ from the original. The zxid moves to a new epoch, above everything that any client has seen, so
/// clients that saw more than the backup holds can connect again, and fences taken before stay below those taken after.
/// The epoch is the time of the restore: the same backup may be restored twice, and each must be above the other's. And
/// all sessions are ended: a client whose session came back without the znodes it created since would be misled.
///
/// The keeper does not know what znodes mean. A caller that knows of numbers that must not go back replaces data with
/// `revise(path, data)`, before anybody can read it.
pub fn restore(
    file: &Path,
    into: &Path,
    now: SystemTime,
    revise: Revise<'_>,
) -> Result<Restored, StoreError> {
    let mut state = State::new(Options::default());
    snapshot::load(file, &mut state)?;
    snapshot::end_all_sessions(&mut state);
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let by_time = i64::try_from(since.as_secs().saturating_sub(EPOCHS_BEGIN)).unwrap_or(EPOCH_MAX);
    let epoch = ((state.applied_zxid() >> 32) + 1).max(by_time.min(EPOCH_MAX));
    let zxid = epoch << 32;
    state.resume_at(zxid, state.last_session());
    let changes = revisions(&state, zxid, i64::try_from(since.as_millis()).unwrap_or(0), revise);
    let revised = changes.iter().map(|(path, _)| path.clone()).collect();
    state.apply(zxid, changes.into_iter().map(|(_, change)| change).collect(), Millis(0), &mut |_| {});

    let folder = Folder::open(into)?;
    let is_empty = |path: &Path| fs::read_dir(path).map(|mut entries| entries.next().is_none());
    let log = folder.log();
    if !folder.snapshots()?.is_empty() || !is_empty(&log).map_err(StoreError::io("list", &log))? {
        return Err(folder.not_empty());
    }
    // First a log that begins after the snapshot: until the snapshot exists, the folder cannot be opened.
    let sequence = 1;
    let wal = Wal::create(&log, LogOptions::default(), sequence);
    wal.and_then(Wal::close).map_err(|source| StoreError::Log { path: log, source })?;
    write_snapshot(&folder, &state, sequence)?;
    Ok(Restored { znodes: state.tree.len(), revised, zxid })
}

/// The changes of revised znodes, each with its path.
fn revisions(state: &State, zxid: i64, mtime: i64, revise: Revise<'_>) -> Vec<(String, Change)> {
    let znodes = (0..state.tree.slot_count()).filter_map(|slot| state.tree.peek(slot));
    let revised = znodes.filter_map(|znode| {
        let data = revise(&znode.path, znode.data.as_deref().unwrap_or_default())?.into();
        let (path, version) = (znode.path.clone(), znode.meta.version.wrapping_add(1));
        let change = Change::SetData { path, data: Some(data), version, mzxid: zxid, mtime };
        Some((znode.path.to_string(), change))
    });
    revised.collect()
}

fn write_snapshot(folder: &Folder, state: &State, sequence: u64) -> Result<(), StoreError> {
    let path = folder.snapshot(sequence);
    let temporary = folder.snapshot_in_the_making();
    let write = || -> std::io::Result<()> {
        let mut writer = snapshot::Writer::new(std::io::BufWriter::new(private::create(&temporary)?))?;
        let mut at = Some(0);
        while let Some(slot) = at {
            let mut block = Vec::with_capacity(snapshot::BLOCK_BYTES * 2);
            at = snapshot::encode_znodes(state, slot, &mut block);
            writer.znodes(&block)?;
        }
        let position =
            snapshot::Position { sequence, zxid: state.applied_zxid(), last_session: state.last_session() };
        let (out, _) = writer.end(position)?;
        out.into_inner()?.sync_all()?;
        fs::rename(&temporary, &path)
    };
    write().map_err(StoreError::io("write", &path))?;
    folder.sync()
}
