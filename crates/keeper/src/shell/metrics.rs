//! Counters for Prometheus. All are cheap enough for every request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use menagerie_wire::OpCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::core::State;

/// Bounds of latencies and of sync times: from 50 µs, the fastest disks, to 13 s, in steps of four.
const SECONDS: [f64; 10] = [5e-5, 2e-4, 8e-4, 3.2e-3, 1.28e-2, 5.12e-2, 0.2048, 0.8192, 3.2768, 13.1072];
/// Bounds of group sizes.
const GROUP: [f64; 7] = [1.0, 4.0, 16.0, 64.0, 256.0, 512.0, 1024.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OpLabel {
    op: String,
}

/// The keeper's counters. Copies share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Connections now.
    pub connections: Gauge,
    /// Connections refused because their address had too many.
    pub connections_refused: Counter,
    /// Requests received, pings and handshakes included.
    pub packets_received: Counter,
    /// Sessions that expired.
    pub sessions_expired: Counter,
    /// Writes per sync.
    pub group_size: Histogram,
    /// Time of the sync that makes a group durable.
    pub fsync_seconds: Histogram,
    /// Bytes of log on disk.
    pub log_bytes: Gauge,
    sessions: Gauge,
    znodes: Gauge,
    watches: Gauge,
    ephemerals: Gauge,
    data_bytes: Gauge,
    zxid: Gauge,
    /// By operation, at `code + 11`.
    latency: Arc<Vec<Option<Histogram>>>,
    summary: Arc<Summary>,
}

/// What the four-letter words report.
#[derive(Debug, Default)]
struct Summary {
    count: AtomicU64,
    total_us: AtomicU64,
    max_us: AtomicU64,
}

/// Latency since the start.
#[derive(Debug, Clone, Copy)]
pub struct Latency {
    /// Requests answered.
    pub count: u64,
    /// Average, in milliseconds.
    pub average_ms: f64,
    /// Worst, in milliseconds.
    pub max_ms: f64,
}

impl Metrics {
    /// Registers all counters.
    pub fn new(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("menagerie_keeper");
        let gauge = |registry: &mut Registry, name: &str, help: &str| {
            let gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        let counter = |registry: &mut Registry, name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let group_size = Histogram::new(GROUP);
        registry.register("commit_group_size", "Writes made durable by one sync", group_size.clone());
        let fsync_seconds = Histogram::new(SECONDS);
        registry.register_with_unit("fsync", "Time to sync one group", Unit::Seconds, fsync_seconds.clone());
        Self {
            connections: gauge(registry, "connections", "Open connections"),
            connections_refused: counter(
                registry,
                "connections_refused",
                "Connections beyond the limit per address",
            ),
            packets_received: counter(registry, "packets_received", "Requests received"),
            sessions_expired: counter(registry, "sessions_expired", "Sessions that ran out of time"),
            sessions: gauge(registry, "sessions", "Sessions"),
            znodes: gauge(registry, "znodes", "Znodes"),
            watches: gauge(registry, "watches", "Watched pairs of connection and path"),
            ephemerals: gauge(registry, "ephemerals", "Ephemeral znodes"),
            data_bytes: gauge(registry, "data_bytes", "Bytes of paths and data"),
            zxid: gauge(registry, "zxid", "Last transaction applied"),
            log_bytes: gauge(registry, "log_bytes", "Bytes of log on disk"),
            group_size,
            fsync_seconds,
            latency: Arc::new(latencies(registry)),
            summary: Arc::default(),
        }
    }

    /// Counts an answered request.
    pub fn observe(&self, op: OpCode, arrived: Instant) {
        let elapsed = arrived.elapsed();
        if let Some(histogram) = self.latency.get(slot(op)).and_then(Option::as_ref) {
            histogram.observe(elapsed.as_secs_f64());
        }
        let us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        self.summary.count.fetch_add(1, Ordering::Relaxed);
        self.summary.total_us.fetch_add(us, Ordering::Relaxed);
        self.summary.max_us.fetch_max(us, Ordering::Relaxed);
    }

    /// Latency of everything answered since the start.
    pub fn latency(&self) -> Latency {
        let count = self.summary.count.load(Ordering::Relaxed);
        let total_us = self.summary.total_us.load(Ordering::Relaxed);
        Latency {
            count,
            average_ms: total_us as f64 / 1000.0 / count.max(1) as f64,
            max_ms: self.summary.max_us.load(Ordering::Relaxed) as f64 / 1000.0,
        }
    }

    /// Forgets the latencies that the four-letter words report.
    pub fn reset_latency(&self) {
        for value in [&self.summary.count, &self.summary.total_us, &self.summary.max_us] {
            value.store(0, Ordering::Relaxed);
        }
    }

    /// Updates the gauges of the state's sizes.
    pub fn note_state(&self, state: &State) {
        self.sessions.set(state.sessions.len() as i64);
        self.znodes.set(state.tree.len() as i64);
        self.data_bytes.set(state.tree.bytes() as i64);
        self.zxid.set(state.applied_zxid());
    }

    /// The same for sizes that need a walk of the tree; once per second is enough.
    pub fn note_counts(&self, state: &State) {
        self.watches.set(state.watches.len() as i64);
        self.ephemerals.set(state.tree.ephemeral_count() as i64);
        self.note_state(state);
    }
}

fn slot(op: OpCode) -> usize {
    usize::try_from(op.code() + 11).unwrap_or(usize::MAX)
}

fn latencies(registry: &mut Registry) -> Vec<Option<Histogram>> {
    let family = Family::<OpLabel, Histogram>::new_with_constructor(|| Histogram::new(SECONDS));
    registry.register_with_unit(
        "request",
        "Time from receiving a request to answering it",
        Unit::Seconds,
        family.clone(),
    );
    let mut table = Vec::new();
    for op in OpCode::ALL {
        let at = slot(op);
        if table.len() <= at {
            table.resize(at + 1, None);
        }
        let label = OpLabel { op: format!("{op:?}") };
        table[at] = Some(family.get_or_create(&label).clone());
    }
    table
}
