//! Advancing partitions: claim, record, read ahead, begin messages, release.

use std::time::Instant;

use menagerie_journal::{Message, MessageId, Ticks};
use menagerie_kernel::recipes::lock::LockGuard;
use menagerie_znodes::queues::{self, PartitionName};
use tracing::{debug, error, info, warn};

use super::effects::{self, Event};
use super::event_loop::{EventLoop, Phase};
use super::events::STOPPED_PAUSE;
use super::lane::{AbortOnDrop, AfterNote, Lane, LostLane, Note};
use super::records::{self, PendingRecord};
use super::view::{LaneView, WorkerView};
use crate::coordination::claim::{self, FencedJournal, Handover};
use crate::core::failure::{Begin, OnFailure, Verdict};
use crate::core::turn::Ready;
use crate::failed;
use crate::metrics::MessageOutcome;
use crate::task::{Failed, Work};

impl EventLoop {
    /// Claims the partitions assigned to us, and starts releasing the others.
    pub fn apply_assignment(&mut self) {
        let epoch = self.assigned.epoch;
        match self.instructions.assigned() {
            Ok(Some(assigned)) => self.assigned = assigned,
            // A missing assignment does not mean "release everything": the leader writes it again, and the locks keep
            // us safe.
            Ok(None) if epoch == 0 => {}
            Ok(None) => error!(epoch, "assignment is missing; keeping the last one"),
            Err(error) => {
                error!(epoch, %error, "assignment cannot be read; keeping the last one");
            }
        }
        if self.phase != Phase::Running {
            return;
        }
        for (partition, lane) in &mut self.lanes {
            if self.assigned.partitions.contains(partition) {
                lane.ledger.reopen();
            } else {
                lane.ledger.close();
            }
            self.dirty.insert(partition.clone());
        }
        let assigned = &self.assigned.partitions;
        self.claims.retain(|partition, _| assigned.contains(partition));
        self.lost_lanes.retain(|partition, _| assigned.contains(partition));
        if self.first_read_until.is_none() && !assigned.is_empty() {
            self.first_read_until = Some(Instant::now() + self.options.first_read_wait);
            assigned.iter().for_each(|partition| self.turn.await_first_read(partition));
        }
        for partition in self.assigned.partitions.clone() {
            self.claim(&partition);
        }
    }

    /// Starts to claim a partition, unless we own it or are claiming it already.
    pub fn claim(&mut self, partition: &PartitionName) {
        let wanted = self.phase == Phase::Running && self.assigned.partitions.contains(partition);
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
        self.claims.insert(partition, AbortOnDrop(claiming));
    }

    /// Advances every dirty partition, then begins messages.
    pub fn advance(&mut self) {
        let now = Instant::now();
        if self.first_read_until.is_some_and(|until| until <= now) {
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
        self.record();
        self.publish_presence();
    }

    /// Writes the pending records, unless others are in flight.
    fn record(&mut self) {
        let lanes = &self.lanes;
        let ours = |due: &PendingRecord| {
            lanes.get(&due.partition).is_some_and(|lane| lane.fence() == due.fence() && !lane.is_lost)
        };
        if let Some(due) = self.records.take_batch(ours) {
            let metrics = self.metrics.clone();
            self.events.spawn(async move { Event::Recorded(records::write(due, &metrics).await) });
        }
    }

    fn advance_one(&mut self, partition: &PartitionName, now: Instant) {
        let partitions = self.assigned.partitions.len().max(self.lanes.len());
        let Some(lane) = self.lanes.get_mut(partition) else { return };
        let ours = self.phase == Phase::Running && self.assigned.partitions.contains(partition);
        if lane.can_end() && (lane.is_lost || !ours) {
            return self.give_back(partition);
        }
        let is_note_pending = lane.note.as_ref().is_some_and(Note::is_pending);
        if let Some(position) = lane.ledger.record_due(lane.waiting(), is_note_pending, now) {
            self.records.add(lane.record(position, now));
        }
        self.send_note(partition);
        let Some(lane) = self.lanes.get_mut(partition) else { return };
        let paused = self.instructions.is_worker_paused()
            || self.instructions.is_queue_paused(partition.queue())
            || !self.is_connected;
        if paused || lane.has_read {
            self.turn.mark_read(partition);
        }
        if lane.fetching.is_none()
            && let Some(budget) = lane.read_budget(partitions)
            && !lane.is_lost
            && ours
            && !paused
        {
            let (fenced, after, has_read) = (lane.fenced.clone(), lane.read, lane.has_read);
            let failures = lane.read_failures;
            let (partition, fence) = (partition.clone(), lane.fence());
            let fetching = self.events.spawn(async move {
                Event::Fetched(
                    partition,
                    fence,
                    effects::fetch(fenced, after, budget, has_read, failures).await,
                )
            });
            lane.fetching = Some(AbortOnDrop(fetching));
        }
        let ready = lane.state(paused, self.options.batch, now).ready(now);
        self.turn.update(partition, ready);
        let timer = lane.next_timer(now);
        if lane.timer != timer {
            if let Some(old) = std::mem::replace(&mut lane.timer, timer) {
                self.timers.remove(&(old, partition.clone()));
            }
            self.timers.extend(timer.map(|timer| (timer, partition.clone())));
        }
    }

    /// Releases a partition, or drops one that we have lost.
    fn give_back(&mut self, partition: &PartitionName) {
        let Some(lane) = self.lanes.remove(partition) else { return };
        self.turn.update(partition, Ready::No);
        if let Some(timer) = lane.timer {
            self.timers.remove(&(timer, partition.clone()));
        }
        self.presence_dirty = true;
        self.metrics.forget(partition);
        let Lane { held, fenced, is_lost, tally, ledger, is_note_uncertain, .. } = lane;
        if is_lost {
            self.stats.lost += 1;
            let remains = LostLane { fence: fenced.fence.to_string(), tally, ledger };
            self.lost_lanes.insert(partition.clone(), remains);
            drop(held);
            // The assignment may still give it to us.
            return self.claim(partition);
        }
        let position = ledger.confirmed();
        // With a note in flight, write no attempts: ours could overtake it. The next owner sees the note, or counts the
        // attempt itself.
        let begun = tally.handover(position).filter(|_| !is_note_uncertain);
        let handover = Handover { begun, suspect: is_note_uncertain || ledger.is_careful() };
        self.release(partition, held, fenced, position, handover);
    }

    /// Releases a partition in the background.
    pub fn release(
        &mut self,
        partition: &PartitionName,
        held: LockGuard,
        fenced: FencedJournal,
        position: MessageId,
        handover: Handover,
    ) {
        self.releasing += 1;
        let partition = partition.clone();
        self.events.spawn(async move {
            let released = claim::release(held, &fenced, position, handover).await;
            Event::Released(partition, released)
        });
    }

    /// Begins the next messages of a partition: its turn has come, or the record that had to come first is stored.
    pub fn begin(&mut self, partition: &PartitionName, now: Instant) {
        let Some(lane) = self.lanes.get_mut(partition) else { return self.turn.finish(partition) };
        let count = lane.ledger.ready_count(lane.waiting(), self.options.batch, now);
        let Some(first) = lane.cache.front().map(|message| message.id).filter(|_| count > 0) else {
            self.turn.finish(partition);
            return;
        };
        // After a freeze, the event that the lease has lapsed may still be queued. Begin nothing until it arrives, or
        // the lease is extended after all.
        if lane.lease().is_over() {
            lane.not_before = Some(now + STOPPED_PAUSE);
            return self.requeue(partition);
        }
        if lane.ledger.must_record_first(first) {
            let (due, metrics) = (vec![lane.record(first, now)], self.metrics.clone());
            self.events.spawn(async move { Event::RecordedFirst(records::write(due, &metrics).await) });
            return;
        }
        let fresh = lane.unexpired_count(count, Ticks::now());
        if fresh == 0 {
            debug!(%partition, id = %first, "message expired before its turn; skipped");
            lane.skip_first(now);
            self.stats.expired += 1;
            self.metrics.count(partition.queue(), MessageOutcome::Expired, 1);
            return self.requeue(partition);
        }
        let count = count.min(fresh);
        match lane.tally.begin(first, lane.ledger.is_careful(), &self.options.failure) {
            Begin::Skip => {
                lane.skip_first(now);
                self.requeue(partition);
            }
            Begin::Poison { attempts } => {
                self.turn.finish(partition);
                let error = "every worker that took it has died".to_owned();
                let failed = Failed { error, output: Vec::new(), retry: false };
                let message = lane.cache[0].clone();
                self.give_up(partition, &message, attempts, failed);
            }
            Begin::Run { attempt, task_attempt, store } => {
                let repeats =
                    lane.waiting().take(count).take_while(|id| lane.tally.may_have_run(*id)).count();
                lane.take(count);
                lane.attempt = attempt;
                lane.stop.send_replace(false);
                let work = Work {
                    partition: partition.clone(),
                    messages: lane.running.clone(),
                    attempt: task_attempt,
                    repeats,
                    fence: lane.fence(),
                    lease: lane.lease(),
                };
                let (task, fenced, term) = (self.task.clone(), lane.fenced.clone(), lane.held.term().clone());
                let (partition, fence, patience) =
                    (partition.clone(), lane.fence(), self.options.stop_timeout);
                let (metrics, stopping) = (self.metrics.clone(), self.stopping.subscribe());
                self.events.spawn(async move {
                    let began = Instant::now();
                    let lapsed = term.lapsed();
                    let outcomes =
                        effects::run(&*task, fenced, work, store, patience, lapsed, stopping).await;
                    metrics.task(began.elapsed());
                    Event::Ran(partition, fence, outcomes)
                });
            }
        }
    }

    /// Ends a turn in which no message began.
    fn requeue(&mut self, partition: &PartitionName) {
        self.turn.finish(partition);
        self.dirty.insert(partition.clone());
    }

    /// Gives up a message that has no attempts left.
    pub fn give_up(&mut self, partition: &PartitionName, message: &Message, attempts: u32, why: Failed) {
        let Some(lane) = self.lanes.get_mut(partition) else { return };
        let on_failure = self.options.failure.on_failure;
        let stored = lane.tally.record_failure(message.id, attempts, Verdict::GiveUp(on_failure));
        warn!(
            %partition, id = %message.id, attempts, error = why.error,
            // As text it is escaped, so that a task's output cannot forge our log lines.
            output = &*String::from_utf8_lossy(&why.output), ?on_failure, "message given up"
        );
        let alone = menagerie_journal::Commit {
            states: vec![lane.fenced.attempts(&stored)],
            ..menagerie_journal::Commit::default()
        };
        let (variants, after) = match on_failure {
            OnFailure::Log => (vec![alone], AfterNote::Skip(message.id)),
            OnFailure::Stop => (vec![alone], AfterNote::Stop(why)),
            OnFailure::Queue => match failed::give_up(&lane.fenced, partition, message, &why, &stored) {
                Ok(variants) => (variants, AfterNote::Skip(message.id)),
                Err(_) => (vec![alone], AfterNote::Skip(message.id)),
            },
        };
        self.note(partition, variants, after);
    }

    /// Stores a note about a failure, in the first variant that fits. The partition waits until it is stored.
    pub fn note(
        &mut self,
        partition: &PartitionName,
        variants: Vec<menagerie_journal::Commit>,
        then: AfterNote,
    ) {
        let Some(lane) = self.lanes.get_mut(partition) else { return };
        lane.note = Some(Note { variants: Some(variants), then });
        self.dirty.insert(partition.clone());
        // Send it now if possible: losing the partition drops pending notes.
        self.send_note(partition);
    }

    /// Sends the pending note once everything done before it is recorded.
    fn send_note(&mut self, partition: &PartitionName) {
        let Some(lane) = self.lanes.get_mut(partition).filter(|lane| lane.ledger.is_recorded()) else {
            return;
        };
        let Some(variants) = lane.note.as_mut().and_then(|note| note.variants.take()) else { return };
        let (partition, fenced, fence) = (partition.clone(), lane.fenced.clone(), lane.fence());
        let (stop, stopping) = (lane.stop.subscribe(), self.stopping.subscribe());
        self.events.spawn(async move {
            let noted = effects::note(partition.clone(), fenced, variants, stop, stopping).await;
            Event::Noted(partition, fence, noted)
        });
    }

    /// Publishes our partitions and our pause state in our presence znode, if they have changed.
    fn publish_presence(&mut self) {
        if !std::mem::take(&mut self.presence_dirty) {
            return;
        }
        let me = queues::Worker {
            queues: self.lanes.keys().cloned().collect(),
            serves: Some(self.options.queues.clone()),
            paused: self.instructions.is_worker_paused(),
        };
        self.metrics.partitions(me.queues.len());
        if me != self.published {
            if me.paused != self.published.paused {
                info!(worker = %self.options.name, paused = me.paused, "worker paused or resumed");
            }
            self.presence.publish(&me);
            self.published = me;
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
            epoch: self.assigned.epoch,
            paused: self.instructions.is_worker_paused(),
            waiting_for: self.claims.keys().cloned().collect(),
            partitions: self.lanes.values().map(lane).collect(),
            stats: self.stats,
        }
    }
}
