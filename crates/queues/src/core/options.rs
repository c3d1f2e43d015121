//! Options of a worker, chosen by its operator.

use std::num::NonZeroU32;
use std::time::Duration;

use menagerie_kernel::recipes::settle::Rule;
use menagerie_znodes::Name;
use menagerie_znodes::queues::QueueName;

use super::failure;
use super::ledger::{Ack, Commit};
use super::{read_ahead, turn};

/// When a message that a task was given begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Begins {
    /// At once.
    #[default]
    AtOnce,
    /// When the task says so: until then it waits there.
    WhenToldSo,
}

/// Options chosen by the operator.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name of the worker: host and process id, as a rule.
    pub name: Name,
    /// Queues it serves, in this order.
    pub queues: Vec<QueueName>,
    /// Which queue comes next.
    pub policy: turn::Policy,
    /// Messages handled concurrently: of one partition as far as the queue's order allows it.
    pub concurrency: usize,
    /// Most messages given to a task together.
    pub batch: usize,
    /// When to record; ignored with [`Ack::Before`], which records each message by itself.
    pub commit: Commit,
    /// Whether to record messages when they are done or before they begin.
    pub ack: Ack,
    /// Retries, and what happens to failed messages.
    pub failure: failure::Choice,
    /// Longest run of a task, if not the queue's.
    pub time_limit: Option<Duration>,
    /// Most bytes to read ahead, of all partitions together; of each at least one message is read.
    pub read_ahead_bytes: usize,
    /// When joining and leaving workers count as settled.
    pub settle: Rule,
    /// When messages begin, for those who look and for stories.
    pub begins: Begins,
    /// How long to wait at the start for a first read of every partition, so that the first queue comes first. After
    /// that, do not wait for partitions that another worker still owns or whose journal is down.
    pub first_read_wait: Duration,
    /// Drop a task that has not stopped after this time; programs have their own grace.
    pub stop_timeout: Duration,
}

impl Options {
    /// Defaults: one message at a time, each recorded by itself.
    pub fn new(name: Name, queues: Vec<QueueName>) -> Self {
        Self {
            name,
            queues,
            policy: turn::Policy::default(),
            concurrency: 1,
            batch: 1,
            commit: Commit::EACH,
            ack: Ack::default(),
            failure: failure::Choice::default(),
            time_limit: None,
            read_ahead_bytes: read_ahead::WORKER_BYTES_MAX,
            settle: Rule::default(),
            begins: Begins::default(),
            first_read_wait: Duration::from_secs(1),
            stop_timeout: Duration::from_secs(30),
        }
    }

    /// Resolves contradictions. At-most-once delivery means one attempt, and one message at a time, recorded right
    /// before it begins: of several recorded together, some would be lost if one fails or we stop.
    #[must_use]
    pub(crate) fn consistent(mut self) -> Self {
        if self.ack == Ack::Before {
            self.failure.attempts = Some(NonZeroU32::MIN);
            self.batch = 1;
            self.commit = Commit::EACH;
        }
        self
    }

    pub(crate) fn adjust(&mut self, adjustment: Adjustment) {
        let Adjustment { policy, concurrency, failure } = adjustment;
        *self = Self { policy, concurrency, failure, ..self.clone() }.consistent();
    }
}

/// Options that can change while a worker runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adjustment {
    /// Which queue comes next.
    pub policy: turn::Policy,
    /// Messages handled concurrently.
    pub concurrency: usize,
    /// Retries, and what happens to failed messages.
    pub failure: failure::Choice,
}
