//! The worker as a machine: facts in, effects out. No clock, no socket.
//!
//! A step applies one fact, then advances every partition that it has touched as far as possible: record, read ahead,
//! release, begin messages. [`Turn`] decides whose turn it is.
//!
//! - `fact`: facts and effects. `ownership`: which partitions it owns. `handling`: what it does with their messages.
//!   `progress`: records and reports. This file: the step, and what a worker shows.

mod fact;
mod handling;
mod ownership;
mod progress;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use menagerie_znodes::queues::{self, Handling, PartitionName};

use super::failure;
use super::lane::{Lane, LostLane};
use super::options::Options;
use super::turn::Turn;
use super::view::{LaneView, RunningView, Stats, WorkerView};
use super::window::Standing;
use crate::message_uuid::MessageUuid;
use crate::task::Failed;

pub use fact::{
    Effect, Ending, Fact, Fetch, Fetched, Happening, How, Instructed, Note, Noted, Now, Owned, Progress, Run,
    Urgency,
};

/// Why a worker has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// By an order, or because nobody can send orders any more.
    AskedToStop,
    /// A message failed, and the policy is to stop then.
    Failed(Failed),
}

impl Ended {
    /// The reason as logs name it.
    fn label(&self) -> &'static str {
        match self {
            Self::AskedToStop => "signal",
            Self::Failed(_) => "failure",
        }
    }
}

/// Whether the worker is running or stopping.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Running,
    /// Finishes what runs, then ends.
    Stopping(Ended),
}

/// All state of a worker.
#[derive(Debug)]
pub struct Machine {
    options: Options,
    epoch: u64,
    assigned: BTreeSet<PartitionName>,
    instructed: Instructed,
    is_connected: bool,
    /// Partitions that we own, or have lost while something of them still runs.
    lanes: BTreeMap<PartitionName, Lane>,
    /// Partitions that we lost, and may own again before anybody else does.
    lost: BTreeMap<PartitionName, LostLane>,
    /// Claims in progress.
    claims: BTreeSet<PartitionName>,
    /// Releases in flight.
    releasing: usize,
    turn: Turn,
    /// Until then, queues wait for the first reads of those before them. `None` before the first assignment.
    first_read_until: Option<Instant>,
    timers: BTreeSet<(Instant, PartitionName)>,
    /// Partitions to advance.
    dirty: BTreeSet<PartitionName>,
    /// Number of the last run.
    runs: u64,
    is_reporting: bool,
    /// What we publish may have changed: partitions, or our pause.
    is_presence_stale: bool,
    published: Option<queues::Worker>,
    phase: Phase,
    stats: Stats,
    effects: Vec<Effect>,
}

impl Machine {
    /// A worker that owns nothing.
    pub fn new(options: Options) -> Self {
        let options = options.consistent();
        let turn = Turn::new(&options.queues, options.policy, options.concurrency);
        Self {
            options,
            epoch: 0,
            assigned: BTreeSet::new(),
            instructed: Instructed::default(),
            is_connected: true,
            lanes: BTreeMap::new(),
            lost: BTreeMap::new(),
            claims: BTreeSet::new(),
            releasing: 0,
            turn,
            first_read_until: None,
            timers: BTreeSet::new(),
            dirty: BTreeSet::new(),
            runs: 0,
            is_reporting: false,
            is_presence_stale: true,
            published: None,
            phase: Phase::Running,
            stats: Stats::default(),
            effects: Vec::new(),
        }
    }

    /// Applies a fact, and says what to do.
    pub fn step(&mut self, fact: Fact, now: Now) -> Vec<Effect> {
        self.apply(fact, now);
        self.advance(now);
        self.publish();
        std::mem::take(&mut self.effects)
    }

    fn apply(&mut self, fact: Fact, now: Now) {
        match fact {
            Fact::Assigned { epoch, partitions } => self.on_assigned(epoch, partitions, now),
            Fact::Instructed(instructed) => {
                self.instructed = instructed;
                self.is_presence_stale = true;
                let handling = &self.instructed.handling;
                for lane in self.lanes.values_mut() {
                    // A queue whose settings cannot be read keeps its order.
                    handling
                        .get(lane.partition.queue())
                        .into_iter()
                        .for_each(|handling| lane.follow(handling));
                }
                self.mark_all_dirty();
            }
            Fact::Connected(is_connected) => {
                self.is_connected = is_connected;
                self.mark_all_dirty();
            }
            Fact::Claimed(owned) => self.on_claimed(*owned),
            Fact::Lost(owned) => self.lose(&owned, "its lock is gone".to_owned()),
            Fact::Lapsed(term) => self.on_lapsed(term),
            Fact::Fetched(owned, fetched) => self.on_fetched(&owned, fetched, now),
            Fact::Begun(owned, run) => self.on_begun(&owned, run, now),
            Fact::Ran(owned, run, ran) => self.on_ran(&owned, run, ran, now),
            Fact::Noted(owned, message, noted) => self.on_noted(&owned, message, noted, now),
            Fact::Recorded(owned, recorded) => self.on_recorded(&owned, recorded, now),
            Fact::Released(partition) => self.on_released(&partition),
            Fact::ReportDue { all } => self.report(all, now),
            Fact::Reported { known, lost, lags } => self.on_reported(known, lost, &lags, now),
            Fact::Adjust(adjustment) => {
                self.options.adjust(adjustment);
                self.turn.adjust(self.options.policy, self.options.concurrency);
                self.mark_all_dirty();
            }
            Fact::Finish => self.stop(Ended::AskedToStop),
            Fact::Abort => {
                self.stop(Ended::AskedToStop);
                let runs = self.lanes.values().flat_map(|lane| lane.window.runs()).map(Effect::Stop);
                self.effects.extend(runs);
            }
            Fact::Timer => self.on_timer(now.instant),
        }
    }

    /// Advances every dirty partition, then begins messages.
    fn advance(&mut self, now: Now) {
        if self.first_read_until.is_some_and(|until| until <= now.instant) {
            self.turn.stop_awaiting_reads();
        }
        loop {
            for partition in std::mem::take(&mut self.dirty) {
                self.advance_one(&partition, now);
            }
            while let Some(partition) = self.turn.take() {
                self.begin(&partition, now);
            }
            if self.dirty.is_empty() {
                break;
            }
        }
    }

    fn advance_one(&mut self, partition: &PartitionName, now: Now) {
        let is_ours = self.phase == Phase::Running && self.assigned.contains(partition);
        let paused = self.is_paused(partition);
        let partitions = self.assigned.len().max(self.lanes.len());
        let share = self.options.read_ahead_bytes / partitions.max(1);
        let Some(lane) = self.lanes.get_mut(partition) else { return };
        let is_ours = is_ours && !lane.is_outdated;
        lane.window.wake(now.instant);
        if (lane.is_lost || !is_ours) && lane.can_end() {
            return self.give_back(partition);
        }
        let owned = Owned { partition: partition.clone(), fence: lane.fence };
        if let Some(plan) = lane.record_due(now.instant) {
            self.effects.push(Effect::Record(owned.clone(), plan, Urgency::Shared));
        }
        if paused || lane.has_read {
            self.turn.mark_read(partition);
        }
        let reads = is_ours && !paused && !lane.is_lost && !lane.is_fetching;
        if let Some((budget, only)) = lane.next_read(share).filter(|_| reads) {
            lane.is_fetching = true;
            let (after, waits, failures) = (lane.read_after(), lane.has_read, lane.read_failures);
            self.effects.push(Effect::Fetch(owned, Fetch { after, only, budget, waits, failures }));
        }
        let ready = lane.ready(paused, now.instant);
        self.turn.update(partition, ready);
        let timer = lane.next_timer(now.instant);
        if lane.timer != timer {
            if let Some(old) = std::mem::replace(&mut lane.timer, timer) {
                self.timers.remove(&(old, partition.clone()));
            }
            self.timers.extend(timer.map(|timer| (timer, partition.clone())));
        }
    }

    /// When something falls due by itself.
    pub fn next_timer(&self) -> Option<Instant> {
        let first_read_until = self.first_read_until.filter(|_| self.turn.awaits_first_reads());
        self.timers.first().map(|(due, _)| *due).into_iter().chain(first_read_until).min()
    }

    /// Why the worker has ended, once nothing is left to do.
    pub fn finished(&self) -> Option<Ended> {
        match &self.phase {
            Phase::Stopping(ended) if self.lanes.is_empty() && self.releasing == 0 => Some(ended.clone()),
            Phase::Stopping(_) | Phase::Running => None,
        }
    }

    /// Whether it takes no more work.
    pub fn is_stopping(&self) -> bool {
        self.phase != Phase::Running
    }

    /// Whether a journal does not know how far we are, or what we are doing.
    pub fn has_unreported(&self) -> bool {
        let unreported =
            |lane: &Lane| !lane.is_lost && (lane.has_news || lane.reported < lane.ledger.confirmed());
        !self.is_reporting && self.lanes.values().any(unreported)
    }

    /// Whether it owns partitions.
    pub fn owns_partitions(&self) -> bool {
        !self.lanes.is_empty()
    }

    /// Whether ZooKeeper can be reached.
    pub fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// What has happened since its start.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Its options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Begins no more messages and claims no more partitions.
    fn stop(&mut self, reason: Ended) {
        if self.phase == Phase::Running {
            self.tell(Happening::Stopping(reason.label()));
            self.phase = Phase::Stopping(reason);
        }
        let claims = std::mem::take(&mut self.claims);
        self.effects.extend(claims.into_iter().map(Effect::CancelClaim));
        for lane in self.lanes.values_mut() {
            lane.ledger.close();
        }
        self.mark_all_dirty();
    }

    /// Marks the partitions dirty whose timers have expired.
    fn on_timer(&mut self, now: Instant) {
        while let Some((due, partition)) = self.timers.first().cloned().filter(|(due, _)| *due <= now) {
            self.timers.remove(&(due, partition.clone()));
            if let Some(lane) = self.lanes.get_mut(&partition) {
                lane.timer = None;
            }
            self.dirty.insert(partition);
        }
    }

    /// The partition, marked dirty, if we still own it under this fence.
    fn lane(&mut self, owned: &Owned) -> Option<&mut Lane> {
        let lane = self.lanes.get_mut(&owned.partition).filter(|lane| lane.fence == owned.fence)?;
        self.dirty.insert(owned.partition.clone());
        Some(lane)
    }

    fn is_paused(&self, partition: &PartitionName) -> bool {
        let instructed = &self.instructed;
        instructed.is_paused || instructed.paused_queues.contains(partition.queue()) || !self.is_connected
    }

    /// Retries and giving up, for this queue.
    fn failure_policy(&self, partition: &PartitionName) -> failure::Policy {
        self.options.failure.policy(&self.handling(partition))
    }

    /// Longest run of a task of this queue, if anybody says.
    pub fn time_limit(&self, partition: &PartitionName) -> Option<Duration> {
        let queue = self.handling(partition).time_limit_ms.map(Duration::from_millis);
        self.options.time_limit.or(queue)
    }

    fn handling(&self, partition: &PartitionName) -> Handling {
        self.instructed.handling.get(partition.queue()).copied().unwrap_or_default()
    }

    fn mark_all_dirty(&mut self) {
        self.dirty.extend(self.lanes.keys().cloned());
    }

    fn tell(&mut self, happening: Happening) {
        self.effects.push(Effect::Tell(Box::new(happening)));
    }

    /// Publishes our partitions and our pause, if they have changed.
    fn publish(&mut self) {
        if !std::mem::take(&mut self.is_presence_stale) {
            return;
        }
        let me = queues::Worker {
            queues: self.lanes.keys().cloned().collect(),
            serves: Some(self.options.queues.clone()),
            paused: self.instructed.is_paused,
        };
        if self.published.as_ref() != Some(&me) {
            let was_paused = self.published.as_ref().is_some_and(|before| before.paused);
            if me.paused != was_paused {
                self.tell(Happening::Paused(me.paused));
            }
            self.effects.push(Effect::Publish(me.clone()));
            self.published = Some(me);
        }
    }

    /// A snapshot.
    pub fn view(&self, now: Instant) -> WorkerView {
        let running = |lane: &Lane| -> Vec<RunningView> {
            let running = lane.window.slots().filter_map(|(position, slot)| match slot.standing {
                Standing::Running { attempt, since: Some(since), .. } => Some(RunningView {
                    message: match &slot.message {
                        Some(message) => MessageUuid::of(&lane.partition, message).to_string(),
                        None => position.to_string(),
                    },
                    attempt,
                    for_ms: u64::try_from(now.duration_since(since).as_millis()).unwrap_or(u64::MAX),
                }),
                _ => None,
            });
            running.collect()
        };
        let lane = |lane: &Lane| LaneView {
            partition: lane.partition.clone(),
            fence: lane.fence.to_string(),
            recorded: lane.ledger.confirmed().seconds(),
            done: lane.ledger.done().seconds(),
            cached: lane.window.slots().filter(|(_, slot)| slot.standing == Standing::Waiting).count(),
            running: running(lane),
            backing_off: lane.window.next_wake().is_some_and(|due| due > now),
            damaged: lane.damaged.as_ref().map(|damaged| damaged.error.clone()),
        };
        WorkerView {
            worker: self.options.name.clone(),
            epoch: self.epoch,
            paused: self.instructed.is_paused,
            waiting_for: self.claims.iter().cloned().collect(),
            partitions: self.lanes.values().map(lane).collect(),
            stats: self.stats,
        }
    }
}
