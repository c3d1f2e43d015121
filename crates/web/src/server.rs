//! The server: takes requests from sockets, finds out who asks, and has them answered.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::header::{ACCEPT, CONTENT_LENGTH, HeaderName};
use axum::http::{HeaderMap, Method, Request as HttpRequest};
use axum::response::Response;
use axum::serve::{Listener, ListenerExt as _};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use menagerie_kernel::recipes::tree_cache::TreeCacheError;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::access::throttle::Throttle;
use crate::access::tokens::Tokens;
use crate::access::{Caller, Door};
use crate::live::{self, Hub, Read};
use crate::metrics::{Metrics, Reply};
use crate::pages::{self, PageRoute};
use crate::problem::Problem;
use crate::routes::{self, ActRoute, ReadRoute};
use crate::sources::Sources;
use crate::stream::Stream;
use crate::{api, assets, history, login, reply};

/// Largest body of a request.
pub const BODY_BYTES_MAX: usize = 2 << 20;
/// Clients must send a whole body within this time.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Open streams, unless a process has room for fewer.
pub const STREAMS_MAX: usize = 2_000;

/// How a server is set up.
pub struct Options {
    /// What it reads from and acts on.
    pub sources: Sources,
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether it speaks TLS.
    pub is_tls: bool,
    /// Streams that may be open.
    pub streams_max: usize,
    /// Its counters.
    pub metrics: Metrics,
}

/// A web server. It keeps nothing that another one needs.
pub struct Server {
    pub(crate) sources: Arc<Sources>,
    pub(crate) door: Door,
    pub(crate) is_tls: bool,
    pub(crate) reads: Vec<ReadRoute>,
    pub(crate) acts: Vec<ActRoute>,
    pub(crate) pages: Vec<PageRoute>,
    pub(crate) document: String,
    hub: Hub,
    streams: Arc<Semaphore>,
    stopping: watch::Receiver<bool>,
    metrics: Metrics,
}

/// A request, as far as it was looked at.
pub(crate) struct Request {
    pub method: Method,
    pub path: String,
    pub query: String,
    pub headers: HeaderMap,
    pub peer: SocketAddr,
}

impl Request {
    /// Path and query, as in the address bar.
    pub fn address(&self) -> String {
        match self.query.is_empty() {
            true => self.path.clone(),
            false => format!("{}?{}", self.path, self.query),
        }
    }

    /// Whether it only reads.
    pub fn is_read(&self) -> bool {
        self.method == Method::GET || self.method == Method::HEAD
    }

    /// Whether a stream of live values is asked for.
    pub fn wants_stream(&self) -> bool {
        let accept = self.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
        self.method == Method::GET && accept.is_some_and(|accept| accept.contains("text/event-stream"))
    }
}

impl Server {
    /// A server that knows all tokens. It ends its streams when `stop` is done.
    pub async fn new(
        options: Options,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Self, TreeCacheError> {
        let Options { sources, address, is_tls, streams_max, metrics } = options;
        let tokens = Tokens::follow(&sources.session).await?;
        let (reads, acts) = (routes::reads(), routes::acts());
        let document = crate::openapi::document(&reads, &acts).to_string();
        let (stopped, stopping) = watch::channel(false);
        tokio::spawn(async move {
            stop.await;
            // Without receivers, the server has ended already.
            let _ = stopped.send(true);
            stopped.closed().await;
        });
        Ok(Self {
            sources: Arc::new(sources),
            door: Door { tokens, throttle: Throttle::default(), address },
            is_tls,
            reads,
            acts,
            pages: pages::all(),
            document,
            hub: Hub::default(),
            streams: Arc::new(Semaphore::new(streams_max)),
            stopping,
            metrics,
        })
    }

    /// Serves until it is told to stop, then finishes the requests in flight.
    pub async fn serve<L: Listener<Addr = SocketAddr>>(self, listener: L) -> io::Result<()> {
        let mut stopping = self.stopping.clone();
        let stop = async move {
            // The sender lives until it has said so.
            let _ = stopping.wait_for(|stopping| *stopping).await;
        };
        let sources = self.sources.clone();
        let router = Router::new().fallback(handle).with_state(Arc::new(self));
        // axum implements `Connected` for any tapped listener, which is how we learn the peer's address.
        let listener = listener.tap_io(|_| {});
        let serving = axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>());
        tokio::select! {
            served = serving.with_graceful_shutdown(stop) => served,
            never = history::follow(&sources) => match never {},
        }
    }

    /// A stream of a live value for a caller.
    pub(crate) fn stream(
        self: &Arc<Self>,
        request: &Request,
        caller: &Caller,
        event: &'static str,
        read: Read,
    ) -> Result<Response, Problem> {
        let Ok(permit) = self.streams.clone().try_acquire_owned() else {
            return Err(Problem::busy(503, "this server has as many streams open as it can", 10));
        };
        let key = format!("{event} {:?} {}?{}", caller.rights(), request.path, request.query);
        let last_id = request.headers.get(HeaderName::from_static("last-event-id"));
        let last_id = last_id.map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned());
        let (server, caller) = (self.clone(), caller.clone());
        let open = OpenStream::new(&self.metrics);
        let is_allowed = Box::new(move || {
            let _counted = &open;
            !server.door.tokens.is_revoked(&caller)
        });
        let stream = Stream {
            state: self.hub.watch(&key, live::pace(&request.path), read),
            event,
            build: assets::build(),
            last_id,
            stopping: self.stopping.clone(),
            is_allowed,
            _permit: permit,
        };
        Ok(reply::reply(200, "text/event-stream", stream.body()))
    }
}

/// Counts a stream while it is open.
struct OpenStream(Metrics);

impl OpenStream {
    fn new(metrics: &Metrics) -> Self {
        metrics.streams.inc();
        Self(metrics.clone())
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.streams.dec();
    }
}

async fn handle(
    State(server): State<Arc<Server>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: HttpRequest<Body>,
) -> Response {
    let (parts, body) = request.into_parts();
    let request = Request {
        method: parts.method,
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers,
        peer,
    };
    let (kind, mut response) = answer(&server, &request, body).await;
    reply::harden(response.headers_mut());
    let labels = Reply { kind, code: response.status().as_u16() };
    server.metrics.replies.get_or_create(&labels).inc();
    response
}

/// Answers a request; the first is its kind, for metrics.
async fn answer(server: &Arc<Server>, request: &Request, body: Body) -> (&'static str, Response) {
    if let Some(name) = request.path.strip_prefix("/assets/") {
        return ("asset", assets::serve(name, request.is_read()));
    }
    if request.path == "/healthz" {
        return ("asset", reply::reply(200, "text/plain; charset=utf-8", "ok\n"));
    }
    if request.path.starts_with("/api/") {
        let answered = api::answer(server, request, body).await;
        return ("api", answered.unwrap_or_else(|problem| reply::problem(&problem)));
    }
    if matches!(request.path.as_str(), "/login" | "/logout") {
        return ("page", login::answer(server, request, body).await);
    }
    ("page", pages::answer(server, request, body).await)
}

/// Reads a body up to the limit. Refuses a larger `Content-Length` without reading.
pub(crate) async fn read_body(body: Body, headers: &HeaderMap) -> Result<Bytes, Problem> {
    let too_large = || {
        let what = format!("the body has more than {BODY_BYTES_MAX} bytes");
        Problem::new(413, what, "send less; large files belong elsewhere, and their address into the message")
    };
    let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > BODY_BYTES_MAX as u64) {
        return Err(too_large());
    }
    let whole = async {
        let mut whole = BytesMut::new();
        let mut stream = body.into_data_stream();
        while let Some(part) = stream.next().await {
            let part = part.map_err(|_| Problem::bad("the body did not arrive whole", "send it again"))?;
            if whole.len() + part.len() > BODY_BYTES_MAX {
                return Err(too_large());
            }
            whole.extend_from_slice(&part);
        }
        Ok(whole.freeze())
    };
    let late = || Problem::new(408, "the body did not arrive in time", "send it faster");
    timeout(BODY_TIMEOUT, whole).await.unwrap_or_else(|_| Err(late()))
}
