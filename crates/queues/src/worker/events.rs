//! What the loop does on each event.

use std::time::{Duration, Instant};

use menagerie_journal::{Batch, JournalError, MessageId};
use menagerie_kernel::{Fence, whole};
use menagerie_znodes::queues::PartitionName;
use tracing::{debug, info, warn};

use super::Ended;
use super::effects::{Event, NoteOutcome};
use super::event_loop::{EventLoop, Phase};
use super::lane::{AbortOnDrop, AfterNote, Lane};
use super::records::PendingRecord;
use crate::coordination::claim::{self, Claimed, Handover};
use crate::core::failure::{Failure, Verdict};
use crate::core::ledger::{Ack, Recorded};
use crate::failed;
use crate::metrics::MessageOutcome;
use crate::task::{Failed, Outcome};

/// Pause after a task that stopped by itself, or could not begin, so that it does not spin.
pub const STOPPED_PAUSE: Duration = Duration::from_secs(1);

impl EventLoop {
    pub fn handle(&mut self, event: Event) {
        match event {
            Event::Claimed(partition, claimed) => self.on_claimed(&partition, *claimed),
            Event::Lost(partition, fence) => {
                if let Some(lane) = self.lane(&partition, fence) {
                    warn!(%partition, %fence, "partition lost");
                    lane.lose();
                }
            }
            Event::Lapsed(term) => {
                for lane in self.lanes.values_mut().filter(|lane| Some(lane.held.term().number()) == term) {
                    warn!(partition = %lane.partition, fence = %lane.fence(), "lease over: partition lost");
                    lane.lose();
                }
                self.mark_all_dirty();
                if term.is_some() {
                    self.watch_lease();
                }
            }
            Event::Fetched(partition, fence, batch) => self.on_fetched(&partition, fence, batch),
            Event::Ran(partition, fence, outcomes) => self.on_ran(&partition, fence, outcomes),
            Event::Noted(partition, fence, noted) => self.on_noted(&partition, fence, noted),
            Event::Recorded(records) => {
                self.records.batch_done();
                for (due, recorded) in records {
                    self.on_recorded(&due, recorded);
                }
            }
            Event::RecordedFirst(records) => {
                for (due, recorded) in records {
                    self.on_recorded_first(&due, recorded);
                }
            }
            Event::Released(partition, released) => {
                self.releasing -= 1;
                self.stats.released += 1;
                match released {
                    Ok(()) => info!(%partition, "partition released"),
                    Err(error) => {
                        debug!(%partition, error = %whole(&error), "partition was gone before it was released")
                    }
                }
                self.claim(&partition);
            }
            Event::Reported(report) => self.on_reported(report),
        }
    }

    fn on_recorded(&mut self, due: &PendingRecord, recorded: Recorded) {
        let (partition, fence) = (&due.partition, due.fence());
        let Some(lane) = self.lane(partition, fence) else { return };
        lane.recorded(due.record.position(), recorded);
        match recorded {
            Recorded::Confirmed => {
                self.stats.records += 1;
                self.has_unreported = true;
            }
            Recorded::Refused | Recorded::Unknown => {
                warn!(%partition, %fence, ?recorded, "record refused; partition lost");
            }
        }
    }

    /// Begins the message whose record is stored. Even while stopping: nobody else would handle it.
    fn on_recorded_first(&mut self, due: &PendingRecord, recorded: Recorded) {
        let (partition, fence) = (&due.partition, due.fence());
        self.on_recorded(due, recorded);
        if self.lane(partition, fence).is_some() {
            return self.begin(partition, Instant::now());
        }
        // We lost the partition, and may own it again by now.
        self.turn.finish(partition);
        self.dirty.insert(partition.clone());
    }

    /// The partition, marked dirty, if we still own it by the fence of the event.
    fn lane(&mut self, partition: &PartitionName, fence: Fence) -> Option<&mut Lane> {
        let lane = self.lanes.get_mut(partition).filter(|lane| lane.fence() == fence)?;
        self.dirty.insert(partition.clone());
        Some(lane)
    }

    fn on_claimed(&mut self, partition: &PartitionName, claimed: Claimed) {
        // The claim was aborted a moment too late.
        if self.claims.remove(partition).is_none() || self.phase != Phase::Running {
            let Claimed { held, fenced, cursor, predecessor, .. } = claimed;
            let handover = Handover { begun: None, suspect: predecessor.is_some() };
            return self.release(partition, held, fenced, cursor.position(), handover);
        }
        let (grant, fence) = (claimed.held.grant(), claimed.held.fence());
        info!(
            %partition, %fence, epoch = self.assigned.epoch,
            cursor = claimed.cursor.position().seconds(), predecessor = ?claimed.predecessor, "partition taken"
        );
        let watched = partition.clone();
        let watcher = self.events.spawn(async move {
            claim::wait_until_removed(grant).await;
            Event::Lost(watched, fence)
        });
        let ours = self.lost_lanes.remove(partition);
        let lane = Lane::new(claimed, &self.options, AbortOnDrop(watcher), ours);
        self.stats.taken += 1;
        self.presence_dirty = true;
        self.has_unreported |= lane.reported < lane.ledger.confirmed();
        self.lanes.insert(partition.clone(), lane);
        self.dirty.insert(partition.clone());
    }

    fn on_fetched(&mut self, partition: &PartitionName, fence: Fence, batch: Result<Batch, JournalError>) {
        let Some(lane) = self.lane(partition, fence) else { return };
        lane.fetching = None;
        lane.has_read = true;
        match batch {
            Ok(batch) => {
                lane.read_failures = 0;
                lane.damaged = None;
                if let Some(gap) = batch.gap.filter(|gap| *gap > lane.read && lane.read != MessageId::ZERO) {
                    warn!(%partition, through = gap.seconds(), "messages were dropped before they were handled");
                }
                if let Some(last) = batch.messages.last() {
                    lane.read = last.id;
                }
                lane.cache.extend(batch.messages);
            }
            Err(error) => {
                lane.read_failures = lane.read_failures.saturating_add(1);
                match lane.read_failures {
                    _ if matches!(error, JournalError::Damaged(_)) => lane.log_damage(&error),
                    1 => warn!(%partition, %error, "cannot read messages; waiting for the journal"),
                    _ => debug!(%partition, %error, "cannot read messages"),
                }
            }
        }
    }

    fn on_ran(&mut self, partition: &PartitionName, fence: Fence, ran: Result<Vec<Outcome>, JournalError>) {
        // Frees the concurrency slot, even if we have lost the partition.
        self.turn.finish(partition);
        let now = Instant::now();
        let (policy, once) = (self.options.failure, self.options.ack == Ack::Before);
        let Some(lane) = self.lane(partition, fence) else { return };
        let outcomes = ran.unwrap_or_else(|error| {
            warn!(%partition, %fence, %error, "the journal knows another owner: partition lost");
            lane.lose();
            Vec::new()
        });
        let total = lane.running.len();
        let done = outcomes.iter().take(total).take_while(|outcome| **outcome == Outcome::Done).count();
        let attempt = if done == 0 { lane.attempt } else { 1 };
        let stopped = matches!(outcomes.get(done), Some(Outcome::Stopped) | None);
        let undone = lane.running.get(done).cloned();
        lane.finish(done, now);
        if let Some(message) = undone.as_ref().filter(|_| stopped && !once) {
            lane.tally.record_stop(message.id, attempt);
        }
        let lost = lane.is_lost;
        self.stats.done += done as u64;
        let queue = partition.queue();
        self.metrics.count(queue, MessageOutcome::Done, done as u64);
        // With at-most-once delivery, a stopped message may have been handled and must not run again.
        let Some(message) = undone.filter(|_| !(lost || once && stopped)) else {
            self.stats.stopped += (total - done) as u64;
            self.metrics.count(queue, MessageOutcome::Stopped, (total - done) as u64);
            return;
        };
        let (failure, why) = match outcomes.get(done) {
            Some(Outcome::Failed(why)) if why.retry => (Failure::Retry, Some(failed::truncated(why))),
            Some(Outcome::Failed(why)) => (Failure::ForGood, Some(failed::truncated(why))),
            Some(Outcome::Stopped | Outcome::Done) | None => (Failure::Stopped, None),
        };
        match (policy.judge(attempt, failure), why) {
            (verdict @ Verdict::Retry(pause), Some(why)) => {
                self.stats.retried += 1;
                self.metrics.count(queue, MessageOutcome::Retried, 1);
                self.retry_later(partition, attempt, verdict, now + pause, &why);
            }
            (Verdict::GiveUp(_), Some(why)) => self.give_up(partition, &message, attempt, why),
            (Verdict::Again | Verdict::Retry(_) | Verdict::GiveUp(_), _) => {
                // It stopped although we did not ask it to: pause, so that it does not spin.
                if let Some(lane) = self.lanes.get_mut(partition) {
                    lane.not_before = Some(now + STOPPED_PAUSE);
                }
                self.stats.stopped += 1;
                self.metrics.count(queue, MessageOutcome::Stopped, 1);
            }
        }
    }

    /// Schedules another attempt of the first cached message.
    fn retry_later(
        &mut self,
        partition: &PartitionName,
        attempt: u32,
        verdict: Verdict,
        not_before: Instant,
        why: &Failed,
    ) {
        let Some(lane) = self.lanes.get_mut(partition) else { return };
        let Some(message) = lane.cache.front().map(|message| message.id) else { return };
        info!(%partition, id = %message, attempt, error = why.error, "attempt failed; trying again");
        let stored = lane.tally.record_failure(message, attempt, verdict);
        lane.not_before = Some(not_before);
        let commit = menagerie_journal::Commit {
            states: vec![lane.fenced.attempts(&stored)],
            ..menagerie_journal::Commit::default()
        };
        self.note(partition, vec![commit], AfterNote::Wait);
    }

    fn on_noted(&mut self, partition: &PartitionName, fence: Fence, noted: NoteOutcome) {
        let Some(lane) = self.lane(partition, fence) else { return };
        let after = lane.note.take().map(|note| note.then);
        match noted {
            NoteOutcome::Stored => lane.is_note_uncertain = false,
            NoteOutcome::Refused(error) => {
                warn!(%partition, %error, "journal refused a note about a failure; partition lost");
                return lane.lose();
            }
            // The message will run again, unless it was recorded before it began.
            NoteOutcome::Abandoned => {
                lane.is_note_uncertain = true;
                return;
            }
        }
        match after {
            Some(AfterNote::Skip(message)) => {
                lane.tally.confirm_give_up(message);
                if lane.is_lost {
                    return;
                }
                // A message recorded before it began is already out of the cache.
                if lane.cache.front().is_some_and(|front| front.id == message) {
                    lane.skip_first(Instant::now());
                }
                self.stats.given_up += 1;
                self.metrics.count(partition.queue(), MessageOutcome::GivenUp, 1);
            }
            Some(AfterNote::Stop(why)) => self.stop(Ended::Failed(why)),
            Some(AfterNote::Wait) | None => {}
        }
    }
}
