//! Counters of the web server.

use std::sync::atomic::AtomicI64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Labels of a reply.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Reply {
    /// `api`, `page` or `asset`.
    pub kind: &'static str,
    /// HTTP status.
    pub code: u16,
}

/// Counters of the web server.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Replies by kind and status.
    pub replies: Family<Reply, Counter>,
    /// Open streams.
    pub streams: Gauge<i64, AtomicI64>,
}

impl Metrics {
    /// Registers them.
    pub fn new(registry: &mut Registry) -> Self {
        let (replies, streams) = (Family::default(), Gauge::default());
        let ours = registry.sub_registry_with_prefix("menagerie_web");
        ours.register("replies", "Replies of the web server", replies.clone());
        ours.register("streams", "Open streams of live values", streams.clone());
        Self { replies, streams }
    }
}
