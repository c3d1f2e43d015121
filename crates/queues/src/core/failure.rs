//! What becomes of a message whose task failed.
//!
//! Attempts are counted in the journal, as state of the partition: written when one has failed, and before a message
//! begins that may have ended the owner before us. A message that kills its worker is so counted too.

use std::num::NonZeroU32;
use std::time::Duration;

use menagerie_journal::MessageId;
use serde::{Deserialize, Serialize};

/// How an attempt ended without success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It may succeed another time.
    Retry,
    /// It never will.
    ForGood,
    /// It was stopped by us, for a reason that is not its own: it was no attempt.
    Stopped,
}

/// What happens when there are no attempts left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// It is logged, and passed over.
    Log,
    /// It goes to the queue of failed messages.
    #[default]
    Queue,
    /// The worker stops, and the message stays.
    Stop,
}

/// How often and how soon to try again, and what then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// So many attempts in all.
    pub attempts: NonZeroU32,
    /// The pause after the first one. Each is twice the one before.
    pub backoff: Duration,
    /// No pause is longer.
    pub backoff_max: Duration,
    /// When there are none left.
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

/// What to do with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Try again after this time; its partition waits.
    Retry(Duration),
    /// Try again at once, as if nothing had been.
    Again,
    /// Give it up, in this way.
    GiveUp(OnFailure),
}

impl Policy {
    /// What becomes of a message that has failed for the `attempts`-th time.
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

/// How often the first message behind the cursor was tried, and how far messages were begun, as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempts {
    /// Which message.
    pub message: MessageId,
    /// How many attempts count, as far as anybody knows.
    pub attempts: u32,
    /// It was given up, and is to be passed over: what had to be done about it is done.
    #[serde(default)]
    pub given_up: bool,
    /// All up to here may have been run, whether it counts or not.
    #[serde(default)]
    pub begun: MessageId,
}

/// Whether the owner before us gave the partition away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// It released, or there was none.
    Released,
    /// It died, or lost the partition: it may have begun a message and more.
    Vanished,
}

/// What is known about the attempts of the message that comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    stored: Option<Attempts>,
    before: Before,
    /// All up to here may have been run.
    begun: MessageId,
}

/// How a message begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// As its `attempt`-th attempt.
    Run {
        /// Of those that count, from 1.
        attempt: u32,
        /// What the task is told: 2 or more if it may have been run before, also where that does not count.
        told: u32,
        /// To be stored before it begins: if it ends us too, whoever comes next must know.
        store: Option<Attempts>,
    },
    /// It was tried often enough, and ended its worker each time: it is given up without another attempt.
    Poison {
        /// So often.
        attempts: u32,
    },
    /// It was given up before; only the record is missing.
    Pass,
}

impl Tally {
    /// What was found when the partition was taken.
    pub fn new(stored: Option<Attempts>, before: Before) -> Self {
        Self { stored, before, begun: stored.map_or(MessageId::ZERO, |stored| stored.begun) }
    }

    /// How this message begins. It is the first behind the cursor, or the one after that while its record is on its way.
    /// `suspect`: an owner that vanished may have begun it.
    pub fn begin(&mut self, message: MessageId, suspect: bool, policy: &Policy) -> Begin {
        let stored = self.stored.filter(|stored| stored.message == message);
        if stored.is_some_and(|stored| stored.given_up) {
            return Begin::Pass;
        }
        let made = stored.map_or(0, |stored| stored.attempts);
        // Only the first one after a takeover can be the one that was running: what is behind it and was running becomes the
        // first, as each is recorded by itself.
        let before = std::mem::replace(&mut self.before, Before::Released);
        let told = if suspect || stored.is_some() || self.may_have_run(message) { 2 } else { 1 };
        match before {
            Before::Released => Begin::Run { attempt: made + 1, told: told.max(made + 1), store: None },
            Before::Vanished if made >= policy.attempts.get() => Begin::Poison { attempts: made },
            Before::Vanished => {
                // Nobody had counted it: it is taken for the first attempt.
                let attempts = made.max(1) + 1;
                let store = self.keep(message, attempts, false);
                Begin::Run { attempt: attempts, told: attempts, store: Some(store) }
            }
        }
    }

    /// All up to here begins.
    pub fn begins(&mut self, last: MessageId) {
        self.begun = self.begun.max(last);
    }

    /// Whether a message was begun before, by us or as far as those before us have told.
    pub fn may_have_run(&self, message: MessageId) -> bool {
        message <= self.begun
    }

    /// Its `attempt`-th attempt was stopped by us, or not begun: it does not count, also if it was counted before.
    pub fn stopped(&mut self, message: MessageId, attempt: u32) {
        self.keep(message, attempt.saturating_sub(1), false);
    }

    /// What to store when the partition is given back and all up to `position` is recorded: if more was begun, the next
    /// owner must know.
    pub fn parting(&self, position: MessageId) -> Option<Attempts> {
        let (begun, given_up) = (self.begun, false);
        let stored = self.stored.unwrap_or(Attempts { message: begun, attempts: 0, given_up, begun });
        (begun > position).then_some(Attempts { begun, ..stored })
    }

    fn keep(&mut self, message: MessageId, attempts: u32, given_up: bool) -> Attempts {
        let stored = Attempts { message, attempts, given_up, begun: self.begun };
        self.stored = Some(stored);
        stored
    }

    /// Its `attempt`-th attempt failed, or it was given up: this is to be stored. Before it is, nobody may pass the message
    /// over: what had to be done about it is not done.
    pub fn failed(&mut self, message: MessageId, attempt: u32, verdict: Verdict) -> Attempts {
        let given_up = matches!(verdict, Verdict::GiveUp(OnFailure::Log | OnFailure::Queue));
        Attempts { given_up, ..self.keep(message, attempt, false) }
    }

    /// That it was given up is stored.
    pub fn gave_up(&mut self, message: MessageId) {
        if let Some(stored) = self.stored.as_mut().filter(|stored| stored.message == message) {
            stored.given_up = true;
        }
    }

    /// The same after the partition was lost and taken again, all up to `position` being recorded: what was given up then, as
    /// the journal says, is passed over, whatever we have done since.
    #[must_use]
    pub fn again(self, stored: Option<Attempts>, position: MessageId) -> Self {
        match stored.filter(|stored| stored.given_up && stored.message > position) {
            Some(stored) => Self { stored: Some(Attempts { begun: self.begun, ..stored }), ..self },
            None => self,
        }
    }
}
