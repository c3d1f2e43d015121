//! Recovers the state of a data folder: the newest snapshot, then the log after it.

use std::time::Instant;

use menagerie_wal::{Options as LogOptions, Wal};
use tracing::info;

use super::folder::Folder;
use super::{StoreError, snapshot};
use crate::core::sessions::Millis;
use crate::core::{Options, State, Txn, invariants};

/// The recovered state, ready to serve.
pub struct Recovered {
    /// The state as it was when the last server stopped.
    pub state: State,
    /// The log, open for appending.
    pub log: Wal,
    /// The last record in the log.
    pub sequence: u64,
    /// Bytes of the newest snapshot.
    pub snapshot_bytes: u64,
}

enum Failure {
    Log(menagerie_wal::Error),
    Store(StoreError),
}

impl From<menagerie_wal::Error> for Failure {
    fn from(error: menagerie_wal::Error) -> Self {
        Self::Log(error)
    }
}

/// Loads the folder.
pub fn recover(folder: &Folder, options: Options, log_options: LogOptions) -> Result<Recovered, StoreError> {
    let started = Instant::now();
    let mut state = State::new(options);
    let snapshots = folder.snapshots()?;
    let mut covered = 0;
    let mut snapshot_bytes = 0;
    if let Some((named, newest)) = snapshots.last() {
        // The log was truncated once this one was durable, so no older one can be used instead.
        covered = snapshot::load(newest, &mut state)?.sequence;
        if covered != *named {
            let what = format!("it stands at sequence {covered}, which is not what its name says");
            return Err(StoreError::damaged(newest, 0, what));
        }
        snapshot_bytes = newest.metadata().map_err(StoreError::io("look at", newest))?.len();
    }
    let path = folder.log();
    let replay = |sequence: u64, record: &[u8]| -> Result<(), Failure> {
        let txn = Txn::decode(record, state.acls_mut()).map_err(|error| {
            let what = format!("record {sequence} is intact but makes no sense: {error}");
            Failure::Store(StoreError::damaged(&path, 0, what))
        })?;
        state.apply(txn.zxid, txn.changes, Millis(0), &mut |_| {});
        Ok(())
    };
    let (log, recovery) =
        Wal::open(&path, log_options, covered, replay).map_err(|failure| match failure {
            Failure::Log(source) => StoreError::Log { path: path.clone(), source },
            Failure::Store(error) => error,
        })?;
    // Only now is it certain that the newest one is enough.
    for (_, older) in snapshots.iter().rev().skip(1) {
        std::fs::remove_file(older).map_err(StoreError::io("remove", older))?;
    }
    state.count_quotas();
    if cfg!(debug_assertions) {
        debug_assert_eq!(invariants::violated(&state), None);
    }
    info!(
        znodes = state.tree.len(),
        sessions = state.sessions.len(),
        zxid = format_args!("{:#x}", state.applied_zxid()),
        records = recovery.records,
        ms = started.elapsed().as_millis() as u64,
        "data loaded"
    );
    Ok(Recovered { state, log, sequence: recovery.last_sequence, snapshot_bytes })
}
