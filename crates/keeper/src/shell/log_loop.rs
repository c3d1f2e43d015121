//! The log loop: takes a group, makes it durable, applies it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use menagerie_wal::{Committed, Wal};
use tracing::{info, warn};

use super::capture;
use super::server::{Finished, Group, Item, Shared};
use crate::config::Config;
use crate::store::{Folder, StoreError};

/// Pause between attempts to open a file at the limit of open files.
const FILES_AGAIN: Duration = Duration::from_millis(100);
/// How long a stopping keeper waits for files, so that accepted writes become durable.
const FILES_PATIENCE: Duration = Duration::from_secs(10);

/// Runs until the server stops and everything accepted is durable, or until the log fails: then the contents of the
/// disk are uncertain, and the process must end.
pub fn run(
    shared: &Arc<Shared>,
    folder: &Arc<Folder>,
    mut log: Wal,
    snapshot_bytes: u64,
) -> Result<(), StoreError> {
    let mut guard = shared.lock();
    let metrics = guard.metrics.clone();
    let mut snapshots = Snapshots::new(&guard.config, snapshot_bytes);
    loop {
        while guard.group.items.is_empty() && guard.finished.is_none() {
            if guard.stopping {
                drop(guard);
                return log.close().map_err(|source| StoreError::Log { path: folder.log(), source });
            }
            guard = shared.wait_for_work(guard);
        }
        let finished = guard.finished.take();
        let group = std::mem::take(&mut guard.group);
        guard.log_busy = true;
        let starved = std::mem::take(&mut guard.starved);
        drop(guard);
        if starved {
            wake(shared);
        }

        append(&mut log, &group).map_err(|source| StoreError::Log { path: folder.log(), source })?;
        let committed = with_files(shared, || commit(folder, &mut log))?;
        if committed.records > 0 {
            metrics.group_size.observe(committed.records as f64);
            metrics.fsync_seconds.observe(committed.sync_time.as_secs_f64());
        }

        guard = shared.lock();
        guard.apply(group, log.last_sequence());
        guard.log_busy = false;
        guard.flush();
        // There may be room again for clients that we stopped reading from.
        let resume = !guard.ready.is_empty();
        if let Some(finished) = finished {
            drop(guard);
            put_in_place(shared, folder, &mut log, &finished)?;
            snapshots.taken(&log, finished.bytes);
            guard = shared.lock();
        }
        guard.metrics.log_bytes.set(log.log_bytes() as i64);
        if guard.may_capture() && snapshots.is_due(&log) {
            guard.capturing = snapshots.start(&log, shared, folder);
        }
        if resume {
            wake(shared);
        }
    }
}

/// Decides when the next snapshot is due.
struct Snapshots {
    after_bytes: u64,
    due_at: u64,
}

impl Snapshots {
    fn new(config: &Config, newest_bytes: u64) -> Self {
        let after_bytes = config.snapshot_after_bytes;
        Self { after_bytes, due_at: after_bytes.max(newest_bytes) }
    }

    fn is_due(&self, log: &Wal) -> bool {
        log.log_bytes() >= self.due_at
    }

    /// A snapshot is in place: the next one is due when the log has grown by its length.
    fn taken(&mut self, log: &Wal, bytes: u64) {
        self.due_at = log.log_bytes() + self.after_bytes.max(bytes);
    }

    /// Starts the next snapshot; returns whether it runs.
    fn start(&mut self, log: &Wal, shared: &Arc<Shared>, folder: &Arc<Folder>) -> bool {
        // If it fails, the next attempt comes when the log has grown again by this much.
        self.due_at = log.log_bytes() + self.after_bytes;
        let (shared, folder) = (shared.clone(), folder.clone());
        let spawned = std::thread::Builder::new()
            .name("keeper-snapshot".to_owned())
            .spawn(move || capture::snapshot(&shared, &folder));
        if let Err(error) = &spawned {
            warn!(%error, "cannot start the snapshot thread");
        }
        spawned.is_ok()
    }
}

fn append(log: &mut Wal, group: &Group) -> Result<(), menagerie_wal::Error> {
    for item in &group.items {
        match item {
            Item::Txn(txn, _) => log.append_with(|out| txn.encode(out))?,
            Item::Barrier(_) => continue,
        };
    }
    Ok(())
}

/// Makes what was appended durable. If no file can be opened, nothing of it is in the log, and it is tried again.
fn commit(folder: &Folder, log: &mut Wal) -> Result<Committed, StoreError> {
    log.commit().map_err(|source| StoreError::Log { path: folder.log(), source })
}

/// Repeats an action that opens files until it gets one. Ending instead would disconnect everybody, and the next keeper
/// would fare no better; writers wait meanwhile.
fn with_files<T>(
    shared: &Shared,
    mut attempt: impl FnMut() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut told_to_stop: Option<Instant> = None;
    let mut is_reported = false;
    loop {
        let error = match attempt() {
            Err(error) if error.is_out_of_files() => error,
            ended => return ended,
        };
        if !std::mem::replace(&mut is_reported, true) {
            warn!(%error, "too many files are open: writes wait until some are closed");
        }
        if shared.lock().stopping && told_to_stop.get_or_insert_with(Instant::now).elapsed() > FILES_PATIENCE
        {
            return Err(error);
        }
        std::thread::sleep(FILES_AGAIN);
    }
}

/// Makes a finished snapshot the one to recover from, and drops the log that it covers. The log is synced first: a
/// snapshot must never be ahead of it.
fn put_in_place(
    shared: &Shared,
    folder: &Folder,
    log: &mut Wal,
    finished: &Finished,
) -> Result<(), StoreError> {
    let log_error = |source| StoreError::Log { path: folder.log(), source };
    with_files(shared, || log.sync().map_err(log_error))?;
    let path = folder.snapshot(finished.sequence);
    std::fs::rename(&finished.path, &path).map_err(StoreError::io("rename", &finished.path))?;
    with_files(shared, || folder.sync())?;
    for (sequence, older) in with_files(shared, || folder.snapshots())? {
        if sequence < finished.sequence {
            std::fs::remove_file(&older).map_err(StoreError::io("remove", &older))?;
        }
    }
    let dropped = with_files(shared, || log.drop_covered(finished.sequence).map_err(log_error))?;
    info!(sequence = finished.sequence, bytes = finished.bytes, segments = dropped, "snapshot in place");
    Ok(())
}

fn wake(shared: &Shared) {
    if let Err(error) = shared.waker.wake() {
        warn!(%error, "cannot wake the network loop");
    }
}
