//! Retries, and giving up.

use std::num::NonZeroU32;
use std::time::Duration;

use menagerie_znodes::queues::Handling;

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

/// What a worker's operator has chosen of a [`Policy`]; the rest is up to the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Choice {
    /// Attempts in total.
    pub attempts: Option<NonZeroU32>,
    /// Back-off after the first attempt.
    pub backoff: Option<Duration>,
    /// Longest back-off.
    pub backoff_max: Option<Duration>,
    /// What to do after the last attempt.
    pub on_failure: OnFailure,
}

impl Choice {
    /// The policy for a queue: what was chosen here, else what the queue says, else the default.
    pub fn policy(&self, queue: &Handling) -> Policy {
        let default = Policy::default();
        let time = |chosen: Option<Duration>, ms: Option<u64>, default: Duration| {
            chosen.or(ms.map(Duration::from_millis)).unwrap_or(default)
        };
        let backoff = time(self.backoff, queue.backoff_ms, default.backoff);
        Policy {
            attempts: self.attempts.or(queue.attempts).unwrap_or(default.attempts),
            backoff,
            // Whoever chooses a long first back-off, and no longest one, means it.
            backoff_max: time(self.backoff_max, queue.backoff_max_ms, default.backoff_max.max(backoff)),
            on_failure: self.on_failure,
        }
    }
}

/// What to do with a message that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Retry after this time.
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
