//! Retries, and giving up.
//!
//! Attempts are counted in the journal, as state of the partition: written after a failure, and before a message begins
//! that may have killed the previous owner. So a message that kills its worker is counted, too.

use std::num::NonZeroU32;
use std::time::Duration;

use menagerie_journal::MessageId;
use serde::{Deserialize, Serialize};

/// How an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Another attempt may succeed.
    Retry,
    /// No attempt will succeed.
    ForGood,
    /// We stopped it, for reasons of our own: does not count as an attempt.
    Stopped,
}

/// What to do when no attempts are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// Log the message and skip it.
    Log,
    /// Move it to the failed messages.
    #[default]
    Queue,
    /// Stop the worker and keep the message.
    Stop,
}

/// How often and how soon to retry, and what to do after the last attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Attempts in total.
    pub attempts: NonZeroU32,
    /// Back-off after the first attempt; doubles after each.
    pub backoff: Duration,
    /// Longest back-off.
    pub backoff_max: Duration,
    /// What to do after the last attempt.
    pub on_failure: OnFailure,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            attempts: NonZeroU32::new(5).expect("five is not zero"),
            backoff: Duration::from_secs(1),
            backoff_max: Duration::from_secs(60),
            on_failure: OnFailure::Queue,
        }
    }
}

/// What to do with a message that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Retry after this time; the partition waits.
    Retry(Duration),
    /// Retry without counting the attempt.
    Again,
    /// Give it up.
    GiveUp(OnFailure),
}

impl Policy {
    /// What to do with a message after its `attempts`-th failure.
    pub fn judge(&self, attempts: u32, failure: Failure) -> Verdict {
        match failure {
            Failure::Stopped => Verdict::Again,
            Failure::ForGood => Verdict::GiveUp(self.on_failure),
            Failure::Retry if attempts >= self.attempts.get() => Verdict::GiveUp(self.on_failure),
            Failure::Retry => {
                let doublings = attempts.saturating_sub(1).min(31);
                Verdict::Retry(self.backoff.saturating_mul(1 << doublings).min(self.backoff_max))
            }
        }
    }
}

/// Attempts of the first message after the cursor, and how far messages have begun, as stored in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempts {
    /// The message whose attempts these are.
    pub message: MessageId,
    /// Attempts that count.
    pub attempts: u32,
    /// The message was given up, with everything that entails: skip it.
    #[serde(default)]
    pub given_up: bool,
    /// Last message that may have run, whether that counts as an attempt or not.
    #[serde(default)]
    pub begun: MessageId,
}

/// How the previous owner left the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Predecessor {
    /// It released it, or there was none.
    Released,
    /// It died or lost it, and may have begun messages.
    Vanished,
}

/// Counts the attempts of the first message after the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    stored: Option<Attempts>,
    before: Predecessor,
    /// Last message that may have run.
    begun: MessageId,
}

/// How to begin a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Run it.
    Run {
        /// Number of this attempt among those that count, from 1.
        attempt: u32,
        /// Number that the task sees: 2 or more if the message may have run before, even if that does not count.
        task_attempt: u32,
        /// Store this first: if the message kills us, too, the next owner must know.
        store: Option<Attempts>,
    },
    /// Give it up without another attempt: it has killed every worker that ran it.
    Poison {
        /// How often it ran.
        attempts: u32,
    },
    /// Skip it: it was given up before, and only the record is missing.
    Skip,
}

impl Tally {
    /// From what the journal stored when we claimed the partition.
    pub fn new(stored: Option<Attempts>, before: Predecessor) -> Self {
        Self { stored, before, begun: stored.map_or(MessageId::ZERO, |stored| stored.begun) }
    }

    /// How to begin this message, which is the first after the cursor, or the next one while that one's record is in
    /// flight. `suspect`: an owner that vanished may have begun it.
    pub fn begin(&mut self, message: MessageId, suspect: bool, policy: &Policy) -> Begin {
        let stored = self.stored.filter(|stored| stored.message == message);
        if stored.is_some_and(|stored| stored.given_up) {
            return Begin::Skip;
        }
        let made = stored.map_or(0, |stored| stored.attempts);
        // Only the first message after a takeover counts as the one that was running: those after it become first in
        // their turn, as each is recorded by itself.
        let before = std::mem::replace(&mut self.before, Predecessor::Released);
        let task_attempt = if suspect || stored.is_some() || self.may_have_run(message) { 2 } else { 1 };
        match before {
            Predecessor::Released => {
                Begin::Run { attempt: made + 1, task_attempt: task_attempt.max(made + 1), store: None }
            }
            Predecessor::Vanished if made >= policy.attempts.get() => Begin::Poison { attempts: made },
            Predecessor::Vanished => {
                // Nobody counted the attempt of the vanished owner: assume it was the first.
                let attempts = made.max(1) + 1;
                let store = self.set_stored(message, attempts, false);
                Begin::Run { attempt: attempts, task_attempt: attempts, store: Some(store) }
            }
        }
    }

    /// Everything through `last` begins.
    pub fn mark_begun(&mut self, last: MessageId) {
        self.begun = self.begun.max(last);
    }

    /// Whether a message may have begun before, under us or an earlier owner.
    pub fn may_have_run(&self, message: MessageId) -> bool {
        message <= self.begun
    }

    /// Takes back this attempt: we stopped it, or it did not begin.
    pub fn record_stop(&mut self, message: MessageId, attempt: u32) {
        self.set_stored(message, attempt.saturating_sub(1), false);
    }

    /// What to store on a release with everything through `position` recorded: if more has begun, the next owner must
    /// know.
    pub fn handover(&self, position: MessageId) -> Option<Attempts> {
        let (begun, given_up) = (self.begun, false);
        let stored = self.stored.unwrap_or(Attempts { message: begun, attempts: 0, given_up, begun });
        (begun > position).then_some(Attempts { begun, ..stored })
    }

    fn set_stored(&mut self, message: MessageId, attempts: u32, given_up: bool) -> Attempts {
        let stored = Attempts { message, attempts, given_up, begun: self.begun };
        self.stored = Some(stored);
        stored
    }

    /// Counts a failed attempt, or a message given up, and returns what to store. Until that is stored nobody may skip
    /// the message, as what giving up entails has not happened.
    pub fn record_failure(&mut self, message: MessageId, attempt: u32, verdict: Verdict) -> Attempts {
        let given_up = matches!(verdict, Verdict::GiveUp(OnFailure::Log | OnFailure::Queue));
        Attempts { given_up, ..self.set_stored(message, attempt, false) }
    }

    /// The journal has stored that the message was given up.
    pub fn confirm_give_up(&mut self, message: MessageId) {
        if let Some(stored) = self.stored.as_mut().filter(|stored| stored.message == message) {
            stored.given_up = true;
        }
    }

    /// The count after we lost the partition and claimed it again, with everything through `position` recorded. A
    /// message that the journal says was given up is skipped, whatever we counted since.
    #[must_use]
    pub fn retaken(self, stored: Option<Attempts>, position: MessageId) -> Self {
        match stored.filter(|stored| stored.given_up && stored.message > position) {
            Some(stored) => Self { stored: Some(Attempts { begun: self.begun, ..stored }), ..self },
            None => self,
        }
    }
}
