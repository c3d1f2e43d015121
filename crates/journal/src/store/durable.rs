//! The log loop's writing: a group becomes durable, or the disk has no room for it.

use std::time::Instant;

use menagerie_wal::Committed;
use tracing::{info, warn};

use super::error::StoreError;
use super::group::Group;
use super::log_loop::{LogLoop, TICK};

impl LogLoop {
    /// Makes a group durable and returns it, with what became of it on a full disk. Nothing when that is not known yet.
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
                warn!(%error, "the disk is full: commits are refused");
                self.log.abandon();
                group.keep(0);
                group.count(&self.shared.metrics);
                Ok(Some(group))
            }
            Err(error) if error.is_unwritten() => {
                warn!(%error, "the disk is full: commits are refused until the log can be opened again");
                self.stranded = Some((group, Instant::now()));
                // At once: what could be cut may have made room for it.
                self.reopen(false)?;
                Ok(None)
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// From time to time, and when the journal stops, tries to find out what became of a stranded group.
    pub(super) fn settle(&mut self, stopping: bool) -> Result<(), StoreError> {
        let waited = |(_, at): &(Group, Instant)| at.elapsed() >= TICK;
        if stopping || self.stranded.as_ref().is_some_and(waited) { self.reopen(stopping) } else { Ok(()) }
    }

    fn reopen(&mut self, stopping: bool) -> Result<(), StoreError> {
        let Some((mut group, _)) = self.stranded.take() else { return Ok(()) };
        match self.log.reopen(self.checkpoints.covered()) {
            Ok(durable) => {
                info!(records = group.records.len(), durable, "the log is open again");
                group.keep(durable as usize);
                group.count(&self.shared.metrics);
                self.finish(group);
                Ok(())
            }
            Err(error) if error.is_full() && !stopping => {
                self.stranded = Some((group, Instant::now()));
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
