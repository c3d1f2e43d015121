//! What a worker counts.

use std::time::Duration;

use menagerie_znodes::queues::{PartitionName, QueueName};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::core::rebalance::Rebalance;

/// What came of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Came {
    /// It is done.
    Done,
    /// It failed, and is tried again.
    Retried,
    /// It was given up.
    GivenUp,
    /// It was stopped.
    Stopped,
}

impl Came {
    fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Retried => "retried",
            Self::GivenUp => "given_up",
            Self::Stopped => "stopped",
        }
    }
}

/// Why partitions were assigned anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Reason {
    /// Workers came, and perhaps others went.
    Joined,
    /// Workers went.
    Left,
    /// Queues or partitions came or went.
    Queues,
}

impl Reason {
    fn word(self) -> &'static str {
        match self {
            Self::Joined => "joined",
            Self::Left => "left",
            Self::Queues => "queues",
        }
    }

    fn of(rebalance: &Rebalance) -> Self {
        match (rebalance.joined.is_empty(), rebalance.left.is_empty()) {
            (false, _) => Self::Joined,
            (true, false) => Self::Left,
            (true, true) => Self::Queues,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    queue: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PartitionLabels {
    queue: String,
    partition: u32,
}

/// Metrics of a worker. Clones count together.
#[derive(Debug, Clone)]
pub struct Metrics {
    messages: Family<OutcomeLabels, Counter>,
    task_seconds: Histogram,
    record_seconds: Histogram,
    journal_seconds: Histogram,
    rebalances: Family<ReasonLabels, Counter>,
    partitions: Gauge,
    lag: Family<PartitionLabels, Gauge>,
}

impl Metrics {
    /// Registers all of them.
    pub fn new(registry: &mut Registry) -> Self {
        let histogram = || Histogram::new(exponential_buckets(0.000_1, 2.0, 20));
        let metrics = Self {
            messages: Family::default(),
            task_seconds: histogram(),
            record_seconds: histogram(),
            journal_seconds: histogram(),
            rebalances: Family::default(),
            partitions: Gauge::default(),
            lag: Family::default(),
        };
        let registry = registry.sub_registry_with_prefix("menagerie_worker");
        let m = &metrics;
        registry.register("messages", "Messages, by queue and by what came of them", m.messages.clone());
        let seconds = Unit::Seconds;
        registry.register_with_unit("task", "Time of a task", seconds.clone(), m.task_seconds.clone());
        let what = "Time to record that a message is processed";
        registry.register_with_unit("record", what, seconds.clone(), m.record_seconds.clone());
        let what = "Time until the journal had stored how far partitions have come";
        registry.register_with_unit("journal", what, seconds, m.journal_seconds.clone());
        let what = "Times that this worker has assigned partitions anew, by reason";
        registry.register("rebalances", what, m.rebalances.clone());
        registry.register("partitions", "Partitions that this worker has", m.partitions.clone());
        registry.register("lag", "Messages that wait, by partition that this worker has", m.lag.clone());
        metrics
    }

    pub(crate) fn count(&self, queue: &QueueName, outcome: Came, messages: u64) {
        let labels = OutcomeLabels { queue: queue.to_string(), outcome: outcome.word() };
        self.messages.get_or_create(&labels).inc_by(messages);
    }

    pub(crate) fn task(&self, time: Duration) {
        self.task_seconds.observe(time.as_secs_f64());
    }

    pub(crate) fn record(&self, time: Duration) {
        self.record_seconds.observe(time.as_secs_f64());
    }

    pub(crate) fn journal(&self, time: Duration) {
        self.journal_seconds.observe(time.as_secs_f64());
    }

    pub(crate) fn rebalance(&self, rebalance: &Rebalance) {
        self.rebalances.get_or_create(&ReasonLabels { reason: Reason::of(rebalance).word() }).inc();
    }

    pub(crate) fn partitions(&self, count: usize) {
        self.partitions.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(crate) fn lag(&self, partition: &PartitionName, lag: u64) {
        self.lag.get_or_create(&labels(partition)).set(i64::try_from(lag).unwrap_or(i64::MAX));
    }

    /// What is not ours any more is another's to tell.
    pub(crate) fn forget(&self, partition: &PartitionName) {
        self.lag.remove(&labels(partition));
    }
}

fn labels(partition: &PartitionName) -> PartitionLabels {
    PartitionLabels { queue: partition.queue().to_string(), partition: u32::from(partition.number()) }
}
