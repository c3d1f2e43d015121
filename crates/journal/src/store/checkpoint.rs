//! Checkpoints: move messages from memory and log to segments, and record that in a snapshot.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use menagerie_datadir::private;
use menagerie_wal::Wal;
use tracing::{debug, warn};

use super::error::StoreError;
use super::flush::{Flushed, flush};
use super::folder::Folder;
use super::image::{Fresh, Image};
use super::recover::named;
use super::segment::Name;
use super::shared::{Done, OnCheckpoint, Shared};
use super::snapshot;
use crate::core::block::BlockData;
use crate::core::partition::EditData;
use crate::core::state::{PartitionKey, State};
use crate::error::JournalError;

/// Pause before a failed checkpoint is repeated, and between checkpoints that may make room.
const AGAIN: Duration = Duration::from_secs(1);

/// On closing, the journal records the age of dedup ids if they have aged by this many ticks since the last record: a
/// minute.
const AGED: u64 = 600_000_000;

/// Keeps track of checkpoints, within the log loop.
pub(crate) struct Checkpoints {
    pub(crate) running: bool,
    /// What returns to the state if the running checkpoint fails.
    fresh: Fresh,
    /// After a failed attempt: when to try again, and what was short.
    retry: Option<(Instant, JournalError)>,
    last: Instant,
    /// Called when the running checkpoint ends.
    listeners: Vec<OnCheckpoint>,
    /// Files that the newest snapshot refers to.
    ids: Vec<(u64, u64)>,
    segments: BTreeSet<Name>,
    sequence: u64,
    steady: u64,
    /// Obsolete files that are not removed yet.
    going: BTreeSet<PathBuf>,
    /// Bytes of the log when the newest image was taken; and those that a snapshot covers but that are still in the
    /// log.
    log_bytes: u64,
    covered_bytes: u64,
}

impl Checkpoints {
    pub(crate) fn new(
        ids: Vec<(u64, u64)>,
        segments: BTreeSet<Name>,
        (sequence, steady): (u64, u64),
        log: &Wal,
    ) -> Self {
        let last = Instant::now();
        let is_covered = log.last_sequence() == sequence;
        Self {
            running: false,
            fresh: Fresh::default(),
            retry: None,
            last,
            listeners: Vec::new(),
            ids,
            segments,
            sequence,
            steady,
            going: BTreeSet::new(),
            log_bytes: log.log_bytes(),
            covered_bytes: if is_covered { log.log_bytes() } else { 0 },
        }
    }

    /// Bytes of the log that no snapshot covers. Log segments are removed as a whole, and the newest never is: if
    /// covered bytes counted, a small quota would stay reached for ever.
    pub(crate) fn uncovered_bytes(&self, log: &Wal) -> u64 {
        log.log_bytes().saturating_sub(self.covered_bytes)
    }

    /// What was short at the last attempt, if it failed.
    pub(crate) fn shortage(&self) -> Option<&JournalError> {
        self.retry.as_ref().map(|(_, why)| why)
    }

    /// The last record of the log that the newest snapshot covers.
    pub(crate) fn covered(&self) -> u64 {
        self.sequence
    }

    /// Whether a checkpoint is due. Soon if room is short: only a checkpoint frees trimmed data.
    pub(crate) fn is_due(&self, shared: &Shared, log: &Wal, is_short: bool) -> bool {
        if self.running {
            return false;
        }
        if let Some((at, _)) = self.retry {
            return Instant::now() >= at;
        }
        let config = &shared.config;
        if log.last_sequence() == self.sequence {
            return false;
        }
        log.log_bytes() > 4 * config.flush_bytes.max(config.log_segment_bytes)
            || self.last.elapsed() >= if is_short { AGAIN } else { config.checkpoint_interval }
            || shared.read().fresh_bytes >= config.flush_bytes
    }

    /// Registers callbacks for the end of the checkpoint that begins now.
    pub(crate) fn notify_at_end(&mut self, listeners: Vec<OnCheckpoint>) {
        self.listeners.extend(listeners);
    }

    /// The last checkpoint, on closing, without a thread. If the disk is full, the log still has everything.
    pub(crate) fn last(
        &mut self,
        shared: &Shared,
        folder: &Folder,
        log: &mut Wal,
        steady: u64,
    ) -> Result<(), StoreError> {
        // Without a record of the time that has passed, a journal that never runs for long would remember ids for ever.
        let ages = steady.saturating_sub(self.steady) > AGED && !self.ids.is_empty();
        if log.last_sequence() == self.sequence && !ages {
            return Ok(());
        }
        let image = self.capture(shared, log, steady);
        let done = make_durable(image, folder, shared.config.segment_bytes);
        self.end(done, shared, folder, log)
    }

    /// `steady`: the time that dedup windows count with.
    fn capture(&mut self, shared: &Shared, log: &Wal, steady: u64) -> Image {
        let mut image = Image::capture(&mut shared.write(), log.last_sequence(), steady);
        self.fresh = image.fresh.clone();
        (self.last, self.log_bytes) = (Instant::now(), log.log_bytes());
        image.ids = self.ids.iter().filter(|(_, until)| *until >= steady).copied().collect();
        image
    }

    /// Captures an image; a thread makes it durable and notifies the log loop.
    pub(crate) fn begin(&mut self, shared: &Arc<Shared>, folder: &Arc<Folder>, log: &Wal, steady: u64) {
        let image = self.capture(shared, log, steady);
        self.running = true;
        let (thread_shared, thread_folder) = (shared.clone(), folder.clone());
        let work = move || {
            let begun = Instant::now();
            let done = make_durable(image, &thread_folder, thread_shared.config.segment_bytes);
            thread_shared.metrics.checkpoint_seconds.observe(begun.elapsed().as_secs_f64());
            // The callback may open the folder again.
            drop(thread_folder);
            thread_shared.queue().flushed = Some(done);
            thread_shared.wake();
        };
        if let Err(error) = std::thread::Builder::new().name("journal-flush".to_owned()).spawn(work) {
            let failed = StoreError::io("start a thread for", folder.path())(error);
            // Another limit of the process, and temporary like that one.
            self.put_off(&failed, JournalError::OutOfFiles, shared);
        }
    }

    /// Ends a checkpoint. An error is fatal, unless room was short.
    pub(crate) fn end(
        &mut self,
        outcome: Result<Done, StoreError>,
        shared: &Shared,
        folder: &Folder,
        log: &mut Wal,
    ) -> Result<(), StoreError> {
        self.running = false;
        let log_failed = |source| StoreError::Log { path: folder.log(), source };
        let done = match outcome {
            Ok(done) => done,
            Err(error) if error.is_full() => {
                self.put_off(&error, error.clone().into(), shared);
                return self.save_room(log, folder);
            }
            Err(error) => return Err(error),
        };
        self.retry = None;
        install(&mut shared.write(), &done.flushed);
        let since = log.log_bytes().saturating_sub(self.log_bytes);
        let dropped = log.drop_covered(done.sequence).map_err(log_failed)?;
        self.covered_bytes = log.log_bytes().saturating_sub(since);
        log.set_thrifty(false).map_err(log_failed)?;
        self.remove_obsolete(&done, shared, folder);
        (self.ids, self.segments) = (done.ids, done.segments);
        (self.sequence, self.steady) = (done.sequence, done.steady);
        self.listeners.drain(..).for_each(|tell| tell(Ok(())));
        debug!(sequence = self.sequence, segments = self.segments.len(), dropped, "checkpoint");
        Ok(())
    }

    /// Schedules another attempt after a failure.
    fn put_off(&mut self, error: &StoreError, shortage: JournalError, shared: &Shared) {
        self.running = false;
        self.listeners.drain(..).for_each(|tell| tell(Err(error.clone())));
        warn!(%error, "checkpoint failed; retrying");
        std::mem::take(&mut self.fresh).give_back(&mut shared.write());
        self.retry = Some((Instant::now() + AGAIN, shortage));
    }

    /// Leaves all free room to the next checkpoint. Otherwise the log, which every moved position makes longer, would
    /// take it for its next file, and appends would be refused for ever.
    pub(crate) fn save_room(&self, log: &mut Wal, folder: &Folder) -> Result<(), StoreError> {
        log.set_thrifty(true).map_err(|source| StoreError::Log { path: folder.log(), source })
    }

    /// Removes obsolete files. One that cannot be removed only takes room: the next checkpoint tries again.
    fn remove_obsolete(&mut self, done: &Done, shared: &Shared, folder: &Folder) {
        for name in self.segments.difference(&done.segments) {
            shared.files.close(*name);
            self.going.insert(name.path(&folder.segments()));
        }
        let ids = self.ids.iter().filter(|old| !done.ids.contains(old));
        self.going.extend(ids.map(|(sequence, _)| folder.ids(*sequence)));
        match folder.numbered("snapshot-") {
            Ok(snapshots) => {
                let old = snapshots.into_iter().filter(|(sequence, _)| *sequence < done.sequence);
                self.going.extend(old.map(|(_, path)| path));
            }
            Err(error) => warn!(%error, "cannot list old snapshots"),
        }
        if shared.files.is_held() {
            return;
        }
        self.going.retain(|path| match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                warn!(%error, path = %path.display(), "cannot remove an obsolete file");
                true
            }
            _ => false,
        });
    }
}

/// Writes segments, dedup ids and the snapshot durably, in this order.
pub(crate) fn make_durable(
    mut image: Image,
    folder: &Folder,
    segment_bytes: u64,
) -> Result<Done, StoreError> {
    let before: Vec<(Name, u64)> = lengths(&image).collect();
    let flushed = flush(&mut image, &folder.segments(), segment_bytes);
    if flushed.is_err() {
        undo(&before, &image, folder);
    }
    let flushed = flushed?;
    if !image.fresh.ids.is_empty() {
        snapshot::write(&folder.ids(image.sequence), snapshot::IDS, &image.fresh.ids)?;
        image.ids.push((image.sequence, image.fresh.ids_until));
        // The snapshot must not exist before the files that it refers to.
        folder.sync()?;
    }
    snapshot::write(&folder.snapshot(image.sequence), snapshot::SNAPSHOT, &image.encode())?;
    folder.sync()?;
    let segments = named(&image).collect();
    Ok(Done { flushed, sequence: image.sequence, steady: image.steady, ids: image.ids, segments })
}

fn lengths(image: &Image) -> impl Iterator<Item = (Name, u64)> {
    image.topics.iter().flat_map(|topic| {
        topic
            .segments
            .iter()
            .map(|(number, segment)| (Name { topic: topic.number, number: *number }, segment.bytes))
    })
}

/// Frees the room that a failed flush has taken: on a full disk it is needed to drop trimmed data.
fn undo(before: &[(Name, u64)], image: &Image, folder: &Folder) {
    for (name, _) in lengths(image) {
        let path = name.path(&folder.segments());
        // Report the first error; opening the journal, or the next flush, repeats this.
        let _ = match before.iter().find(|(known, _)| *known == name) {
            Some((_, bytes)) => private::open(&path).and_then(|file| file.set_len(*bytes)),
            None => std::fs::remove_file(&path),
        };
    }
}

/// Records in the state where the data is now. The state has changed meanwhile: what is gone from it is skipped.
fn install(state: &mut State, flushed: &Flushed) {
    for (topic, number, segment) in &flushed.segments {
        let Some(topic) = state.topics.get_mut(topic) else { continue };
        topic.segments.next = topic.segments.next.max(number + 1);
        let there = topic.segments.all.entry(*number).or_default();
        let (live, holes) = (there.live, std::mem::take(&mut there.holes));
        *there = crate::core::topic::Segment { live, holes, ..segment.clone() };
    }
    for (PartitionKey { topic, partition: number }, first, location) in &flushed.blocks {
        let Some((partition, segments)) =
            state.topics.get_mut(topic).and_then(|topic| topic.partition_mut(*number))
        else {
            continue;
        };
        let Some(segment) = segments.all.get_mut(&location.segment) else { continue };
        let at = partition.blocks.partition_point(|block| block.first < *first);
        match partition.blocks.get_mut(at).filter(|block| block.first == *first) {
            Some(block) => {
                block.data = BlockData::Disk(*location);
                segment.live += 1;
            }
            // It was dropped while it was being written. If it was not the first of its partition, nothing else records
            // that.
            None => segment.holes.push(location.offset),
        }
    }
    for (PartitionKey { topic, partition: number }, id, bytes, location) in &flushed.edits {
        let Some((partition, segments)) =
            state.topics.get_mut(topic).and_then(|topic| topic.partition_mut(*number))
        else {
            continue;
        };
        let Some(edited) = partition.edits.get_mut(id) else { continue };
        if edited.data == EditData::Memory(bytes.clone()) {
            edited.data = EditData::Disk(*location);
            if let Some(segment) = segments.all.get_mut(&location.segment) {
                segment.live += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::Bench;
    use crate::core::decide::Proposal;
    use crate::topic::{Topic, TopicConfig};

    #[test]
    fn what_cannot_be_removed_is_tried_again_and_ends_nothing() {
        let mut bench = Bench::new(16 << 20);
        bench.append(3, 10, None);
        bench.checkpoint();
        let segment = bench.log_loop.folder.segments().join("00000001-00000000");
        // Not even root can remove a folder as a file.
        std::fs::remove_file(&segment).unwrap();
        std::fs::create_dir(&segment).unwrap();
        bench.propose(Proposal::Delete { topic: Topic::new("mail").unwrap() });
        bench.checkpoint();
        assert!(segment.exists());
        std::fs::remove_dir(&segment).unwrap();
        std::fs::write(&segment, "").unwrap();
        bench
            .propose(Proposal::Create { topic: Topic::new("mail").unwrap(), config: TopicConfig::default() });
        bench.checkpoint();
        assert!(!segment.exists());
    }
}
