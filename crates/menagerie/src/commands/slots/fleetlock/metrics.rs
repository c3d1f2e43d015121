//! What `/metrics` shows of pools and FleetLock requests.

use std::sync::atomic::AtomicI64;

use menagerie_kernel::Session;
use menagerie_slots::{SlotsError, admin, view};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::clock;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    verb: &'static str,
    answer: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Pool {
    pool: String,
}

type PerPool = Family<Pool, Gauge<i64, AtomicI64>>;

/// Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    requests: Family<Request, Counter>,
    used: PerPool,
    max: PerPool,
    waiting: PerPool,
    oldest: PerPool,
    frozen: PerPool,
}

impl Metrics {
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "menagerie_slots_requests",
            "FleetLock requests, by operation and kind of answer",
            metrics.requests.clone(),
        );
        for (name, help, gauge) in [
            ("used", "Slots that are held", &metrics.used),
            ("max", "Slots that may be held", &metrics.max),
            ("waiting", "Hosts in the queue", &metrics.waiting),
            ("oldest_seconds", "How long the oldest slot has been held", &metrics.oldest),
            ("frozen", "1 while the pool is frozen", &metrics.frozen),
        ] {
            registry.register(format!("menagerie_slots_{name}"), help, gauge.clone());
        }
        metrics
    }

    pub fn count(&self, verb: &'static str, answer: &'static str) {
        self.requests.get_or_create(&Request { verb, answer }).inc();
    }

    /// Samples all pools. A pool that cannot be read does not keep the others from being sampled.
    pub async fn sample(&self, session: &Session) -> Result<(), SlotsError> {
        let now_ms = u64::try_from(clock::now_ms()).unwrap_or(0);
        let (mut pools, mut first_error) = (Vec::new(), Ok(()));
        for pool in admin::list(session).await? {
            match view::usage(session, &pool, now_ms).await {
                Ok(usage) => pools.push((Pool { pool: pool.to_string() }, usage)),
                Err(SlotsError::NoPool { .. }) => {}
                Err(error) => first_error = first_error.and(Err(error)),
            }
        }
        // Series of deleted pools would stay for ever.
        for gauge in [&self.used, &self.max, &self.waiting, &self.oldest, &self.frozen] {
            gauge.clear();
        }
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        for (pool, usage) in pools {
            self.used.get_or_create(&pool).set(number(usage.used));
            self.max.get_or_create(&pool).set(i64::from(usage.max));
            self.waiting.get_or_create(&pool).set(number(usage.waiting));
            self.oldest.get_or_create(&pool).set(i64::try_from(usage.oldest_s).unwrap_or(i64::MAX));
            self.frozen.get_or_create(&pool).set(i64::from(usage.frozen));
        }
        first_error
    }
}
