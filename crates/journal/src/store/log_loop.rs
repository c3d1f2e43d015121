//! The log loop: takes wishes, decides, makes a group durable, applies it, and tells.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use menagerie_wal::Wal;
use tracing::{error, info, warn};

use super::checkpoint::Checkpoints;
use super::config::Config;
use super::durable::Stranded;
use super::error::StoreError;
use super::folder::Folder;
use super::group::Group;
use super::maturing::Maturing;
use super::shared::{Shared, Tell, Waiting};
use super::space::Space;
use crate::core::clock::{Belief, Steady, Watch};
use crate::core::decide::{Answer, Facts, Limits, Verdict, Wish};
use crate::core::pending::Pending;
use crate::core::retention;
use crate::core::state::{Spot, State};
use crate::error::JournalError;
use crate::id::Ticks;

/// A group is made durable when it has this many bytes, even if more waits: a bound for its buffer.
const GROUP_BYTES: usize = 8 << 20;
/// Retention, metrics and what else is looked at from time to time.
pub(super) const TICK: Duration = Duration::from_secs(1);
/// Ids so far ahead of the clock are reported when the journal is opened.
const AHEAD: Duration = Duration::from_secs(60);

/// The loop and what only it touches.
pub(crate) struct LogLoop {
    pub(crate) shared: Arc<Shared>,
    pub(crate) folder: Arc<Folder>,
    pub(crate) log: Wal,
    pub(crate) checkpoints: Checkpoints,
    pub(super) space: Space,
    pub(super) stranded: Option<Stranded>,
    pub(super) maturing: Maturing,
    pub(super) watch: Watch,
    pub(super) belief: Belief,
    pub(super) steady: Steady,
    pub(super) started: Instant,
    pub(super) ticked: Instant,
}

/// Why the loop ends.
pub(super) enum End {
    /// It was asked to, and everything is durable.
    Stopped,
    /// Nobody uses the journal any more, and nobody has closed it.
    Abandoned,
}

/// Tells everybody that nothing will happen any more, also when the loop panics.
struct Closing(Arc<Shared>);

impl Drop for Closing {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.closed = true;
        let left: Vec<Waiting> = queue.wishes.drain(..).collect();
        // Dropped: who waits for one is told by that.
        let checkpoints = std::mem::take(&mut queue.checkpoints);
        drop(queue);
        drop(checkpoints);
        left.into_iter().for_each(|waiting| (waiting.tell)(Err(JournalError::Closed)));
        self.0.room.close();
        self.0.notify_all();
    }
}

impl LogLoop {
    pub(crate) fn new(shared: Arc<Shared>, folder: Arc<Folder>, log: Wal, checkpoints: Checkpoints) -> Self {
        let started = Instant::now();
        let newest = Ticks(shared.read().newest);
        let ahead = newest.since(shared.config.clock.now());
        if ahead > AHEAD {
            warn!(
                seconds = ahead.as_secs(),
                "the newest id is ahead of the clock, which was or is wrong; ids go on from there"
            );
        }
        let space = Space::new(folder.path().to_owned(), shared.config.reserve_bytes);
        let (watch, belief, ticked) = (Watch::default(), Belief::new(newest), started);
        let steady = Steady::new(shared.read().steady, shared.config.clock.now());
        let (stranded, mut maturing) = (None, Maturing::default());
        // A topic may have been deleted just before the end.
        maturing.look_for_orphans();
        Self {
            shared,
            folder,
            log,
            checkpoints,
            space,
            stranded,
            maturing,
            watch,
            belief,
            steady,
            started,
            ticked,
        }
    }

    /// Runs until the journal stops and everything accepted is durable, or until the disk fails: then nobody knows what is
    /// on it, and the process should end.
    pub(crate) fn run(mut self) -> Result<(), StoreError> {
        let _closing = Closing(self.shared.clone());
        let ended = match self.serve() {
            Ok(End::Stopped) => self.close(),
            Ok(End::Abandoned) => self.await_flush(),
            Err(error) => Err(error),
        };
        if let Err(error) = &ended {
            error!(%error, "the journal has failed");
        }
        ended
    }

    fn serve(&mut self) -> Result<End, StoreError> {
        if self.shared.read().fresh_bytes >= self.shared.config.flush_bytes {
            // So it is after a full disk, also if the process has ended meanwhile: the first checkpoint needs the room.
            self.checkpoints.save_room(&mut self.log, &self.folder)?;
        }
        loop {
            if let Some(end) = self.turn()? {
                return Ok(end);
            }
        }
    }

    /// Waits for something to do, and does what there is for one turn: everybody gets his.
    pub(super) fn turn(&mut self) -> Result<Option<End>, StoreError> {
        let (mut wishes, flushed, stopping) = self.wait();
        self.settle(stopping)?;
        if let Some(outcome) = flushed {
            self.checkpoints.end(outcome, &self.shared, &self.folder, &mut self.log)?;
            self.measure();
        }
        if self.shared.queue().abandoned {
            return Ok(Some(End::Abandoned));
        }
        while !wishes.is_empty() {
            let left = self.group(wishes)?;
            wishes = left;
        }
        self.forget()?;
        self.mature()?;
        self.tick()?;
        let wanted = !self.shared.queue().checkpoints.is_empty() && !self.checkpoints.running;
        let due = wanted || self.checkpoints.is_due(&self.shared, &self.log, self.is_short());
        if due && self.stranded.is_none() {
            self.checkpoint(wanted);
        }
        let stopped = stopping && self.shared.queue().wishes.is_empty();
        Ok(stopped.then_some(End::Stopped))
    }

    /// Waits until there is something to do. While too much is in memory, only for the end of a checkpoint.
    fn wait(&self) -> (Vec<Waiting>, Option<Result<super::shared::Done, StoreError>>, bool) {
        let hold = self.is_stuffed() && self.checkpoints.running && self.checkpoints.wanting().is_none();
        let patience = self.patience();
        let mut queue = self.shared.queue();
        let stranded = self.stranded.is_some();
        let has_work = |queue: &super::shared::Queue| {
            (queue.flushed.is_some() && !stranded)
                || queue.abandoned
                || (!hold && (queue.stopping || !queue.wishes.is_empty()))
                || (!queue.checkpoints.is_empty() && !self.checkpoints.running && !stranded)
        };
        if !has_work(&queue) {
            queue = self.shared.wait(queue, patience);
        }
        // The log is told what it may drop, so it must be there.
        let flushed = if stranded { None } else { queue.flushed.take() };
        let mut taken = Vec::new();
        let mut bytes = 0;
        while !hold && bytes < GROUP_BYTES {
            let Some(waiting) = queue.wishes.pop_front() else { break };
            bytes += waiting.bytes;
            taken.push(waiting);
        }
        (taken, flushed, queue.stopping)
    }

    /// Whether so many messages are in memory only that no more may come before a checkpoint.
    pub(super) fn is_stuffed(&self) -> bool {
        is_stuffed(&self.shared.read(), &self.shared.config)
    }

    /// Makes as many wishes as can stand together durable, and returns those that must wait for the next group.
    fn group(&mut self, wishes: Vec<Waiting>) -> Result<Vec<Waiting>, StoreError> {
        let now = self.look_at_clock().now;
        let mut group = Group::default();
        self.space.look();
        let left = self.decide(wishes, now, &mut group);
        self.shared.room.add_permits(group.bytes);
        if let Some(group) = self.commit(group)? {
            self.finish(group);
        }
        Ok(left)
    }

    /// Applies what is durable of a group, and tells.
    pub(super) fn finish(&mut self, mut group: Group) {
        let mut touched: Vec<Spot> = Vec::new();
        let deletes = group.deletes();
        if !group.records.is_empty() {
            let mut state = self.shared.write();
            for record in std::mem::take(&mut group.records) {
                state.apply(record, &mut |spot| {
                    if touched.last() != Some(&spot) {
                        touched.push(spot);
                    }
                });
            }
        }
        if deletes {
            self.maturing.look_for_orphans();
            self.shared.notify_all();
        }
        // Readers first: they have more to do than those who are only told that it is durable.
        self.shared.notify(&touched);
        group.tell();
    }

    fn decide(&self, wishes: Vec<Waiting>, now: u64, group: &mut Group) -> Vec<Waiting> {
        let state = self.shared.read();
        let files = &self.shared.files;
        let load = |topic, location| files.load(topic, location).map_err(JournalError::from);
        let limits = self.limits(&state);
        let facts = Facts { state: &state, limits, now, steady: self.steady(), load: &load };
        let mut pending = Pending::default();
        let mut wishes = wishes.into_iter();
        while let Some(mut waiting) = wishes.next() {
            let decided = match self.wanting_for(&state, &waiting.wish) {
                Some(why) => Err(why),
                None => facts.decide(&mut waiting.wish, &mut pending),
            };
            let (record, answer) = match decided {
                Ok(Verdict::Later) => return std::iter::once(waiting).chain(wishes).collect(),
                Ok(Verdict::Yes(record, answer)) => {
                    (Some(record).filter(|record| !record.changes.is_empty()), Ok(answer))
                }
                Err(error) => (None, Err(error)),
            };
            group.bytes += waiting.bytes;
            group.add(record, answer, waiting.tell);
        }
        Vec::new()
    }

    /// What is wanting for a wish, if there is no room for it: for appends and replacements a reserve must be left, and
    /// memory must not be full of messages that have no room on disk; for anything else a log that can be written to is
    /// enough.
    fn wanting_for(&self, state: &State, wish: &Wish) -> Option<JournalError> {
        let replaces = |edit| crate::core::edit::message(edit).is_some();
        let grows = match wish {
            Wish::Commit(commit) => !commit.appends.is_empty() || commit.edits.iter().any(replaces),
            _ => false,
        };
        if let Some(stranded) = &self.stranded {
            return Some(stranded.why.clone());
        }
        if !grows {
            return None;
        }
        if self.space.is_short() {
            return Some(JournalError::DiskFull);
        }
        self.checkpoints.wanting().filter(|_| is_stuffed(state, &self.shared.config)).cloned()
    }

    /// Whether appends are refused for want of room.
    fn is_short(&self) -> bool {
        let reached = |quota| self.limits(&self.shared.read()).used >= quota;
        self.space.is_short() || self.shared.config.quota_bytes.is_some_and(reached)
    }

    /// What counts against the quota.
    fn used(&self, state: &State) -> u64 {
        state.segment_bytes() + self.checkpoints.uncovered_bytes(&self.log)
    }

    fn limits(&self, state: &State) -> Limits {
        let config = &self.shared.config;
        let used = config.quota_bytes.map_or(0, |_| self.used(state));
        Limits {
            message_bytes: config.message_bytes_max,
            edits: config.edits_max,
            delayed: config.delayed_max,
            quota: config.quota_bytes,
            used,
        }
    }

    /// What the journal does from time to time: retention, metrics.
    fn tick(&mut self) -> Result<(), StoreError> {
        if self.ticked.elapsed() < TICK {
            return Ok(());
        }
        let hour = self.look_at_clock();
        self.ticked = Instant::now();
        self.space.look();
        let drops = retention::drops(&self.shared.read(), hour.sure);
        if !drops.is_empty() {
            info!(partitions = drops.len(), "retention drops old messages");
            let dropped = self.alone(Wish::Drop(drops))?;
            if let Some(Err(error)) = &dropped {
                warn!(%error, "cannot drop them; trying again");
            }
            if let Some(Ok(_)) = dropped {
                // Their files go when a snapshot says that they are not needed.
                self.shared.queue().checkpoints.push(Box::new(|_| {}));
            }
        }
        let steady = self.steady();
        for topic in self.shared.write().topics.values_mut() {
            let window = topic.dedup_ticks();
            topic.dedup.age(steady, window);
        }
        self.measure();
        Ok(())
    }

    /// Does something of the journal's own. Nothing is known of it while its group is stranded.
    pub(super) fn alone(&mut self, wish: Wish) -> Result<Option<Result<Answer, JournalError>>, StoreError> {
        let (told, outcome) = std::sync::mpsc::channel();
        let tell: Tell = Box::new(move |answer| {
            // The receiver is a line below.
            let _ = told.send(answer);
        });
        self.group(vec![Waiting { wish, bytes: 0, tell }])?;
        Ok(outcome.try_recv().ok())
    }

    fn checkpoint(&mut self, wanted: bool) {
        if wanted {
            // Those who ask while it runs get the next one: it has what they want in it.
            let asked = std::mem::take(&mut self.shared.queue().checkpoints);
            self.checkpoints.tell(asked);
        }
        let steady = self.steady();
        self.checkpoints.begin(&self.shared, &self.folder, &self.log, steady);
    }

    fn measure(&self) {
        let shared = &self.shared;
        shared.log_bytes.store(self.checkpoints.uncovered_bytes(&self.log), Ordering::Relaxed);
        let state = shared.read();
        let messages =
            state.listed().flat_map(|(_, topic)| &topic.partitions).map(|p| p.messages).sum::<u64>();
        shared.metrics.messages.set(messages as i64);
        shared.metrics.delayed.set(state.delayed.len() as i64);
        shared.metrics.disk_bytes.set(self.used(&state) as i64);
        let ahead = Ticks(state.newest).since(shared.config.clock.now());
        shared.metrics.clock_ahead_seconds.set(ahead.as_secs() as i64);
        let hour = self.hour();
        let doubted = Ticks(hour.now).since(Ticks(hour.sure));
        shared.metrics.clock_doubted_seconds.set(doubted.as_secs() as i64);
    }

    /// Lets a checkpoint that runs come to its end.
    fn await_flush(&mut self) -> Result<(), StoreError> {
        while self.checkpoints.running {
            let mut queue = self.shared.queue();
            while queue.flushed.is_none() {
                queue = self.shared.wait(queue, TICK);
            }
            let outcome = queue.flushed.take();
            drop(queue);
            if let Some(outcome) = outcome {
                self.checkpoints.end(outcome, &self.shared, &self.folder, &mut self.log)?;
            }
        }
        Ok(())
    }

    /// Moves everything to segments, so that opening is quick, and closes the log.
    pub(super) fn close(mut self) -> Result<(), StoreError> {
        self.await_flush()?;
        let steady = self.steady();
        self.checkpoints.last(&self.shared, &self.folder, &mut self.log, steady)?;
        self.log.close().map_err(|source| StoreError::Log { path: self.folder.log(), source })
    }
}

fn is_stuffed(state: &State, config: &Config) -> bool {
    state.fresh_bytes >= 2 * config.flush_bytes
}
