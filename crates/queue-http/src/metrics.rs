//! Metrics by application. Unknown applications share one label, so that clients cannot create labels.

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

/// The server's metrics. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics {
    requests: Family<Request, Counter>,
    seconds: Family<Application, Histogram>,
    posted: Family<Application, Counter>,
    read: Family<Application, Counter>,
    open: Gauge,
}

/// The outcome of one request.
#[derive(Debug, Clone, Copy)]
pub struct Served<'a> {
    /// Application in the path, if it exists.
    pub application: Option<&'a str>,
    /// HTTP method.
    pub method: &'static str,
    /// HTTP status.
    pub code: u16,
    /// Messages posted or read.
    pub messages: usize,
    /// Time from the request's head to the reply.
    pub took: Duration,
}

impl Metrics {
    /// Registers the metrics.
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

    /// Counts a request as open until the guard is dropped.
    pub fn open_request(&self) -> OpenRequest {
        self.open.inc();
        OpenRequest(self.open.clone())
    }

    /// Counts an answered request.
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

/// Guard of a request in flight.
#[derive(Debug)]
pub struct OpenRequest(Gauge);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.dec();
    }
}
