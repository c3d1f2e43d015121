//! What the worker does with messages: read, begin, judge, give up.

use std::time::{Duration, Instant};

use menagerie_journal::{JournalError, MessageId};
use menagerie_znodes::queues::PartitionName;

use super::{Effect, Ended, Ending, Fetched, Happening, How, Machine, Note, Noted, Now, Owned, Run, Urgency};
use crate::core::failure::{Failure, OnFailure, Verdict};
use crate::core::ledger::Ack;
use crate::core::options::Begins;
use crate::core::tally::{Attempts, Begin};
use crate::core::window::{AfterNote, RunId, Standing};
use crate::failed;
use crate::task::{Failed, Outcome};

/// Pause after a task that stopped by itself, or could not begin, so that it does not spin.
pub(super) const STOPPED_PAUSE: Duration = Duration::from_secs(1);

/// An attempt that has ended.
struct Attempt {
    message: MessageId,
    attempt: u32,
    since: Option<Instant>,
}

impl Machine {
    pub(super) fn on_fetched(&mut self, owned: &Owned, fetched: Fetched, now: Now) {
        let Some(lane) = self.lane(owned).filter(|lane| !lane.is_lost) else { return };
        (lane.is_fetching, lane.has_read) = (false, true);
        let partition = owned.partition.clone();
        match fetched.read {
            Ok((messages, gap)) => {
                (lane.read_failures, lane.damaged) = (0, None);
                let before = lane.read;
                lane.on_read(fetched.asked, messages, now.instant);
                if let Some(through) = gap.filter(|gap| *gap > before && before != MessageId::ZERO) {
                    self.tell(Happening::Gap { partition, through });
                }
            }
            Err(error) => {
                lane.read_failures = lane.read_failures.saturating_add(1);
                let is_news = match &error {
                    JournalError::Damaged(_) => lane.is_damage_news(error.to_string(), now.instant),
                    _ => lane.read_failures == 1,
                };
                self.tell(Happening::ReadFailed { partition, error, is_news });
            }
        }
    }

    /// Begins the next messages of a partition: its turn has come, or the record that had to come first is stored.
    pub(super) fn begin(&mut self, partition: &PartitionName, now: Now) {
        self.dirty.insert(partition.clone());
        let policy = self.failure_policy(partition);
        let Some(lane) = self.lanes.get_mut(partition) else { return self.turn.finish() };
        let Some(first) = lane.candidate(now.instant) else { return self.turn.finish() };
        let owned = Owned { partition: partition.clone(), fence: lane.fence };
        if lane.window.is_expired(first, now.ticks) {
            self.turn.finish();
            return self.expire(partition, now);
        }
        let is_waiting = lane.window.slot(first).is_some_and(|slot| slot.standing == Standing::Waiting);
        if lane.ledger.records_first() && is_waiting {
            lane.window.set(first, Standing::Recording);
            let plan = lane.start_record(first);
            return self.effects.push(Effect::Record(owned, plan, Urgency::First));
        }
        match lane.tally.begin(first, &policy) {
            Begin::Skip => {
                self.turn.finish();
                self.end_unhandled(partition, first, How::Skipped, now);
                if let Some(lane) = self.lanes.get_mut(partition) {
                    lane.finish(first, now.instant);
                }
            }
            Begin::Poison { attempts } => {
                self.turn.finish();
                self.end_unhandled(partition, first, How::Orphaned, now);
                let error = "every worker that took it has died".to_owned();
                let failed = Failed { error, output: Vec::new(), retry: false };
                let attempt = Attempt { message: first, attempt: attempts, since: None };
                self.give_up(partition, &attempt, failed, policy.on_failure, now);
            }
            Begin::Run { attempt, task_attempt, store } => {
                if store.is_some() {
                    self.end_unhandled(partition, first, How::Orphaned, now);
                }
                let Some(lane) = self.lanes.get_mut(partition) else { return self.turn.finish() };
                let batch = lane.batch(first, self.options.batch, now.ticks);
                // The rest of a batch is fresh, but may have begun under an owner that vanished.
                let seen = |id: &MessageId| if lane.tally.may_have_run(*id) { 2 } else { 1 };
                let attempts = std::iter::once(task_attempt).chain(batch.iter().skip(1).map(seen)).collect();
                let counted = batch.iter().map(|id| (*id, if *id == first { attempt } else { 1 }));
                let counted: Vec<(MessageId, u32)> = counted.collect();
                lane.tally.mark_begun(&batch);
                self.runs += 1;
                let run = RunId(self.runs);
                let since = (self.options.begins == Begins::AtOnce).then_some(now.instant);
                let messages = lane.window.begin(run, &counted, since);
                lane.has_news = true;
                self.effects.push(Effect::Run(owned, Run { run, messages, attempts, store }));
            }
        }
    }

    /// Passes the messages that have expired, up to one that has not: all of them in one turn, as there may be many.
    fn expire(&mut self, partition: &PartitionName, now: Now) {
        while let Some(first) = self.lanes.get(partition).and_then(|lane| lane.expired(now.ticks)) {
            self.stats.expired += 1;
            self.end_unhandled(partition, first, How::Expired, now);
            if let Some(lane) = self.lanes.get_mut(partition) {
                lane.pass(first, now.instant);
            }
        }
    }

    /// Tells of a message what was no attempt of ours.
    fn end_unhandled(&mut self, partition: &PartitionName, id: MessageId, how: How, now: Now) {
        let Some(lane) = self.lanes.get_mut(partition) else { return };
        lane.counter.count(&how, now.instant);
        lane.has_news = true;
        if let Some(message) = lane.window.slot(id).and_then(|slot| slot.message.clone()) {
            let partition = partition.clone();
            self.tell(Happening::Ended(Ending { partition, message, attempt: 0, took: None, how }));
        }
    }

    pub(super) fn on_begun(&mut self, owned: &Owned, run: RunId, now: Now) {
        let Some(lane) = self.lane(owned) else { return };
        lane.window.mark_begun(run, now.instant);
        lane.has_news = true;
    }

    pub(super) fn on_ran(
        &mut self,
        owned: &Owned,
        run: RunId,
        ran: Result<Vec<Outcome>, JournalError>,
        now: Now,
    ) {
        self.turn.finish();
        if let Err(error) = &ran {
            self.lose(owned, format!("the journal knows another owner: {error}"));
        }
        let Some(lane) = self.lane(owned) else { return };
        let is_side_by_side = lane.is_side_by_side();
        let mut outcomes = ran.unwrap_or_default().into_iter();
        let mut is_broken = false;
        for (message, attempt, since) in lane.window.end(run) {
            let outcome = outcomes.next().unwrap_or(Outcome::Stopped);
            let attempt = Attempt { message, attempt, since };
            match is_broken {
                // In order, what is behind a message that is not done has to run again after it.
                true => self.put_back(&owned.partition, message),
                false => self.judge(&owned.partition, &attempt, outcome.clone(), now),
            }
            is_broken |= !is_side_by_side && outcome != Outcome::Done;
        }
    }

    fn put_back(&mut self, partition: &PartitionName, message: MessageId) {
        if let Some(lane) = self.lanes.get_mut(partition) {
            lane.window.set(message, Standing::Waiting);
        }
    }

    fn judge(&mut self, partition: &PartitionName, attempt: &Attempt, outcome: Outcome, now: Now) {
        let (failure, why) = match outcome {
            Outcome::Done => return self.finish(partition, attempt, now),
            Outcome::Stopped => return self.stopped(partition, attempt, now),
            Outcome::Failed(why) if why.retry => (Failure::Retry, failed::truncated(&why)),
            Outcome::Failed(why) => (Failure::ForGood, failed::truncated(&why)),
        };
        let policy = self.failure_policy(partition);
        let Some(lane) = self.lanes.get_mut(partition) else { return };
        if lane.is_lost {
            return self.stopped(partition, attempt, now);
        }
        lane.window.fail(attempt.message, why.error.clone());
        match policy.judge(attempt.attempt, failure) {
            verdict @ Verdict::Retry(pause) => {
                let attempts = lane.tally.record_failure(attempt.message, attempt.attempt, verdict);
                self.stats.retried += 1;
                self.told(partition, attempt, How::Retry(why, pause), now);
                self.note(partition, attempt.message, attempts, AfterNote::Wait(now.instant + pause), None);
            }
            Verdict::GiveUp(on_failure) => self.give_up(partition, attempt, why, on_failure, now),
            Verdict::Again => self.stopped(partition, attempt, now),
        }
    }

    fn finish(&mut self, partition: &PartitionName, attempt: &Attempt, now: Now) {
        self.stats.done += 1;
        self.told(partition, attempt, How::Done, now);
        if let Some(lane) = self.lanes.get_mut(partition) {
            lane.finish(attempt.message, now.instant);
        }
    }

    /// An attempt that does not count: it was stopped, or the partition was lost meanwhile.
    fn stopped(&mut self, partition: &PartitionName, attempt: &Attempt, now: Now) {
        self.stats.stopped += 1;
        self.told(partition, attempt, How::Stopped, now);
        let is_once = self.options.ack == Ack::Before;
        let Some(lane) = self.lanes.get_mut(partition) else { return };
        if is_once {
            // It may have been handled, and must not run again.
            return lane.finish(attempt.message, now.instant);
        }
        lane.tally.record_stop(attempt.message, attempt.attempt);
        // If we did not ask it to stop, pause, so that it does not spin.
        lane.window.set(attempt.message, Standing::BackingOff(now.instant + STOPPED_PAUSE));
    }

    /// Gives up a message that has no attempts left.
    fn give_up(
        &mut self,
        partition: &PartitionName,
        attempt: &Attempt,
        why: Failed,
        on_failure: OnFailure,
        now: Now,
    ) {
        let Some(lane) = self.lanes.get_mut(partition) else { return };
        let verdict = Verdict::GiveUp(on_failure);
        let attempts = lane.tally.record_failure(attempt.message, attempt.attempt, verdict);
        lane.window.fail(attempt.message, why.error.clone());
        self.told(partition, attempt, How::GivenUp(why.clone(), on_failure), now);
        let then = match on_failure {
            OnFailure::Log | OnFailure::Queue => AfterNote::Skip,
            OnFailure::Stop => AfterNote::Stop(why.clone()),
        };
        self.note(partition, attempt.message, attempts, then, Some((on_failure, why)));
    }

    /// Stores a failure. The message waits until it is stored.
    fn note(
        &mut self,
        partition: &PartitionName,
        message: MessageId,
        attempts: Attempts,
        then: AfterNote,
        given_up: Option<(OnFailure, Failed)>,
    ) {
        let Some(lane) = self.lanes.get_mut(partition) else { return };
        let Some(body) = lane.window.slot(message).and_then(|slot| slot.message.clone()) else { return };
        lane.window.set(message, Standing::Noting(then));
        let settled = lane.take_settled();
        let owned = Owned { partition: partition.clone(), fence: lane.fence };
        self.effects.push(Effect::Note(owned, Note { message: body, attempts, settled, given_up }));
    }

    pub(super) fn on_noted(&mut self, owned: &Owned, message: MessageId, noted: Noted, now: Now) {
        let Some(lane) = self.lane(owned) else { return };
        let after = match lane.window.slot(message).map(|slot| &slot.standing) {
            Some(Standing::Noting(after)) => after.clone(),
            _ => return,
        };
        let until = match &after {
            AfterNote::Wait(until) => *until,
            AfterNote::Skip | AfterNote::Stop(_) => now.instant,
        };
        match (noted, after) {
            (Noted::Refused(error), _) => {
                lane.window.set(message, Standing::BackingOff(until));
                self.lose(owned, format!("the journal refused a note about a failure: {error}"));
            }
            // The message will run again, unless it was recorded before it began.
            (Noted::Abandoned, _) => {
                lane.is_note_uncertain = true;
                lane.window.set(message, Standing::BackingOff(until));
            }
            (Noted::Stored, AfterNote::Wait(until)) => lane.window.set(message, Standing::BackingOff(until)),
            (Noted::Stored, AfterNote::Skip) => {
                lane.tally.confirm_give_up(message);
                if lane.is_lost {
                    return lane.window.set(message, Standing::BackingOff(until));
                }
                lane.finish(message, now.instant);
                self.stats.given_up += 1;
            }
            (Noted::Stored, AfterNote::Stop(why)) => {
                lane.window.set(message, Standing::BackingOff(until));
                self.stop(Ended::Failed(why));
            }
        }
    }

    fn told(&mut self, partition: &PartitionName, attempt: &Attempt, how: How, now: Now) {
        let Some(lane) = self.lanes.get_mut(partition) else { return };
        lane.counter.count(&how, now.instant);
        lane.has_news = true;
        let slot = lane.window.slot(attempt.message);
        let Some(message) = slot.and_then(|slot| slot.message.clone()) else { return };
        let took = attempt.since.map(|since| now.instant.saturating_duration_since(since));
        let (partition, attempt) = (partition.clone(), attempt.attempt);
        self.tell(Happening::Ended(Ending { partition, message, attempt, took, how }));
    }
}
