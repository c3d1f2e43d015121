//! The log loop's writes: a group becomes durable, or there is no room for it.

use std::time::Instant;

use menagerie_wal::Committed;
use tracing::{info, warn};

use super::error::{StoreError, shortage};
use super::group::Group;
use super::log_loop::{LogLoop, TICK};
use crate::error::JournalError;

/// A group whose write failed. How much of it is durable is unknown until the log is open again; until then, nothing
/// else can be written.
pub(super) struct Stranded {
    group: Group,
    /// When reopening the log last failed, and what was short.
    tried: Instant,
    pub(super) why: JournalError,
}

impl LogLoop {
    /// Makes a group durable and returns it; if there was no room, with its refusals. `None`: its outcome is unknown
    /// yet.
    pub(super) fn commit(&mut self, mut group: Group) -> Result<Option<Group>, StoreError> {
        let path = self.folder.log();
        let failed = |source| StoreError::Log { path, source };
        for record in &group.records {
            if let Err(error) = self.log.append_with(|out| record.encode(out)) {
                return Err(failed(error));
            }
        }
        // While a group is stranded, nothing writes a record.
        let committed = if self.stranded.is_some() { Ok(Committed::default()) } else { self.log.commit() };
        match committed {
            Ok(committed) => {
                if committed.records > 0 {
                    self.shared.metrics.group_size.observe(committed.records as f64);
                    self.shared.metrics.fsync_seconds.observe(committed.sync_time.as_secs_f64());
                    self.space.wrote(committed.bytes);
                }
                group.count(&self.shared.metrics);
                Ok(Some(group))
            }
            Err(error) if error.is_full() => {
                warn!(%error, "no room: commits are refused");
                self.log.abandon();
                group.keep(0, &shortage(&error));
                group.count(&self.shared.metrics);
                Ok(Some(group))
            }
            Err(error) if error.is_unwritten() => {
                warn!(%error, "the disk is full: commits are refused until the log can be opened again");
                self.strand(group, JournalError::DiskFull);
                // At once: truncating the log may have made room.
                self.reopen(false)?;
                Ok(None)
            }
            Err(error) => Err(failed(error)),
        }
    }

    pub(super) fn strand(&mut self, group: Group, why: JournalError) {
        self.stranded = Some(Stranded { group, tried: Instant::now(), why });
    }

    /// Periodically, and when the journal stops, tries to find out the outcome of a stranded group.
    pub(super) fn settle(&mut self, stopping: bool) -> Result<(), StoreError> {
        let waited = |stranded: &Stranded| stranded.tried.elapsed() >= TICK;
        if stopping || self.stranded.as_ref().is_some_and(waited) { self.reopen(stopping) } else { Ok(()) }
    }

    fn reopen(&mut self, stopping: bool) -> Result<(), StoreError> {
        let Some(Stranded { mut group, .. }) = self.stranded.take() else { return Ok(()) };
        match self.log.reopen(self.checkpoints.covered()) {
            Ok(durable) => {
                info!(records = group.records.len(), durable, "the log is open again");
                group.keep(durable as usize, &JournalError::DiskFull);
                group.count(&self.shared.metrics);
                self.finish(group);
                Ok(())
            }
            Err(error) if error.is_full() && !stopping => {
                self.strand(group, shortage(&error));
                Ok(())
            }
            Err(source) => {
                group.leave_unknown();
                group.send_answers();
                Err(StoreError::Log { path: self.folder.log(), source })
            }
        }
    }
}
