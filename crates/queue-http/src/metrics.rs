//! What the server counts, by application. Those that nobody knows are one: their names come from anybody.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    application: String,
    method: &'static str,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Application {
    application: String,
}

/// All of it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics {
    requests: Family<Request, Counter>,
    seconds: Family<Application, Histogram>,
    posted: Family<Application, Counter>,
    read: Family<Application, Counter>,
    open: Gauge,
}

/// What one request came to.
#[derive(Debug, Clone, Copy)]
pub struct Served<'a> {
    /// Whose queues it was about.
    pub application: Option<&'a str>,
    /// What was asked.
    pub method: &'static str,
    /// What was answered.
    pub code: u16,
    /// With how many messages.
    pub messages: usize,
    /// How long it took.
    pub took: Duration,
}

impl Metrics {
    /// Registers them.
    pub fn new(registry: &mut Registry) -> Self {
        let buckets = || Histogram::new(exponential_buckets(0.0005, 2.0, 18));
        let metrics = Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(buckets),
            posted: Family::default(),
            read: Family::default(),
            open: Gauge::default(),
        };
        let requests = "HTTP requests, by application, method and code";
        registry.register("menagerie_queue_http_requests", requests, metrics.requests.clone());
        let seconds = "How long requests took; those of readers that wait, too";
        registry.register_with_unit("menagerie_queue_http", seconds, Unit::Seconds, metrics.seconds.clone());
        let posted = "Messages that were posted";
        registry.register("menagerie_queue_http_messages_posted", posted, metrics.posted.clone());
        let read = "Messages that were read";
        registry.register("menagerie_queue_http_messages_read", read, metrics.read.clone());
        let open = "Requests that are not answered yet";
        registry.register("menagerie_queue_http_open_requests", open, metrics.open.clone());
        metrics
    }

    /// One more is open, until what is given back is dropped.
    pub fn opened(&self) -> Open {
        self.open.inc();
        Open(self.open.clone())
    }

    /// Counts an answer.
    pub fn count(&self, served: Served<'_>) {
        let application = served.application.unwrap_or("-").to_owned();
        let labels = Application { application: application.clone() };
        self.requests.get_or_create(&Request { application, method: served.method, code: served.code }).inc();
        self.seconds.get_or_create(&labels).observe(served.took.as_secs_f64());
        match served.code {
            201 => self.posted.get_or_create(&labels).inc_by(served.messages as u64),
            _ => self.read.get_or_create(&labels).inc_by(served.messages as u64),
        };
    }
}

/// A request that is not answered yet.
#[derive(Debug)]
pub struct Open(Gauge);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}
