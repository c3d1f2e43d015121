//! What the loop is told, and what it makes of it.

use std::time::{Duration, Instant};

use menagerie_journal::{Batch, JournalError, MessageId};
use menagerie_kernel::{Fence, whole};
use menagerie_znodes::queues::PartitionName;
use tracing::{debug, info, warn};

use super::Ended;
use super::effects::{Event, Noted};
use super::lane::{Begun, Lane, Noting};
use super::looping::{Course, Loop};
use super::records::Due;
use crate::coordination::claim::{self, Claimed, Parting};
use crate::core::failure::{Failure, Verdict};
use crate::core::ledger::{Ack, Recorded};
use crate::failed;
use crate::metrics::Came;
use crate::task::{Failed, Outcome};

/// After a task that was stopped, or could not begin, while its partition is ours.
pub const STOPPED_PAUSE: Duration = Duration::from_secs(1);

impl Loop {
    pub fn react(&mut self, event: Event) {
        match event {
            Event::Claimed(partition, claimed) => self.claimed(&partition, *claimed),
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
                self.touch_all();
                if term.is_some() {
                    self.watch_lease();
                }
            }
            Event::Fetched(partition, fence, batch) => self.fetched(&partition, fence, batch),
            Event::Ran(partition, fence, outcomes) => self.ran(&partition, fence, outcomes),
            Event::Noted(partition, fence, noted) => self.noted(&partition, fence, noted),
            Event::Recorded(records) => {
                self.records.came_back();
                for (due, recorded) in records {
                    self.recorded(&due, recorded);
                }
            }
            Event::RecordedFirst(records) => {
                for (due, recorded) in records {
                    self.recorded_first(&due, recorded);
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
            Event::Reported(report) => self.reported(report),
        }
    }

    fn recorded(&mut self, due: &Due, recorded: Recorded) {
        let (partition, fence) = (&due.partition, due.fence());
        let Some(lane) = self.lane(partition, fence) else { return };
        lane.recorded(due.record.position(), recorded);
        match recorded {
            Recorded::Confirmed => {
                self.stats.records += 1;
                self.unreported = true;
            }
            Recorded::Refused | Recorded::Unknown => {
                warn!(%partition, %fence, ?recorded, "record not made: the partition is another's");
            }
        }
    }

    /// A message that had its turn is recorded, and begins: also when we are about to leave, as nobody else will handle it.
    fn recorded_first(&mut self, due: &Due, recorded: Recorded) {
        let (partition, fence) = (&due.partition, due.fence());
        self.recorded(due, recorded);
        if self.lane(partition, fence).is_some() {
            return self.begin(partition, Instant::now());
        }
        // It was lost, and may be ours again.
        self.turn.ended(partition);
        self.touched.insert(partition.clone());
    }

    /// The partition, if it is still held as it was when the event's cause began. It is touched.
    fn lane(&mut self, partition: &PartitionName, fence: Fence) -> Option<&mut Lane> {
        let lane = self.lanes.get_mut(partition).filter(|lane| lane.fence() == fence)?;
        self.touched.insert(partition.clone());
        Some(lane)
    }

    fn claimed(&mut self, partition: &PartitionName, claimed: Claimed) {
        // Aborted a moment too late.
        if self.claims.remove(partition).is_none() || self.course != Course::Work {
            let Claimed { held, books, cursor, follows, .. } = claimed;
            let parting = Parting { begun: None, suspect: follows.is_some() };
            return self.release(partition, held, books, cursor.position(), parting);
        }
        let (grant, fence) = (claimed.held.grant(), claimed.held.fence());
        info!(
            %partition, %fence, epoch = self.ordered.epoch,
            cursor = claimed.cursor.position().seconds(), follows = ?claimed.follows, "partition taken"
        );
        let watched = partition.clone();
        let watcher = self.events.spawn(async move {
            claim::removed(grant).await;
            Event::Lost(watched, fence)
        });
        let ours = self.lost.remove(partition);
        let lane = Lane::new(claimed, &self.options, Begun(watcher), ours);
        self.stats.taken += 1;
        self.unsaid = true;
        self.unreported |= lane.reported < lane.ledger.confirmed();
        self.lanes.insert(partition.clone(), lane);
        self.touched.insert(partition.clone());
    }

    fn fetched(&mut self, partition: &PartitionName, fence: Fence, batch: Result<Batch, JournalError>) {
        let Some(lane) = self.lane(partition, fence) else { return };
        lane.fetching = None;
        lane.looked = true;
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
                    _ if matches!(error, JournalError::Damaged(_)) => lane.complain(&error),
                    1 => warn!(%partition, %error, "cannot read messages; waiting for the journal"),
                    _ => debug!(%partition, %error, "cannot read messages"),
                }
            }
        }
    }

    fn ran(&mut self, partition: &PartitionName, fence: Fence, ran: Result<Vec<Outcome>, JournalError>) {
        // Counts for all that run, whoever has the partition by now.
        self.turn.ended(partition);
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
            lane.tally.stopped(message.id, attempt);
        }
        let lost = lane.lost;
        self.stats.done += done as u64;
        let queue = partition.queue();
        self.metrics.count(queue, Came::Done, done as u64);
        // What was stopped may have been handled, and is not to be handled twice.
        let Some(message) = undone.filter(|_| !(lost || once && stopped)) else {
            self.stats.stopped += (total - done) as u64;
            self.metrics.count(queue, Came::Stopped, (total - done) as u64);
            return;
        };
        let (failure, why) = match outcomes.get(done) {
            Some(Outcome::Failed(why)) if why.retry => (Failure::Retry, Some(failed::short(why))),
            Some(Outcome::Failed(why)) => (Failure::ForGood, Some(failed::short(why))),
            Some(Outcome::Stopped | Outcome::Done) | None => (Failure::Stopped, None),
        };
        match (policy.judge(attempt, failure), why) {
            (verdict @ Verdict::Retry(pause), Some(why)) => {
                self.stats.retried += 1;
                self.metrics.count(queue, Came::Retried, 1);
                self.try_again(partition, attempt, verdict, now + pause, &why);
            }
            (Verdict::GiveUp(_), Some(why)) => self.give_up(partition, &message, attempt, why),
            (Verdict::Again | Verdict::Retry(_) | Verdict::GiveUp(_), _) => {
                // We go on, and have not told it to stop: whatever it was, it must not spin.
                if let Some(lane) = self.lanes.get_mut(partition) {
                    lane.not_before = Some(now + STOPPED_PAUSE);
                }
                self.stats.stopped += 1;
                self.metrics.count(queue, Came::Stopped, 1);
            }
        }
    }

    /// The first message that waits is tried again later.
    fn try_again(
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
        let stored = lane.tally.failed(message, attempt, verdict);
        lane.not_before = Some(not_before);
        let commit = menagerie_journal::Commit {
            states: vec![lane.books.attempts(&stored)],
            ..menagerie_journal::Commit::default()
        };
        self.note(partition, vec![commit], Noting::Wait);
    }

    fn noted(&mut self, partition: &PartitionName, fence: Fence, noted: Noted) {
        let Some(lane) = self.lane(partition, fence) else { return };
        let noting = lane.note.take().map(|note| note.then);
        match noted {
            Noted::Stored => lane.unsure = false,
            Noted::Refused(error) => {
                warn!(%partition, %error, "what was to be said of a failure was refused: partition lost");
                return lane.lose();
            }
            // It comes again, unless it was recorded before it began.
            Noted::Left => {
                lane.unsure = true;
                return;
            }
        }
        match noting {
            Some(Noting::Pass(message)) => {
                lane.tally.gave_up(message);
                if lane.lost {
                    return;
                }
                // What was recorded before it began is behind us already.
                if lane.cache.front().is_some_and(|front| front.id == message) {
                    lane.pass(Instant::now());
                }
                self.stats.given_up += 1;
                self.metrics.count(partition.queue(), Came::GivenUp, 1);
            }
            Some(Noting::Stop(why)) => self.end(Ended::Failed(why)),
            Some(Noting::Wait) | None => {}
        }
    }
}
