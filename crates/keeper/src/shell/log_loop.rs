//! The log loop: takes a group, makes it durable, applies it.

use std::sync::Arc;

use menagerie_wal::{Committed, Wal};
use tracing::{info, warn};

use super::capture;
use super::server::{Finished, Group, Item, Shared};
use crate::config::Config;
use crate::store::{Folder, StoreError};

/// Runs until the server stops and everything accepted is durable, or until the log fails: then nobody knows what is
/// on disk, and the process must end.
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

        let committed =
            write(&mut log, &group).map_err(|source| StoreError::Log { path: folder.log(), source })?;
        if committed.records > 0 {
            metrics.group_size.observe(committed.records as f64);
            metrics.fsync_seconds.observe(committed.sync_time.as_secs_f64());
        }

        guard = shared.lock();
        guard.apply(group, log.last_sequence());
        guard.log_busy = false;
        guard.flush();
        // Clients that we stopped reading from may have room again.
        let resume = !guard.ready.is_empty();
        if let Some(finished) = finished {
            drop(guard);
            put_in_place(folder, &mut log, &finished)?;
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

    /// A snapshot is in place: the next one is worth it when as much log has come together as the snapshot is long.
    fn taken(&mut self, log: &Wal, bytes: u64) {
        self.due_at = log.log_bytes() + self.after_bytes.max(bytes);
    }

    /// Starts the next one; tells whether it runs.
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

fn write(log: &mut Wal, group: &Group) -> Result<Committed, menagerie_wal::Error> {
    for item in &group.items {
        match item {
            Item::Txn(txn, _) => log.append_with(|out| txn.encode(out))?,
            Item::Barrier(_) => continue,
        };
    }
    log.commit()
}

/// Makes a finished snapshot the one to recover from, and lets go of what it covers. The log comes first: a snapshot
/// must never be ahead of it.
fn put_in_place(folder: &Folder, log: &mut Wal, finished: &Finished) -> Result<(), StoreError> {
    let log_error = |source| StoreError::Log { path: folder.log(), source };
    log.sync().map_err(log_error)?;
    let path = folder.snapshot(finished.sequence);
    std::fs::rename(&finished.path, &path).map_err(StoreError::io("rename", &finished.path))?;
    folder.sync()?;
    for (sequence, older) in folder.snapshots()? {
        if sequence < finished.sequence {
            std::fs::remove_file(&older).map_err(StoreError::io("remove", &older))?;
        }
    }
    let dropped = log.drop_covered(finished.sequence).map_err(log_error)?;
    info!(sequence = finished.sequence, bytes = finished.bytes, segments = dropped, "snapshot in place");
    Ok(())
}

fn wake(shared: &Shared) {
    if let Err(error) = shared.waker.wake() {
        warn!(%error, "cannot wake the network loop");
    }
}
