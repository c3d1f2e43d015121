//! The world of the simulation: who is there, what happens next, and what must hold.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use menagerie_journal::{Message, MessageId, Ticks};
use menagerie_znodes::Name;
use menagerie_znodes::queues::{Handling, Order, PartitionName, QueueName, Retry};

use super::dice::Dice;
use super::seen::Seen;
use super::store::Stored;
use super::worker::{Pending, Process, Running};
use crate::core::failure::OnFailure;
use crate::core::ledger::{Ack, Commit};
use crate::core::machine::{Fact, Instructed, Machine, Now};
use crate::core::options::Options;

const WORKERS: usize = 3;
const STEPS: usize = 120;
/// A healed world that is not done after this many steps is stuck.
const HEALED_STEPS: usize = 5_000;
/// Ticks of the first message; ids must not be near zero.
const EPOCH: u64 = 1_000_000;

/// Faults put back on purpose.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// Records do not check their ticket.
    pub no_ticket: bool,
    /// Messages are recorded before they have ended, although they are promised to be handled at least once.
    pub ack_early: bool,
}

/// What its task does with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Script {
    Succeed,
    /// Fails this many times.
    Fail(u32),
    /// Never succeeds, and says so.
    FailForGood,
    /// Kills its worker this many times.
    Kill(u32),
}

/// What is true of a message, whatever anybody has stored.
#[derive(Debug)]
pub(super) struct Truth {
    pub script: Script,
    pub key: Option<String>,
    pub runs: u32,
    pub failures: u32,
    pub running: Option<usize>,
    pub is_finished: bool,
    /// It is stored that it was given up.
    pub is_given_up: bool,
}

pub struct World {
    pub(super) dice: Dice,
    pub(super) faults: Faults,
    pub(super) handling: Handling,
    pub(super) ack: Ack,
    pub(super) options: Options,
    names: Vec<PartitionName>,
    pub(super) stored: BTreeMap<PartitionName, Stored>,
    pub(super) truth: BTreeMap<(PartitionName, MessageId), Truth>,
    pub(super) workers: Vec<Option<Process>>,
    /// Sessions that have not expired, of the living and the dead.
    sessions: BTreeSet<u64>,
    started: Instant,
    now_ms: u64,
    counter: u64,
    /// The last message that was put expires.
    expires: bool,
    pub(super) is_healed: bool,
    transcript: Vec<String>,
    pub prints: bool,
    pub(super) violation: Option<String>,
    pub seen: Seen,
}

fn queue() -> QueueName {
    "mail".parse().expect("a name")
}

impl World {
    pub fn new(seed: u64, faults: Faults) -> Self {
        let mut dice = Dice::new(seed);
        let order = dice.pick(&[Order::Partition, Order::Key, Order::None]);
        let retry = dice.pick(&[None, Some(Retry::Block), Some(Retry::Later)]);
        let handling = Handling { order, retry, ..Handling::default() };
        let ack = if !faults.ack_early && dice.one_in(5) { Ack::Before } else { Ack::After };
        let mut options = Options::new(Name::new("w").expect("a name"), vec![queue()]);
        options.concurrency = dice.pick(&[1, 2, 4]);
        options.batch = dice.pick(&[1, 1, 3]);
        options.commit = dice.pick(&[
            Commit::EACH,
            Commit::EACH,
            Commit::Count(NonZeroU32::new(3).expect("three")),
            Commit::Every(Duration::from_millis(20)),
        ]);
        options.ack = if faults.ack_early { Ack::Before } else { ack };
        options.failure.attempts = NonZeroU32::new(3);
        options.failure.backoff = Some(Duration::from_millis(10));
        options.failure.on_failure =
            dice.pick(&[OnFailure::Queue, OnFailure::Queue, OnFailure::Log, OnFailure::Stop]);
        options.first_read_wait = Duration::ZERO;
        let names: Vec<PartitionName> = (1..=2).map(|number| queue().partition(number)).collect();
        let mut world = Self {
            dice,
            faults,
            handling,
            ack,
            options,
            stored: names.iter().map(|name| (name.clone(), Stored::default())).collect(),
            names,
            truth: BTreeMap::new(),
            workers: (0..WORKERS).map(|_| None).collect(),
            sessions: BTreeSet::new(),
            started: Instant::now(),
            now_ms: 0,
            counter: EPOCH,
            expires: false,
            is_healed: false,
            transcript: Vec::new(),
            prints: false,
            violation: None,
            seen: Seen::default(),
        };
        (0..WORKERS).for_each(|worker| world.start(worker));
        world
    }

    /// Plays random steps, then heals and waits until everything is done.
    pub fn play(&mut self) -> Result<(), String> {
        self.note(format!(
            "{:?} {:?} concurrency {} batch {}",
            self.handling, self.ack, self.options.concurrency, self.options.batch
        ));
        self.assign();
        for _ in 0..STEPS {
            self.random_step();
            self.check()?;
        }
        self.is_healed = true;
        let gone: Vec<usize> = (0..WORKERS).filter(|worker| self.workers[*worker].is_none()).collect();
        gone.into_iter().for_each(|worker| self.start(worker));
        self.expire_the_dead();
        (0..WORKERS).for_each(|worker| self.step(worker, Fact::Connected(true)));
        self.assign();
        for _ in 0..HEALED_STEPS {
            if self.is_done() {
                return Ok(());
            }
            self.healed_step();
            self.check()?;
        }
        self.violation = Some("it is stuck after the faults".to_owned());
        self.check()
    }

    pub(super) fn is_done(&self) -> bool {
        let finished = self.ack == Ack::Before || self.truth.values().all(|truth| truth.is_finished);
        let recorded = |stored: &Stored| stored.messages.iter().all(|message| message.id <= stored.cursor);
        let idle = self.workers.iter().flatten().all(|worker| worker.running.is_empty());
        finished && idle && self.stored.values().all(recorded)
    }

    pub(super) fn check(&mut self) -> Result<(), String> {
        match self.violation.take() {
            None => Ok(()),
            Some(why) => Err(format!("{}\n{why}", self.transcript.join("\n"))),
        }
    }

    pub(super) fn random_step(&mut self) {
        let worker = self.dice.below(WORKERS);
        match self.dice.below(44) {
            0..5 => self.put(),
            5 => self.crash(worker),
            6 => self.expire(worker),
            7 => self.expire_the_dead(),
            8 => self.assign(),
            9 if self.dice.one_in(3) => self.order(worker),
            9 | 10 if self.workers[worker].is_none() => {
                self.start(worker);
                self.assign();
            }
            11 if self.dice.one_in(4) => self.delete(),
            12 => {
                let is_connected = !self.dice.one_in(3);
                self.step(worker, Fact::Connected(is_connected));
            }
            11 | 13..15 => self.pass_time(),
            15..22 => self.end_task(worker),
            _ => self.handle_pending(worker),
        }
    }

    pub(super) fn healed_step(&mut self) {
        for worker in 0..WORKERS {
            if self.workers[worker].is_none() {
                self.expire_the_dead();
                self.start(worker);
                self.assign();
            }
            while self.workers[worker].as_ref().is_some_and(|process| !process.running.is_empty()) {
                self.end_task(worker);
            }
            self.handle_pending(worker);
        }
        self.pass_time();
    }

    pub(super) fn now(&self) -> Now {
        let instant = self.started + Duration::from_millis(self.now_ms);
        Now { instant, ticks: Ticks(EPOCH + self.now_ms * 10_000) }
    }

    pub(super) fn note(&mut self, text: String) {
        if self.prints {
            println!("{text}");
        }
        self.transcript.push(text);
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    pub(super) fn put(&mut self) {
        let partition = self.dice.pick(&[0, 1]);
        let partition = self.names[partition].clone();
        let id = MessageId(Ticks(self.next_number()));
        let key = self.dice.pick(&[None, Some("a"), Some("b")]).map(str::to_owned);
        let priority = self.dice.pick(&[0, 0, 5]);
        let meta = super::super::meta(key.as_deref(), priority);
        let script = match self.dice.below(10) {
            0 => Script::Fail(1),
            1 => Script::Fail(9),
            2 => Script::FailForGood,
            3 if self.dice.one_in(3) => Script::Kill(1),
            4 if self.dice.one_in(6) => Script::Kill(u32::MAX),
            _ => Script::Succeed,
        };
        // A message that never succeeds would stop one worker after the other.
        let script = match script {
            Script::FailForGood | Script::Kill(u32::MAX)
                if self.options.failure.on_failure == OnFailure::Stop =>
            {
                Script::Fail(5)
            }
            script => script,
        };
        self.note(format!("put {} into {partition} key {key:?} priority {priority} {script:?}", id.0.0));
        let lives_ms = self.dice.pick(&[0, 5, 40]);
        // Often several in a row: those are passed together.
        self.expires = self.dice.one_in(if self.expires { 2 } else { 12 });
        let expires = self.expires.then(|| Ticks(self.now().ticks.0 + lives_ms * 10_000));
        let message = Message { id, meta, body: bytes::Bytes::new(), expires };
        self.stored.get_mut(&partition).expect("it is there").messages.push(message);
        let truth = Truth {
            script,
            key,
            runs: 0,
            failures: 0,
            running: None,
            is_finished: false,
            is_given_up: false,
        };
        self.truth.insert((partition, id), truth);
    }

    /// Somebody deletes a message. Whoever has read it may handle it all the same.
    pub(super) fn delete(&mut self) {
        let open = |(_, truth): &(_, &Truth)| !truth.is_finished && truth.running.is_none();
        let open: Vec<_> = self.truth.iter().filter(open).map(|(key, _)| key.clone()).collect();
        if open.is_empty() {
            return;
        }
        let (partition, id) = &open[self.dice.below(open.len())];
        self.note(format!("delete {} of {partition}", id.0.0));
        self.stored.get_mut(partition).expect("it is there").messages.retain(|message| message.id != *id);
        self.finish(partition, *id);
        self.seen.count("deleted");
    }

    pub(super) fn start(&mut self, worker: usize) {
        let session = self.next_number();
        self.sessions.insert(session);
        self.note(format!("start w{worker} session {session}"));
        let machine = Machine::new(self.options.clone());
        self.workers[worker] = Some(Process::new(machine, session));
        let handling = BTreeMap::from([(queue(), self.handling)]);
        self.step(worker, Fact::Instructed(Instructed { handling, ..Instructed::default() }));
    }

    /// Deals the partitions out at random.
    pub(super) fn assign(&mut self) {
        let epoch = self.next_number();
        let alive: Vec<usize> = (0..WORKERS).filter(|worker| self.workers[*worker].is_some()).collect();
        if alive.is_empty() {
            return;
        }
        let mut owners: BTreeMap<usize, BTreeSet<PartitionName>> = BTreeMap::new();
        for name in self.names.clone() {
            owners.entry(self.dice.pick(&alive)).or_default().insert(name);
        }
        self.note(format!("assign {owners:?}"));
        for worker in alive {
            let partitions = owners.remove(&worker).unwrap_or_default();
            self.step(worker, Fact::Assigned { epoch, partitions });
        }
    }

    /// The process dies, with its tasks: the guard sees to them. Its session stays.
    pub(super) fn crash(&mut self, worker: usize) {
        let Some(process) = self.workers[worker].take() else { return };
        self.note(format!("crash w{worker}"));
        let running: Vec<Running> = process.running.into_values().collect();
        if !running.is_empty() {
            self.seen.count("crash while tasks run");
        }
        running.iter().for_each(|run| self.stop_running(run));
    }

    pub(super) fn stop_running(&mut self, run: &Running) {
        for id in &run.messages {
            let truth = self.truth.get_mut(&(run.owned.partition.clone(), *id)).expect("it was put");
            truth.running = None;
        }
    }

    /// The session expires while its owner goes on without knowing. Its tasks have ended before: the lease sees to that.
    pub(super) fn expire(&mut self, worker: usize) {
        let session = self.next_number();
        let Some(process) = self.workers[worker].as_mut() else { return };
        let old = std::mem::replace(&mut process.session, session);
        let stopped = std::mem::take(&mut process.running);
        for (run, running) in &stopped {
            process.pending.push(Pending::Answer(Fact::Ran(running.owned.clone(), *run, Ok(Vec::new()))));
        }
        process.pending.push(Pending::Answer(Fact::Lapsed(old)));
        self.sessions.insert(session);
        stopped.values().for_each(|run| self.stop_running(run));
        self.note(format!("expire session {old} of w{worker}"));
        self.end_session(old);
    }

    pub(super) fn end_session(&mut self, session: u64) {
        self.sessions.remove(&session);
        for stored in self.stored.values_mut() {
            stored.tickets.retain(|ticket| ticket.session != session);
        }
    }

    pub(super) fn expire_the_dead(&mut self) {
        let alive: BTreeSet<u64> = self.workers.iter().flatten().map(|process| process.session).collect();
        let dead: Vec<u64> = self.sessions.difference(&alive).copied().collect();
        dead.into_iter().for_each(|session| self.end_session(session));
    }

    /// Tells a worker to end; it may be killed before it has.
    pub(super) fn order(&mut self, worker: usize) {
        let fact = if self.dice.one_in(2) { Fact::Finish } else { Fact::Abort };
        self.note(format!("order w{worker} {fact:?}"));
        self.step(worker, fact);
    }

    pub(super) fn pass_time(&mut self) {
        let due = self.workers.iter().flatten().filter_map(|process| process.machine.next_timer()).min();
        let now = self.now().instant;
        let due = due.map_or(10, |due| due.saturating_duration_since(now).as_millis() as u64);
        self.now_ms += due.clamp(1, 100);
        for worker in 0..WORKERS {
            self.step(worker, Fact::Timer);
        }
    }

    pub(super) fn step(&mut self, worker: usize, fact: Fact) {
        let now = self.now();
        let Some(process) = self.workers[worker].as_mut() else { return };
        let mut text = format!("w{worker} {fact:?}");
        text.truncate(text.char_indices().nth(400).map_or(text.len(), |(at, _)| at));
        let is_timer = matches!(fact, Fact::Timer);
        match &fact {
            Fact::Assigned { partitions, .. } => process.assigned.clone_from(partitions),
            Fact::Recorded(owned, _) => drop(process.recording.remove(owned)),
            Fact::Ran(owned, run, Ok(outcomes)) => process.on_ran(owned, *run, outcomes),
            _ => {}
        }
        let effects = process.machine.step(fact, now);
        if !is_timer || !effects.is_empty() {
            self.note(text);
        }
        for effect in effects {
            self.perform(worker, effect);
            // It may die in the middle of it.
            if !self.is_healed && self.dice.one_in(400) {
                return self.crash(worker);
            }
        }
        if self.workers[worker].as_ref().is_some_and(|process| process.machine.finished().is_some()) {
            self.note(format!("w{worker} has ended"));
            let session = self.workers[worker].take().map_or(0, |process| process.session);
            self.end_session(session);
        }
    }
}
