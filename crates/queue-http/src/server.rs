//! The HTTP server: takes requests from sockets, has the [`Service`] answer them, counts and logs them.

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
use crate::service::{Answer, Headers, Request, RequestMemory, Service};

/// Default for the largest request body.
pub const BODY_BYTES_MAX: usize = 10 << 20;

/// Clients must send a whole body within this time.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// One line of the access log. It contains neither keys nor queries.
#[derive(Debug, Serialize)]
pub struct Line<'a> {
    /// When the reply was ready, in milliseconds since 1970.
    pub time_ms: u64,
    /// Address of the client.
    pub peer: String,
    /// Application in the path, if it exists.
    pub application: Option<&'a str>,
    /// Id of the first key presented.
    pub key: Option<&'a str>,
    /// HTTP method.
    pub method: &'a str,
    /// Path without the query.
    pub path: &'a str,
    /// HTTP status.
    pub code: u16,
    /// Size of the reply's body.
    pub bytes: usize,
    /// Time from the request's head to the reply, in microseconds.
    pub took_us: u64,
}

/// Receives each line of the access log.
pub type AccessLog = Box<dyn Fn(&Line<'_>) + Send + Sync>;

/// Everything a server needs; [`Server::serve`] starts it.
pub struct Server {
    /// Answers requests.
    pub service: Service,
    /// Counts requests.
    pub metrics: Metrics,
    /// Logs requests, if set.
    pub access_log: Option<AccessLog>,
    /// Largest request body accepted.
    pub body_bytes_max: usize,
}

impl Server {
    /// Serves until `stop`, then finishes the requests in flight.
    pub async fn serve<L: Listener<Addr = SocketAddr>>(
        self,
        listener: L,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let router = Router::new().fallback(handle).with_state(Arc::new(self));
        // axum implements `Connected` for any tapped listener, which is how we learn the peer's address.
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
    let _open = server.metrics.open_request();
    let (parts, body) = request.into_parts();
    let request = Request {
        route: route(parts.uri.path()),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: headers(&parts.headers),
        body: Bytes::new(),
        peer: peer.ip(),
        method: parts.method.clone(),
    };
    let (answer, memory) = answer(&server, request, body, &parts.headers).await;
    let took = began.elapsed();
    server.metrics.count(Served {
        application: answer.application.as_deref(),
        method: method_label(&parts.method),
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
    response(answer.reply, memory)
}

/// Reads the body only after the caller is known. Anonymous callers can only read, so their bodies are ignored.
async fn answer(
    server: &Server,
    mut request: Request,
    body: Body,
    headers: &HeaderMap,
) -> (Answer, Option<RequestMemory>) {
    let caller = match server.service.admit(&request).await {
        Ok(caller) => caller,
        Err(answer) => return (answer, None),
    };
    let mut memory = server.service.reserve_memory(&caller);
    if let Some(holder) = caller.0.first() {
        request.body = match read_body(body, headers, server.body_bytes_max, &mut memory).await {
            Ok(body) => body,
            Err(reply) => {
                return (Answer { reply, application: None, key: Some(holder.key.clone()) }, None);
            }
        };
    }
    (server.service.answer(&request, &caller, &mut memory).await, Some(memory))
}

/// Reads the body up to `max` bytes. Refuses a larger `Content-Length` without reading; otherwise counts what arrives.
async fn read_body(
    body: Body,
    headers: &HeaderMap,
    max: usize,
    memory: &mut RequestMemory,
) -> Result<Bytes, Reply> {
    let too_large = || Reply::too_large(&format!("more than {max} bytes"));
    let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > max as u64) {
        return Err(too_large());
    }
    let whole = async {
        // Copy the chunks together: kept as one-byte chunks, their overhead would be many times the body.
        let mut whole = BytesMut::new();
        let mut stream = body.into_data_stream();
        while let Some(part) = stream.next().await {
            let part = part.map_err(|_| Reply::error(400, "body", "it did not arrive whole"))?;
            if whole.len() + part.len() > max {
                return Err(too_large());
            }
            memory.grow(part.len()).map_err(|_| Reply::busy())?;
            whole.extend_from_slice(&part);
        }
        Ok(whole.freeze())
    };
    let late = || Reply::error(408, "body", "it did not arrive in time");
    timeout(BODY_TIMEOUT, whole).await.unwrap_or_else(|_| Err(late()))
}

fn headers(map: &HeaderMap) -> Headers {
    // A header that is not UTF-8 still counts: a garbled key is a wrong key, not a missing one.
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

/// Method as a metric label; invented methods share one, so that clients cannot create labels.
fn method_label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        _ => "other",
    }
}

/// The body of a reply; releases its memory reservation once it is sent.
struct ReplyBody {
    body: Vec<u8>,
    _memory: Option<RequestMemory>,
}

impl AsRef<[u8]> for ReplyBody {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

fn response(reply: Reply, mut memory: Option<RequestMemory>) -> Response {
    if let Some(memory) = &mut memory {
        memory.set_bytes(reply.body.len());
    }
    let body = Bytes::from_owner(ReplyBody { body: reply.body, _memory: memory });
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
