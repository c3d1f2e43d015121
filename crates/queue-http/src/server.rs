//! The HTTP server: requests come from sockets, are answered by the [`Service`], counted and written down.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, Request as HttpRequest, StatusCode};
use axum::response::Response;
use axum::serve::{Listener, ListenerExt as _};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use serde::Serialize;
use tokio::time::timeout;

use crate::metrics::{Metrics, Served};
use crate::reply::Reply;
use crate::route::route;
use crate::service::{Answer, Headers, Held, Request, Service};

/// What one request may hold, unless the operator says otherwise.
pub const BODY_BYTES_MAX: usize = 10 << 20;

/// Whoever takes longer to send a body does not want to.
const BODY_TIME: Duration = Duration::from_secs(60);

/// One line of the access log. No key and no query is in it.
#[derive(Debug, Serialize)]
pub struct Line<'a> {
    /// When it was answered, in milliseconds since 1970.
    pub time_ms: u64,
    /// From where.
    pub peer: String,
    /// Whose queues it was about.
    pub application: Option<&'a str>,
    /// The name of the key that was shown.
    pub key: Option<&'a str>,
    /// What was asked.
    pub method: &'a str,
    /// About what.
    pub path: &'a str,
    /// What was answered.
    pub code: u16,
    /// With how many bytes.
    pub bytes: usize,
    /// How long it took, in microseconds.
    pub took_us: u64,
}

/// Where lines of the access log go.
pub type AccessLog = Box<dyn Fn(&Line<'_>) + Send + Sync>;

/// A server that is not serving yet.
pub struct Server {
    /// Answers.
    pub service: Service,
    /// Counts.
    pub metrics: Metrics,
    /// Writes down.
    pub access_log: Option<AccessLog>,
    /// What one request may hold.
    pub body_bytes_max: usize,
}

impl Server {
    /// Answers until `stop`, and what was asked by then.
    pub async fn serve<L: Listener<Addr = SocketAddr>>(
        self,
        listener: L,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let router = Router::new().fallback(handle).with_state(Arc::new(self));
        // Any listener that is tapped can tell where connections come from.
        let listener = listener.tap_io(|_| {});
        let serving = axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>());
        serving.with_graceful_shutdown(stop).await
    }
}

async fn handle(
    State(server): State<Arc<Server>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: HttpRequest<Body>,
) -> Response {
    let began = Instant::now();
    let _open = server.metrics.opened();
    let (parts, body) = request.into_parts();
    let request = Request {
        route: route(parts.uri.path()),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: headers(&parts.headers),
        body: Bytes::new(),
        peer: peer.ip(),
        method: parts.method.clone(),
    };
    let (answer, held) = answer(&server, request, body, &parts.headers).await;
    let took = began.elapsed();
    server.metrics.count(Served {
        application: answer.application.as_deref(),
        method: word(&parts.method),
        code: answer.reply.code,
        messages: answer.reply.messages,
        took,
    });
    if let Some(log) = &server.access_log {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        log(&Line {
            time_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            peer: peer.to_string(),
            application: answer.application.as_deref(),
            key: answer.key.as_ref().map(|key| key.as_str()),
            method: parts.method.as_str(),
            path: parts.uri.path(),
            code: answer.reply.code,
            bytes: answer.reply.body.len(),
            took_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        });
    }
    response(answer.reply, held)
}

/// The body is read when it is known who sends it. Without a key there is nothing to send: messages may be read at most.
async fn answer(
    server: &Server,
    mut request: Request,
    body: Body,
    headers: &HeaderMap,
) -> (Answer, Option<Held>) {
    let caller = match server.service.admitted(&request).await {
        Ok(caller) => caller,
        Err(answer) => return (answer, None),
    };
    let mut held = server.service.place(&caller);
    if let Some(holder) = caller.0.first() {
        request.body = match received(body, headers, server.body_bytes_max, &mut held).await {
            Ok(body) => body,
            Err(reply) => {
                return (Answer { reply, application: None, key: Some(holder.key.clone()) }, None);
            }
        };
    }
    (server.service.answer(&request, &caller, &mut held).await, Some(held))
}

/// The body, if it is not too large. What says so itself is not read at all; of the rest, what has come is counted.
async fn received(body: Body, headers: &HeaderMap, max: usize, held: &mut Held) -> Result<Bytes, Reply> {
    let too_large = || Reply::too_large(&format!("more than {max} bytes"));
    let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > max as u64) {
        return Err(too_large());
    }
    let whole = async {
        // Copied, and not kept as it comes: in pieces of one byte each, what is around them would be many times as much.
        let mut whole = BytesMut::new();
        let mut stream = body.into_data_stream();
        while let Some(part) = stream.next().await {
            let part = part.map_err(|_| Reply::error(400, "body", "it did not arrive whole"))?;
            if whole.len() + part.len() > max {
                return Err(too_large());
            }
            held.grow(part.len()).map_err(|_| Reply::no_room())?;
            whole.extend_from_slice(&part);
        }
        Ok(whole.freeze())
    };
    let late = || Reply::error(408, "body", "it did not arrive in time");
    timeout(BODY_TIME, whole).await.unwrap_or_else(|_| Err(late()))
}

fn headers(map: &HeaderMap) -> Headers {
    // A header that is no text is there all the same: a key that cannot be one is a wrong key, and not none.
    let lossy = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let text = |name: &HeaderName| map.get(name).map(lossy);
    let authorization: Vec<String> = map.get_all(AUTHORIZATION).iter().map(lossy).collect();
    Headers {
        authorization: authorization.join(";"),
        content_type: text(&CONTENT_TYPE),
        ttl: text(&HeaderName::from_static("x-ttl")),
        partition: text(&HeaderName::from_static("x-partition")),
        idempotency_key: text(&HeaderName::from_static("idempotency-key")),
    }
}

/// Methods that anybody makes up are one.
fn word(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        _ => "other",
    }
}

/// The body of an answer; what it takes is given back when it was sent.
struct Sent {
    body: Vec<u8>,
    _held: Option<Held>,
}

impl AsRef<[u8]> for Sent {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

fn response(reply: Reply, mut held: Option<Held>) -> Response {
    if let Some(held) = &mut held {
        held.settle(reply.body.len());
    }
    let body = Bytes::from_owner(Sent { body: reply.body, _held: held });
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(reply.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(reply.media));
    for (name, value) in reply.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    response
}
