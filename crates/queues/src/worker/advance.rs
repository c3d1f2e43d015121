//! How partitions go on.

use std::time::Instant;

use menagerie_journal::{Message, MessageId, Ticks};
use menagerie_kernel::recipes::lock::LockGuard;
use menagerie_znodes::queues::{self, PartitionName};
use tracing::{debug, error, info, warn};

use super::effects::{self, Event};
use super::lane::{Begun, Lane, Note, Noting, Remains};
use super::looping::{Course, Loop};
use super::react::STOPPED_PAUSE;
use super::records::{self, Due};
use super::view::{LaneView, WorkerView};
use crate::coordination::claim::{self, Books, Parting};
use crate::core::failure::{Begin, OnFailure, Verdict};
use crate::core::turn::Ready;
use crate::failed;
use crate::metrics::Came;
use crate::task::{Failed, Work};

impl Loop {
    /// Takes what is assigned, and begins to give back what is not.
    pub fn obey(&mut self) {
        let epoch = self.ordered.epoch;
        match self.orders.ordered() {
            Ok(Some(ordered)) => self.ordered = ordered,
            // It is not said that all is to be given back: the elected worker writes it again, and the locks guard.
            Ok(None) if epoch == 0 => {}
            Ok(None) => error!(epoch, "the assignment is gone; what it said before is kept"),
            Err(error) => {
                error!(epoch, %error, "the assignment cannot be read; what it said before is kept");
            }
        }
        if self.course != Course::Work {
            return;
        }
        for (partition, lane) in &mut self.lanes {
            if self.ordered.partitions.contains(partition) {
                lane.ledger.reopen();
            } else {
                lane.ledger.close();
            }
            self.touched.insert(partition.clone());
        }
        let ordered = &self.ordered.partitions;
        self.claims.retain(|partition, _| ordered.contains(partition));
        self.lost.retain(|partition, _| ordered.contains(partition));
        if self.first_look.is_none() && !ordered.is_empty() {
            self.first_look = Some(Instant::now() + self.options.first_look);
            ordered.iter().for_each(|partition| self.turn.expect(partition));
        }
        for partition in self.ordered.partitions.clone() {
            self.claim(&partition);
        }
    }

    /// Begins to wait for a partition, unless it is ours already or waited for.
    pub fn claim(&mut self, partition: &PartitionName) {
        let wanted = self.course == Course::Work && self.ordered.partitions.contains(partition);
        if !wanted || self.lanes.contains_key(partition) || self.claims.contains_key(partition) {
            return;
        }
        let (session, journals) = (self.session.clone(), self.journals.clone());
        let (worker, partition) = (self.options.name.clone(), partition.clone());
        let (claimed, metrics) = (partition.clone(), self.metrics.clone());
        let window = self.options.commit.window(self.options.ack, self.options.batch);
        let claiming = self.events.spawn(async move {
            let claim = effects::claim(&session, &journals, &worker, &claimed, window, &metrics).await;
            Event::Claimed(claimed, claim)
        });
        self.claims.insert(partition, Begun(claiming));
    }

    /// Lets every partition that was touched go on, and begins messages.
    pub fn advance(&mut self) {
        let now = Instant::now();
        if self.first_look.is_some_and(|until| until <= now) {
            self.turn.expect_no_more();
        }
        loop {
            for partition in std::mem::take(&mut self.touched) {
                self.advance_one(&partition, now);
            }
            while let Some(partition) = self.turn.take() {
                self.begin(&partition, now);
            }
            if self.touched.is_empty() {
                break;
            }
        }
        self.record();
        self.say();
    }

    /// Makes the records that are due, unless others are on their way.
    fn record(&mut self) {
        let lanes = &self.lanes;
        let ours = |due: &Due| {
            lanes.get(&due.partition).is_some_and(|lane| lane.fence() == due.fence() && !lane.lost)
        };
        if let Some(due) = self.records.go(ours) {
            let metrics = self.metrics.clone();
            self.events.spawn(async move { Event::Recorded(records::make(due, &metrics).await) });
        }
    }

    fn advance_one(&mut self, partition: &PartitionName, now: Instant) {
        let partitions = self.ordered.partitions.len().max(self.lanes.len());
        let Some(lane) = self.lanes.get_mut(partition) else { return };
        let ours = self.course == Course::Work && self.ordered.partitions.contains(partition);
        if lane.may_end() && (lane.lost || !ours) {
            return self.let_go(partition);
        }
        let note_waits = lane.note.as_ref().is_some_and(Note::waits);
        if let Some(position) = lane.ledger.record_due(lane.waiting(), note_waits, now) {
            self.records.add(lane.record(position, now));
        }
        self.send_note(partition);
        let Some(lane) = self.lanes.get_mut(partition) else { return };
        let paused =
            self.orders.worker_paused() || self.orders.queue_paused(partition.queue()) || !self.connected;
        if paused || lane.looked {
            self.turn.looked(partition);
        }
        if lane.fetching.is_none()
            && let Some(room) = lane.room(partitions)
            && !lane.lost
            && ours
            && !paused
        {
            let (books, after, looked) = (lane.books.clone(), lane.read, lane.looked);
            let failures = lane.read_failures;
            let (partition, fence) = (partition.clone(), lane.fence());
            let fetching = self.events.spawn(async move {
                Event::Fetched(partition, fence, effects::fetch(books, after, room, looked, failures).await)
            });
            lane.fetching = Some(Begun(fetching));
        }
        let ready = lane.standing(paused, self.options.batch, now).ready(now);
        self.turn.update(partition, ready);
        let timer = lane.due(now);
        if lane.timer != timer {
            if let Some(old) = std::mem::replace(&mut lane.timer, timer) {
                self.timers.remove(&(old, partition.clone()));
            }
            self.timers.extend(timer.map(|timer| (timer, partition.clone())));
        }
    }

    /// Gives a partition back, or forgets one that is another's.
    fn let_go(&mut self, partition: &PartitionName) {
        let Some(lane) = self.lanes.remove(partition) else { return };
        self.turn.update(partition, Ready::No);
        if let Some(timer) = lane.timer {
            self.timers.remove(&(timer, partition.clone()));
        }
        self.unsaid = true;
        self.metrics.forget(partition);
        let Lane { held, books, lost, tally, ledger, unsure, .. } = lane;
        if lost {
            self.stats.lost += 1;
            let remains = Remains { fence: books.fence.to_string(), tally, ledger };
            self.lost.insert(partition.clone(), remains);
            drop(held);
            // It may still be ours by the assignment.
            return self.claim(partition);
        }
        let position = ledger.confirmed();
        // What is on its way must not be overtaken: whoever comes next finds it, or counts what it does not find.
        let begun = tally.parting(position).filter(|_| !unsure);
        let parting = Parting { begun, suspect: unsure || ledger.is_careful() };
        self.release(partition, held, books, position, parting);
    }

    /// Gives a partition back.
    pub fn release(
        &mut self,
        partition: &PartitionName,
        held: LockGuard,
        books: Books,
        position: MessageId,
        parting: Parting,
    ) {
        self.releasing += 1;
        let partition = partition.clone();
        self.events.spawn(async move {
            let released = claim::release(held, &books, position, parting).await;
            Event::Released(partition, released)
        });
    }

    /// A partition's turn has come; or what was to be recorded before it begins is.
    pub fn begin(&mut self, partition: &PartitionName, now: Instant) {
        let Some(lane) = self.lanes.get_mut(partition) else { return self.turn.ended(partition) };
        let count = lane.ledger.may_begin(lane.waiting(), self.options.batch, now);
        let Some(first) = lane.cache.front().map(|message| message.id).filter(|_| count > 0) else {
            self.turn.ended(partition);
            return;
        };
        // Who was frozen hears of it later: until then nothing begins. If the lease is prolonged after all, it goes on.
        if lane.lease().is_over() {
            lane.not_before = Some(now + STOPPED_PAUSE);
            return self.not_begun(partition);
        }
        if lane.ledger.records_first(first) {
            let (due, metrics) = (vec![lane.record(first, now)], self.metrics.clone());
            self.events.spawn(async move { Event::RecordedFirst(records::make(due, &metrics).await) });
            return;
        }
        let fresh = lane.fresh(count, Ticks::now());
        if fresh == 0 {
            debug!(%partition, id = %first, "its time to live was over before its turn came: passed over");
            lane.pass(now);
            self.stats.expired += 1;
            self.metrics.count(partition.queue(), Came::Expired, 1);
            return self.not_begun(partition);
        }
        let count = count.min(fresh);
        match lane.tally.begin(first, lane.ledger.is_careful(), &self.options.failure) {
            Begin::Pass => {
                lane.pass(now);
                self.not_begun(partition);
            }
            Begin::Poison { attempts } => {
                self.turn.ended(partition);
                let error = "every worker that took it has died".to_owned();
                let failed = Failed { error, output: Vec::new(), retry: false };
                let message = lane.cache[0].clone();
                self.give_up(partition, &message, attempts, failed);
            }
            Begin::Run { attempt, told, store } => {
                let repeats =
                    lane.waiting().take(count).take_while(|id| lane.tally.may_have_run(*id)).count();
                lane.take(count);
                lane.attempt = attempt;
                lane.stop.send_replace(false);
                let work = Work {
                    partition: partition.clone(),
                    messages: lane.running.clone(),
                    attempt: told,
                    repeats,
                    fence: lane.fence(),
                    lease: lane.lease(),
                };
                let (task, books, term) = (self.task.clone(), lane.books.clone(), lane.held.term().clone());
                let (partition, fence, patience) =
                    (partition.clone(), lane.fence(), self.options.stop_patience);
                let (metrics, ending) = (self.metrics.clone(), self.ending.subscribe());
                self.events.spawn(async move {
                    let began = Instant::now();
                    let lapsed = term.lapsed();
                    let outcomes = effects::run(&*task, books, work, store, patience, lapsed, ending).await;
                    metrics.task(began.elapsed());
                    Event::Ran(partition, fence, outcomes)
                });
            }
        }
    }

    /// Nothing of it has begun; it goes on in another way.
    fn not_begun(&mut self, partition: &PartitionName) {
        self.turn.ended(partition);
        self.touched.insert(partition.clone());
    }

    /// A message has no attempts left.
    pub fn give_up(&mut self, partition: &PartitionName, message: &Message, attempts: u32, why: Failed) {
        let Some(lane) = self.lanes.get_mut(partition) else { return };
        let on_failure = self.options.failure.on_failure;
        let stored = lane.tally.failed(message.id, attempts, Verdict::GiveUp(on_failure));
        warn!(
            %partition, id = %message.id, attempts, error = why.error,
            // As text it is escaped: what a task prints must not look like lines of ours.
            output = &*String::from_utf8_lossy(&why.output), ?on_failure, "message given up"
        );
        let alone = menagerie_journal::Commit {
            states: vec![lane.books.attempts(&stored)],
            ..menagerie_journal::Commit::default()
        };
        let (forms, noting) = match on_failure {
            OnFailure::Log => (vec![alone], Noting::Pass(message.id)),
            OnFailure::Stop => (vec![alone], Noting::Stop(why)),
            OnFailure::Queue => match failed::give_up(&lane.books, partition, message, &why, &stored) {
                Ok(forms) => (forms, Noting::Pass(message.id)),
                Err(_) => (vec![alone], Noting::Pass(message.id)),
            },
        };
        self.note(partition, forms, noting);
    }

    /// Says something in the journal, in the first form that there is room for; until it is there, the partition waits.
    pub fn note(&mut self, partition: &PartitionName, forms: Vec<menagerie_journal::Commit>, then: Noting) {
        let Some(lane) = self.lanes.get_mut(partition) else { return };
        lane.note = Some(Note { forms: Some(forms), then });
        self.touched.insert(partition.clone());
        // At once where it need not wait: a partition that is lost by the next event has no notes.
        self.send_note(partition);
    }

    /// Sends the note that waits, once all that is done before it is recorded.
    fn send_note(&mut self, partition: &PartitionName) {
        let Some(lane) = self.lanes.get_mut(partition).filter(|lane| lane.ledger.is_recorded()) else {
            return;
        };
        let Some(forms) = lane.note.as_mut().and_then(|note| note.forms.take()) else { return };
        let (partition, books, fence) = (partition.clone(), lane.books.clone(), lane.fence());
        let (stop, ending) = (lane.stop.subscribe(), self.ending.subscribe());
        self.events.spawn(async move {
            let noted = effects::note(partition.clone(), books, forms, stop, ending).await;
            Event::Noted(partition, fence, noted)
        });
    }

    /// Keeps true what is listed about us.
    fn say(&mut self) {
        if !std::mem::take(&mut self.unsaid) {
            return;
        }
        let me = queues::Worker {
            queues: self.lanes.keys().cloned().collect(),
            serves: Some(self.options.queues.clone()),
            paused: self.orders.worker_paused(),
        };
        self.metrics.partitions(me.queues.len());
        if me != self.said {
            if me.paused != self.said.paused {
                info!(worker = %self.options.name, paused = me.paused, "worker told");
            }
            self.presence.publish(&me);
            self.said = me;
        }
    }

    pub fn view(&self) -> WorkerView {
        let now = Instant::now();
        let lane = |lane: &Lane| LaneView {
            partition: lane.partition.clone(),
            fence: lane.fence().to_string(),
            recorded: lane.ledger.confirmed().seconds(),
            done: lane.ledger.done().seconds(),
            cached: lane.cache.len(),
            running: lane.running.iter().map(|message| message.id.to_string()).collect(),
            backing_off: lane.not_before.is_some_and(|due| due > now),
            damaged: lane.damaged.as_ref().map(|damaged| damaged.error.clone()),
        };
        WorkerView {
            worker: self.options.name.clone(),
            epoch: self.ordered.epoch,
            paused: self.orders.worker_paused(),
            waiting_for: self.claims.keys().cloned().collect(),
            partitions: self.lanes.values().map(lane).collect(),
            stats: self.stats,
        }
    }
}
