//! The log loop: takes proposals, decides, makes a group durable, applies it, and answers.

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
use super::shared::{OnAnswer, Shared, Waiting};
use super::space::Space;
use crate::core::clock::{ClockTrust, JumpDetector, Steady};
use crate::core::decide::{Answer, Facts, Limits, Proposal, Verdict};
use crate::core::pending::Pending;
use crate::core::retention;
use crate::core::state::{PartitionKey, State};
use crate::error::JournalError;
use crate::id::Ticks;

/// Most bytes of a group: a bound for its buffer.
const GROUP_BYTES: usize = 8 << 20;
/// Period of retention, metrics and the like.
pub(super) const TICK: Duration = Duration::from_secs(1);
/// Ids this far ahead of the clock are reported when the journal is opened.
const AHEAD: Duration = Duration::from_secs(60);

/// The loop's own state.
pub(crate) struct LogLoop {
    pub(crate) shared: Arc<Shared>,
    pub(crate) folder: Arc<Folder>,
    pub(crate) log: Wal,
    pub(crate) checkpoints: Checkpoints,
    pub(super) space: Space,
    pub(super) stranded: Option<Stranded>,
    pub(super) maturing: Maturing,
    pub(super) jumps: JumpDetector,
    pub(super) trust: ClockTrust,
    pub(super) steady: Steady,
    pub(super) started: Instant,
    pub(super) ticked: Instant,
}

/// Why the loop ends.
pub(super) enum End {
    /// It was stopped, and everything is durable.
    Stopped,
    /// All handles were dropped without closing the journal.
    Abandoned,
}

/// Marks the journal as closed and wakes all waiters, also when the loop panics.
struct Closing(Arc<Shared>);

impl Drop for Closing {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.closed = true;
        let left: Vec<Waiting> = queue.proposals.drain(..).collect();
        // Dropping the callbacks notifies those who wait.
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
        let (jumps, trust, ticked) = (JumpDetector::default(), ClockTrust::new(newest), started);
        let steady = Steady::new(shared.read().steady, shared.config.clock.now());
        let (stranded, mut maturing) = (None, Maturing::default());
        // A topic may have been deleted just before the journal stopped.
        maturing.search_orphans();
        Self {
            shared,
            folder,
            log,
            checkpoints,
            space,
            stranded,
            maturing,
            jumps,
            trust,
            steady,
            started,
            ticked,
        }
    }

    /// Runs until the journal stops and everything accepted is durable, or until the disk fails: then its contents are
    /// uncertain, and the process should end.
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
            // As after a full disk, which may be why the process ended: the first checkpoint needs the room.
            self.checkpoints.save_room(&mut self.log, &self.folder)?;
        }
        loop {
            if let Some(end) = self.turn()? {
                return Ok(end);
            }
        }
    }

    /// Waits for work, and does one bounded turn of it, so that nothing starves.
    pub(super) fn turn(&mut self) -> Result<Option<End>, StoreError> {
        let (mut proposals, flushed, stopping) = self.wait();
        self.settle(stopping)?;
        if let Some(outcome) = flushed {
            self.checkpoints.end(outcome, &self.shared, &self.folder, &mut self.log)?;
            self.measure();
        }
        if self.shared.queue().abandoned {
            return Ok(Some(End::Abandoned));
        }
        while !proposals.is_empty() {
            let left = self.group(proposals)?;
            proposals = left;
        }
        self.forget()?;
        self.mature()?;
        self.tick()?;
        let wanted = !self.shared.queue().checkpoints.is_empty() && !self.checkpoints.running;
        let due = wanted || self.checkpoints.is_due(&self.shared, &self.log, self.is_short());
        if due && self.stranded.is_none() {
            self.checkpoint(wanted);
        }
        let stopped = stopping && self.shared.queue().proposals.is_empty();
        Ok(stopped.then_some(End::Stopped))
    }

    /// Waits for work. While too much is in memory, waits only for the end of a checkpoint.
    fn wait(&self) -> (Vec<Waiting>, Option<Result<super::shared::Done, StoreError>>, bool) {
        let hold = self.is_memory_full() && self.checkpoints.running && self.checkpoints.shortage().is_none();
        let patience = self.patience();
        let mut queue = self.shared.queue();
        let stranded = self.stranded.is_some();
        let has_work = |queue: &super::shared::Queue| {
            (queue.flushed.is_some() && !stranded)
                || queue.abandoned
                || (!hold && (queue.stopping || !queue.proposals.is_empty()))
                || (!queue.checkpoints.is_empty() && !self.checkpoints.running && !stranded)
        };
        if !has_work(&queue) {
            queue = self.shared.wait(queue, patience);
        }
        // The end of a flush truncates the log, so the log must be open.
        let flushed = if stranded { None } else { queue.flushed.take() };
        let mut taken = Vec::new();
        let mut bytes = 0;
        while !hold && bytes < GROUP_BYTES {
            let Some(waiting) = queue.proposals.pop_front() else { break };
            bytes += waiting.bytes;
            taken.push(waiting);
        }
        (taken, flushed, queue.stopping)
    }

    /// Whether memory holds so many unflushed messages that appends must wait for a checkpoint.
    pub(super) fn is_memory_full(&self) -> bool {
        is_memory_full(&self.shared.read(), &self.shared.config)
    }

    /// Makes a group of compatible proposals durable, and returns those that must wait for the next group.
    fn group(&mut self, proposals: Vec<Waiting>) -> Result<Vec<Waiting>, StoreError> {
        let now = self.observe_clock().now;
        let mut group = Group::default();
        self.space.refresh();
        let left = self.decide(proposals, now, &mut group);
        self.shared.room.add_permits(group.bytes);
        if let Some(group) = self.commit(group)? {
            self.finish(group);
        }
        Ok(left)
    }

    /// Applies the durable part of a group, and sends the answers.
    pub(super) fn finish(&mut self, mut group: Group) {
        let mut touched: Vec<PartitionKey> = Vec::new();
        let deletes = group.deletes();
        if !group.records.is_empty() {
            let mut state = self.shared.write();
            for record in std::mem::take(&mut group.records) {
                state.apply(record, &mut |partition_key| {
                    if touched.last() != Some(&partition_key) {
                        touched.push(partition_key);
                    }
                });
            }
        }
        if deletes {
            self.maturing.search_orphans();
            self.shared.notify_all();
        }
        // Readers first: they have more to do than callers that only wait for durability.
        self.shared.notify(&touched);
        group.send_answers();
    }

    fn decide(&self, proposals: Vec<Waiting>, now: u64, group: &mut Group) -> Vec<Waiting> {
        let state = self.shared.read();
        let files = &self.shared.files;
        let load = |topic, location| files.load(topic, location).map_err(JournalError::from);
        let limits = self.limits(&state);
        let facts = Facts { state: &state, limits, now, steady: self.steady(), load: &load };
        let mut pending = Pending::default();
        let mut proposals = proposals.into_iter();
        while let Some(mut waiting) = proposals.next() {
            let decided = match self.shortage_for(&state, &waiting.proposal) {
                Some(why) => Err(why),
                None => facts.decide(&mut waiting.proposal, &mut pending),
            };
            let (record, answer) = match decided {
                Ok(Verdict::Later) => return std::iter::once(waiting).chain(proposals).collect(),
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

    /// What is short for a proposal, if anything: appends and replacements need the disk's reserve, and memory that is
    /// not full of messages without room on disk; anything else needs only a writable log.
    fn shortage_for(&self, state: &State, proposal: &Proposal) -> Option<JournalError> {
        let replaces = |edit| crate::core::edit::message(edit).is_some();
        let grows = match proposal {
            Proposal::Commit(commit) => !commit.appends.is_empty() || commit.edits.iter().any(replaces),
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
        self.checkpoints.shortage().filter(|_| is_memory_full(state, &self.shared.config)).cloned()
    }

    /// Whether appends are refused because room is short.
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

    /// Periodic work: retention, metrics.
    fn tick(&mut self) -> Result<(), StoreError> {
        if self.ticked.elapsed() < TICK {
            return Ok(());
        }
        let time = self.observe_clock();
        self.ticked = Instant::now();
        self.space.refresh();
        let drops = retention::drops(&self.shared.read(), time.sure);
        if !drops.is_empty() {
            info!(partitions = drops.len(), "retention drops old messages");
            let dropped = self.alone(Proposal::Drop(drops))?;
            if let Some(Err(error)) = &dropped {
                warn!(%error, "cannot drop old messages; retrying");
            }
            if let Some(Ok(_)) = dropped {
                // Their files are removed once a snapshot no longer refers to them.
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

    /// Decides and commits a proposal of the journal itself. `None`: its group is stranded, and the outcome unknown.
    pub(super) fn alone(
        &mut self,
        proposal: Proposal,
    ) -> Result<Option<Result<Answer, JournalError>>, StoreError> {
        let (told, outcome) = std::sync::mpsc::channel();
        let tell: OnAnswer = Box::new(move |answer| {
            // Cannot fail: the receiver is right below.
            let _ = told.send(answer);
        });
        self.group(vec![Waiting { proposal, bytes: 0, tell }])?;
        Ok(outcome.try_recv().ok())
    }

    fn checkpoint(&mut self, wanted: bool) {
        if wanted {
            // Requests that come while a checkpoint runs get the next one, which includes their data.
            let asked = std::mem::take(&mut self.shared.queue().checkpoints);
            self.checkpoints.notify_at_end(asked);
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
        let time = self.trusted_time();
        let doubted = Ticks(time.now).since(Ticks(time.sure));
        shared.metrics.clock_doubted_seconds.set(doubted.as_secs() as i64);
    }

    /// Waits for a running checkpoint.
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

    /// Moves everything to segments, so that the next opening is fast, and closes the log.
    pub(super) fn close(mut self) -> Result<(), StoreError> {
        self.await_flush()?;
        let steady = self.steady();
        self.checkpoints.last(&self.shared, &self.folder, &mut self.log, steady)?;
        self.log.close().map_err(|source| StoreError::Log { path: self.folder.log(), source })
    }
}

fn is_memory_full(state: &State, config: &Config) -> bool {
    state.fresh_bytes >= 2 * config.flush_bytes
}
