//! From a backup to a new data folder.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use menagerie_wal::{Options as LogOptions, Wal};

use super::folder::{Folder, create_private};
use super::{StoreError, snapshot};
use crate::core::{Options, State};

/// The last epoch that leaves the zxid positive.
const EPOCH_MAX: i64 = i32::MAX as i64 - 1;
/// Epochs count seconds from 2020 on: that leaves 31 bits until 2088.
const EPOCHS_BEGIN: u64 = 1_577_836_800;

/// What a restored folder holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// Znodes.
    pub znodes: usize,
    /// The first transaction of the new epoch.
    pub zxid: i64,
}

/// Puts the content of the backup `file` into the folder `into`, which must hold no data yet.
///
/// Two things differ from the original. The zxid moves to a new epoch, above everything that any client has seen, so
/// clients that saw more than the backup holds can connect again, and fences taken before stay below those taken after.
/// The epoch is the time of the restore: the same backup may be restored twice, and each must be above the other's.
/// And all sessions are ended: a client whose session came back without the znodes it made since would be misled.
pub fn restore(file: &Path, into: &Path, now: SystemTime) -> Result<Restored, StoreError> {
    let mut state = State::new(Options::default());
    snapshot::load(file, &mut state)?;
    snapshot::end_all_sessions(&mut state);
    let by_time =
        now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs().saturating_sub(EPOCHS_BEGIN));
    let epoch = ((state.applied_zxid() >> 32) + 1).max(i64::try_from(by_time).unwrap_or(0).min(EPOCH_MAX));
    state.resume_at(epoch << 32, state.last_session());

    let folder = Folder::open(into)?;
    let is_empty = |path: &Path| fs::read_dir(path).map(|mut entries| entries.next().is_none());
    let log = folder.log();
    if !folder.snapshots()?.is_empty() || !is_empty(&log).map_err(StoreError::io("list", &log))? {
        return Err(StoreError::NotEmpty { path: into.to_owned() });
    }
    // The snapshot, then a log that begins behind it: after a crash in between the folder refuses to open.
    let sequence = 1;
    write_snapshot(&folder, &state, sequence)?;
    let wal = Wal::create(&log, LogOptions::default(), sequence);
    wal.and_then(Wal::close).map_err(|source| StoreError::Log { path: log, source })?;
    Ok(Restored { znodes: state.tree.len(), zxid: state.applied_zxid() })
}

fn write_snapshot(folder: &Folder, state: &State, sequence: u64) -> Result<(), StoreError> {
    let path = folder.snapshot(sequence);
    let temporary = folder.snapshot_in_the_making();
    let write = || -> std::io::Result<()> {
        let mut writer = snapshot::Writer::new(std::io::BufWriter::new(create_private(&temporary)?))?;
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
