//! Metrics of a journal.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// Metrics of a journal.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub(crate) commits: Counter,
    pub(crate) refused: Counter,
    pub(crate) appended: Counter,
    pub(crate) appended_bytes: Counter,
    pub(crate) reads: Counter,
    pub(crate) read_messages: Counter,
    pub(crate) group_size: Histogram,
    pub(crate) fsync_seconds: Histogram,
    pub(crate) checkpoint_seconds: Histogram,
    pub(crate) disk_bytes: Gauge,
    pub(crate) messages: Gauge,
    pub(crate) delayed: Gauge,
    pub(crate) clock_ahead_seconds: Gauge,
    pub(crate) clock_doubted_seconds: Gauge,
    pub(crate) connections: Gauge,
    pub(crate) protocol_errors: Counter,
}

impl Metrics {
    /// Registers all of them.
    pub fn new(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("menagerie_journal");
        let metrics = Self {
            commits: Counter::default(),
            refused: Counter::default(),
            appended: Counter::default(),
            appended_bytes: Counter::default(),
            reads: Counter::default(),
            read_messages: Counter::default(),
            group_size: Histogram::new(exponential_buckets(1.0, 2.0, 12)),
            fsync_seconds: Histogram::new(exponential_buckets(0.0001, 2.0, 16)),
            checkpoint_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 16)),
            disk_bytes: Gauge::default(),
            messages: Gauge::default(),
            delayed: Gauge::default(),
            clock_ahead_seconds: Gauge::default(),
            clock_doubted_seconds: Gauge::default(),
            connections: Gauge::default(),
            protocol_errors: Counter::default(),
        };
        let m = &metrics;
        registry.register("commits", "Commits that happened", m.commits.clone());
        registry.register("refused", "Commits and other changes that were refused", m.refused.clone());
        registry.register("appended_messages", "Messages appended", m.appended.clone());
        registry.register_with_unit("appended", "Bytes appended", Unit::Bytes, m.appended_bytes.clone());
        registry.register("reads", "Reads answered", m.reads.clone());
        registry.register("read_messages", "Messages read", m.read_messages.clone());
        registry.register("group_size", "Changes made durable by one sync", m.group_size.clone());
        registry.register_with_unit(
            "fsync",
            "Time of a sync of the log",
            Unit::Seconds,
            m.fsync_seconds.clone(),
        );
        registry.register_with_unit(
            "checkpoint",
            "Time to move messages from the log to segments",
            Unit::Seconds,
            m.checkpoint_seconds.clone(),
        );
        registry.register_with_unit(
            "disk",
            "Segments, and what of the log they do not have",
            Unit::Bytes,
            m.disk_bytes.clone(),
        );
        registry.register("messages", "Messages kept", m.messages.clone());
        registry.register("delayed_messages", "Appends that are not due yet", m.delayed.clone());
        registry.register_with_unit(
            "clock_ahead",
            "How far the newest id is ahead of the clock",
            Unit::Seconds,
            m.clock_ahead_seconds.clone(),
        );
        registry.register_with_unit(
            "clock_doubted",
            "How far the clock is ahead of what is believed",
            Unit::Seconds,
            m.clock_doubted_seconds.clone(),
        );
        registry.register("connections", "Clients connected", m.connections.clone());
        registry.register(
            "protocol_errors",
            "Connections closed for breaking the protocol",
            m.protocol_errors.clone(),
        );
        metrics
    }
}
