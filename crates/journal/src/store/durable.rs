//! The log loop's writing: a group becomes durable, or there is no room for it.

use std::time::Instant;

use menagerie_wal::Committed;
use tracing::{info, warn};

use super::error::{StoreError, wanting};
use super::group::Group;
use super::log_loop::{LogLoop, TICK};
use crate::error::JournalError;

/// A group that could not be written. Nobody knows how much of it is there until the log is open again; so long, nothing
/// else can be written.
pub(super) struct Stranded {
    group: Group,
    /// When the log was last opened again in vain, and what was wanting.
    tried: Instant,
    pub(super) why: JournalError,
}

impl LogLoop {
    /// Makes a group durable and returns it, with what became of it when there was no room. Nothing when that is not known
    /// yet.
    pub(super) fn commit(&mut self, mut group: Group) -> Result<Option<Group>, StoreError> {
        let path = self.folder.log();
        let failed = |source| StoreError::Log { path, source };
        for record in &group.records {
            if let Err(error) = self.log.append_with(|out| record.encode(out)) {
                return Err(failed(error));
            }
        }
        // While a group is stranded nothing has a record.
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
                group.keep(0, &wanting(&error));
                group.count(&self.shared.metrics);
                Ok(Some(group))
            }
            Err(error) if error.is_unwritten() => {
                warn!(%error, "the disk is full: commits are refused until the log can be opened again");
                self.strand(group, JournalError::DiskFull);
                // At once: what could be cut may have made room for it.
                self.reopen(false)?;
                Ok(None)
            }
            Err(error) => Err(failed(error)),
        }
    }

    pub(super) fn strand(&mut self, group: Group, why: JournalError) {
        self.stranded = Some(Stranded { group, tried: Instant::now(), why });
    }

    /// From time to time, and when the journal stops, tries to find out what became of a stranded group.
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
                self.strand(group, wanting(&error));
                Ok(())
            }
            Err(source) => {
                group.leave_unknown();
                group.tell();
                Err(StoreError::Log { path: self.folder.log(), source })
            }
        }
    }
}
