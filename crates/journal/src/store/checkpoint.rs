//! Checkpoints: what is only in memory and the log moves to segments, and a snapshot says so.

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
use super::shared::{Asked, Done, Shared};
use super::snapshot;
use crate::core::block::Place;
use crate::core::partition::EditPlace;
use crate::core::state::State;
use crate::error::JournalError;

/// A failed checkpoint is tried again after this; and one that may make room comes so soon after another.
const AGAIN: Duration = Duration::from_secs(1);

/// A journal that is closed notes how old dedup ids are, if they have aged by this many ticks since that was noted: a minute.
const AGED: u64 = 600_000_000;

/// Keeps track of checkpoints, within the log loop.
pub(crate) struct Checkpoints {
    pub(crate) running: bool,
    /// What goes back to the state if the running one fails.
    fresh: Fresh,
    /// The last attempt has failed: when to try again, and what was wanting.
    retry: Option<(Instant, JournalError)>,
    last: Instant,
    /// Who wants to know how the running one ends.
    asked: Vec<Asked>,
    /// What the newest snapshot names.
    ids: Vec<(u64, u64)>,
    segments: BTreeSet<Name>,
    sequence: u64,
    steady: u64,
    /// Files that no snapshot needs any more and that are still there.
    going: BTreeSet<PathBuf>,
    /// Bytes of the log when the newest image was taken; and those that it still has although a snapshot has them, too.
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
            asked: Vec::new(),
            ids,
            segments,
            sequence,
            steady,
            going: BTreeSet::new(),
            log_bytes: log.log_bytes(),
            covered_bytes: if is_covered { log.log_bytes() } else { 0 },
        }
    }

    /// Bytes of the log that no snapshot has. A segment of it goes as a whole, and the newest never does: what is covered
    /// does not count, or a small quota would stay reached for ever.
    pub(crate) fn uncovered_bytes(&self, log: &Wal) -> u64 {
        log.log_bytes().saturating_sub(self.covered_bytes)
    }

    /// What was wanting at the last attempt, if it has failed.
    pub(crate) fn wanting(&self) -> Option<&JournalError> {
        self.retry.as_ref().map(|(_, why)| why)
    }

    /// The last record of the log that the newest snapshot has.
    pub(crate) fn covered(&self) -> u64 {
        self.sequence
    }

    /// Whether it is time for one. When room is short, soon: what was trimmed goes only then.
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

    /// The one that begins now is for them, too.
    pub(crate) fn tell(&mut self, asked: Vec<Asked>) {
        self.asked.extend(asked);
    }

    /// The last one, when the journal is closed: without a thread. On a full disk the log still has everything.
    pub(crate) fn last(
        &mut self,
        shared: &Shared,
        folder: &Folder,
        log: &mut Wal,
        steady: u64,
    ) -> Result<(), StoreError> {
        // Without a note of the time that has passed, ids would be remembered for ever where a journal never runs for long.
        let ages = steady.saturating_sub(self.steady) > AGED && !self.ids.is_empty();
        if log.last_sequence() == self.sequence && !ages {
            return Ok(());
        }
        let image = self.capture(shared, log, steady);
        let done = make_durable(image, folder, shared.config.segment_bytes);
        self.end(done, shared, folder, log)
    }

    /// `steady`: by this time ids are old enough to be forgotten.
    fn capture(&mut self, shared: &Shared, log: &Wal, steady: u64) -> Image {
        let mut image = Image::capture(&mut shared.write(), log.last_sequence(), steady);
        self.fresh = image.fresh.clone();
        (self.last, self.log_bytes) = (Instant::now(), log.log_bytes());
        image.ids = self.ids.iter().filter(|(_, until)| *until >= steady).copied().collect();
        image
    }

    /// Takes an image; a thread makes it durable and tells the log loop.
    pub(crate) fn begin(&mut self, shared: &Arc<Shared>, folder: &Arc<Folder>, log: &Wal, steady: u64) {
        let image = self.capture(shared, log, steady);
        self.running = true;
        let (thread_shared, thread_folder) = (shared.clone(), folder.clone());
        let work = move || {
            let begun = Instant::now();
            let done = make_durable(image, &thread_folder, thread_shared.config.segment_bytes);
            thread_shared.metrics.checkpoint_seconds.observe(begun.elapsed().as_secs_f64());
            // Whoever is told may open the folder again.
            drop(thread_folder);
            thread_shared.queue().flushed = Some(done);
            thread_shared.wake();
        };
        if let Err(error) = std::thread::Builder::new().name("journal-flush".to_owned()).spawn(work) {
            let failed = StoreError::io("start a thread for", folder.path())(error);
            // Another limit of the process, and like that one it passes.
            self.put_off(&failed, JournalError::OutOfFiles, shared);
        }
    }

    /// A checkpoint has ended. An error is fatal, unless room was wanting.
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
        self.let_go(&done, shared, folder);
        (self.ids, self.segments) = (done.ids, done.segments);
        (self.sequence, self.steady) = (done.sequence, done.steady);
        self.asked.drain(..).for_each(|tell| tell(Ok(())));
        debug!(sequence = self.sequence, segments = self.segments.len(), dropped, "checkpoint");
        Ok(())
    }

    /// It could not be made, and is tried again in a moment.
    fn put_off(&mut self, error: &StoreError, wanting: JournalError, shared: &Shared) {
        self.running = false;
        self.asked.drain(..).for_each(|tell| tell(Err(error.clone())));
        warn!(%error, "cannot move messages to segments; trying again");
        std::mem::take(&mut self.fresh).give_back(&mut shared.write());
        self.retry = Some((Instant::now() + AGAIN, wanting));
    }

    /// Leaves all room to the next checkpoint. Else the log, which every moved position makes longer, would take it for its
    /// next file, and appends would be refused for ever.
    pub(crate) fn save_room(&self, log: &mut Wal, folder: &Folder) -> Result<(), StoreError> {
        log.set_thrifty(true).map_err(|source| StoreError::Log { path: folder.log(), source })
    }

    /// Removes what is not needed any more. What cannot be removed takes room, and nothing else: it has its turn again with
    /// the next checkpoint.
    fn let_go(&mut self, done: &Done, shared: &Shared, folder: &Folder) {
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
            Err(error) => warn!(%error, "cannot look for old snapshots"),
        }
        if shared.files.is_held() {
            return;
        }
        self.going.retain(|path| match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                warn!(%error, path = %path.display(), "cannot remove a file that is not needed any more");
                true
            }
            _ => false,
        });
    }
}

/// Writes segments, ids and the snapshot, in this order, durably.
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
        // What the snapshot names must be there when the snapshot is.
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

/// Gives back the room that half a flush has taken: on a full disk it is needed to let go of what was trimmed.
fn undo(before: &[(Name, u64)], image: &Image, folder: &Folder) {
    for (name, _) in lengths(image) {
        let path = name.path(&folder.segments());
        // What matters is the first error; opening the journal, or the next flush, does the same again.
        let _ = match before.iter().find(|(known, _)| *known == name) {
            Some((_, bytes)) => private::open(&path).and_then(|file| file.set_len(*bytes)),
            None => std::fs::remove_file(&path),
        };
    }
}

/// Tells the state where things are now. It has gone on meanwhile: what is gone is passed over.
fn install(state: &mut State, flushed: &Flushed) {
    for (topic, number, segment) in &flushed.segments {
        let Some(topic) = state.topics.get_mut(topic) else { continue };
        topic.segments.next = topic.segments.next.max(number + 1);
        let there = topic.segments.all.entry(*number).or_default();
        let (live, holes) = (there.live, std::mem::take(&mut there.holes));
        *there = crate::core::topic::Segment { live, holes, ..segment.clone() };
    }
    for ((topic, number), first, location) in &flushed.blocks {
        let Some((partition, segments)) =
            state.topics.get_mut(topic).and_then(|topic| topic.partition_mut(*number))
        else {
            continue;
        };
        let Some(segment) = segments.all.get_mut(&location.segment) else { continue };
        let at = partition.blocks.partition_point(|block| block.first < *first);
        match partition.blocks.get_mut(at).filter(|block| block.first == *first) {
            Some(block) => {
                block.place = Place::Disk(*location);
                segment.live += 1;
            }
            // It was dropped while it was written. If it was not the first of its partition, nothing else says so.
            None => segment.holes.push(location.offset),
        }
    }
    for ((topic, number), id, bytes, location) in &flushed.edits {
        let Some((partition, segments)) =
            state.topics.get_mut(topic).and_then(|topic| topic.partition_mut(*number))
        else {
            continue;
        };
        let Some(edited) = partition.edits.get_mut(id) else { continue };
        if edited.place == EditPlace::Memory(bytes.clone()) {
            edited.place = EditPlace::Disk(*location);
            if let Some(segment) = segments.all.get_mut(&location.segment) {
                segment.live += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::Bench;
    use crate::core::decide::Wish;
    use crate::topic::{Topic, TopicConfig};

    #[test]
    fn what_cannot_be_removed_is_tried_again_and_ends_nothing() {
        let mut bench = Bench::new(16 << 20);
        bench.append(3, 10, None);
        bench.checkpoint();
        let segment = bench.log_loop.folder.segments().join("00000001-00000000");
        // Nobody, not even the superuser, can remove a folder as a file.
        std::fs::remove_file(&segment).unwrap();
        std::fs::create_dir(&segment).unwrap();
        bench.wish(Wish::Delete { topic: Topic::new("mail").unwrap() });
        bench.checkpoint();
        assert!(segment.exists());
        std::fs::remove_dir(&segment).unwrap();
        std::fs::write(&segment, "").unwrap();
        bench.wish(Wish::Create { topic: Topic::new("mail").unwrap(), config: TopicConfig::default() });
        bench.checkpoint();
        assert!(!segment.exists());
    }
}
