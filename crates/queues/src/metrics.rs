//! A worker's metrics.

use std::time::Duration;

use menagerie_journal::{MessageId, Ticks};
use menagerie_znodes::queues::{PartitionName, QueueName};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::core::rebalance::Rebalance;

/// The outcome of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum MessageOutcome {
    /// Handled.
    Done,
    /// Failed, to be tried again.
    Retried,
    /// Given up.
    GivenUp,
    /// Stopped before its end.
    Stopped,
    /// Its time to live ended before its turn came.
    Expired,
}

impl MessageOutcome {
    fn label(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Retried => "retried",
            Self::GivenUp => "given_up",
            Self::Stopped => "stopped",
            Self::Expired => "expired",
        }
    }
}

/// Why partitions were reassigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Reason {
    /// Workers joined; others may have left.
    Joined,
    /// Workers left.
    Left,
    /// Queues or partitions were added or removed.
    Queues,
}

impl Reason {
    fn label(self) -> &'static str {
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

/// A call to the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Call {
    Read,
    Commit,
}

impl Call {
    fn label(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Commit => "commit",
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
struct CallLabels {
    call: &'static str,
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
    journal_seconds: Family<CallLabels, Histogram, fn() -> Histogram>,
    rebalances: Family<ReasonLabels, Counter>,
    partitions: Gauge,
    lag: Family<PartitionLabels, Gauge>,
}

impl Metrics {
    /// Registers the metrics.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            messages: Family::default(),
            task_seconds: histogram(),
            record_seconds: histogram(),
            journal_seconds: Family::new_with_constructor(histogram),
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
        let what = "Time until the journal has answered, by what it was asked; without the time for which a read had to wait for messages";
        registry.register_with_unit("journal", what, seconds, m.journal_seconds.clone());
        let what = "Times that this worker has assigned partitions anew, by reason";
        registry.register("rebalances", what, m.rebalances.clone());
        registry.register("partitions", "Partitions that this worker has", m.partitions.clone());
        registry.register("lag", "Messages that wait, by partition that this worker has", m.lag.clone());
        metrics
    }

    pub(crate) fn count(&self, queue: &QueueName, outcome: MessageOutcome, messages: u64) {
        let labels = OutcomeLabels { queue: queue.to_string(), outcome: outcome.label() };
        self.messages.get_or_create(&labels).inc_by(messages);
    }

    pub(crate) fn task(&self, time: Duration) {
        self.task_seconds.observe(time.as_secs_f64());
    }

    pub(crate) fn record(&self, time: Duration) {
        self.record_seconds.observe(time.as_secs_f64());
    }

    /// Times a commit, successful or not.
    pub(crate) fn commit(&self, time: Duration) {
        self.journal(Call::Commit, time);
    }

    /// Times a read that returned messages.
    pub(crate) fn read(&self, time: Duration, first: MessageId, now: Ticks) {
        self.journal(Call::Read, without_waiting(time, first, now));
    }

    fn journal(&self, call: Call, time: Duration) {
        let labels = CallLabels { call: call.label() };
        self.journal_seconds.get_or_create(&labels).observe(time.as_secs_f64());
    }

    pub(crate) fn rebalance(&self, rebalance: &Rebalance) {
        self.rebalances.get_or_create(&ReasonLabels { reason: Reason::of(rebalance).label() }).inc();
    }

    pub(crate) fn partitions(&self, count: usize) {
        self.partitions.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(crate) fn lag(&self, partition: &PartitionName, lag: u64) {
        self.lag.get_or_create(&labels(partition)).set(i64::try_from(lag).unwrap_or(i64::MAX));
    }

    /// Drops the lag of a partition we no longer own: its new owner reports it.
    pub(crate) fn forget(&self, partition: &PartitionName) {
        self.lag.remove(&labels(partition));
    }
}

fn histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 2.0, 20))
}

/// Time of a read without its long poll. The first message's id says when it was put; what came before was waiting. If
/// the journal's clock differs from ours, the result is off by as much, but never longer than the read took.
fn without_waiting(time: Duration, first: MessageId, now: Ticks) -> Duration {
    now.since(first.0).min(time)
}

fn labels(partition: &PartitionName) -> PartitionLabels {
    PartitionLabels { queue: partition.queue().to_string(), partition: u32::from(partition.number()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_of_a_long_poll_is_not_counted() {
        let now = Ticks::now();
        let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
        let came = |ago| MessageId(now.minus(ago));
        assert_eq!(without_waiting(second, came(minute), now), second, "it was there");
        assert_eq!(without_waiting(minute, came(second), now), second, "it was waited for");
        let ahead = MessageId(now.plus(second));
        assert_eq!(without_waiting(minute, ahead, now), Duration::ZERO, "the journal's clock is ahead");
    }
}
