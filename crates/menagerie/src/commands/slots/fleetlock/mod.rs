//! FleetLock over HTTP: `POST /v1/pre-reboot` asks for a slot, `/v1/steady-state` gives it back. 200 means done,
//! anything else not; errors are JSON with a `kind` for programs and a `value` for people.

pub mod metrics;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, DefaultBodyLimit, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::IncomingStream;
use menagerie_kernel::Session;
use menagerie_slots::core::{Crowded, Local, Source};
use menagerie_slots::poll::{self, PollOutcome};
use menagerie_slots::{Request, SlotsError};
use menagerie_znodes::Name;
use serde::Deserialize;
use serde_json::json;
use tracing::{info, warn};

use self::metrics::Metrics;
use super::serve::Waiting;
use crate::allow::Network;
use crate::listener::{Limits, Listener};

/// Clients must send this header, so that no web page can make a browser send the request.
const HEADER: &str = "fleet-lock-protocol";

/// An id and a group are short; a longer body is not FleetLock.
const BODY_BYTES_MAX: usize = 16 << 10;

/// More connections than any fleet that reboots at once needs. A request is short, and we answer within 10 s.
pub const LIMITS: Limits =
    Limits { connections: 1_024, exchange: Duration::from_secs(20), reading_counts: false };

/// Longest wait for ZooKeeper per request; the client asks again later.
const PATIENCE: Duration = Duration::from_secs(10);

/// State shared by all requests.
#[derive(Clone)]
pub struct Service {
    session: Session,
    allow: Arc<[Network]>,
    waiting: Waiting,
    metrics: Metrics,
}

impl Service {
    pub fn new(session: Session, allow: Vec<Network>, waiting: Waiting, metrics: Metrics) -> Self {
        Self { session, allow: allow.into(), waiting, metrics }
    }
}

#[derive(Debug, Deserialize)]
struct Body {
    client_params: ClientParams,
}

#[derive(Debug, Deserialize)]
struct ClientParams {
    id: String,
    group: String,
}

/// Why a request was refused, as FleetLock reports it.
#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    kind: &'static str,
    value: String,
}

impl Refusal {
    fn new(status: StatusCode, kind: &'static str, value: impl Into<String>) -> Self {
        Self { status, kind, value: value.into() }
    }

    fn bad(kind: &'static str, value: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, kind, value)
    }

    fn response(self) -> Response {
        let body = json!({ "kind": self.kind, "value": self.value }).to_string();
        (self.status, [(CONTENT_TYPE, "application/json")], body).into_response()
    }
}

impl From<SlotsError> for Refusal {
    fn from(error: SlotsError) -> Self {
        match &error {
            SlotsError::NoPool { pool } => Self::new(
                StatusCode::NOT_FOUND,
                "unknown_group",
                format!("there is no pool {pool}: make it with `menagerie slots create`"),
            ),
            SlotsError::Running { .. } => {
                Self::new(StatusCode::CONFLICT, "failed_unlock_in_use", error.to_string())
            }
            SlotsError::Call(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", error.to_string())
            }
            _ => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", error.to_string()),
        }
    }
}

/// The client's address.
#[derive(Debug, Clone, Copy)]
struct Peer(SocketAddr);

impl Connected<IncomingStream<'_, Listener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Listener>) -> Self {
        Self(*stream.remote_addr())
    }
}

/// Serves until `stop`; answers the requests in flight by then.
pub async fn serve(
    listener: Listener,
    service: Service,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let unknown = async || {
        let known = "POST /v1/pre-reboot or /v1/steady-state";
        Refusal::new(StatusCode::NOT_FOUND, "unknown_path", known).response()
    };
    let wrong = async || {
        Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", "only POST is understood").response()
    };
    let router = Router::new()
        .route("/v1/pre-reboot", post(pre_reboot))
        .route("/v1/steady-state", post(steady_state))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(service);
    let serving = axum::serve(listener, router.into_make_service_with_connect_info::<Peer>());
    serving.with_graceful_shutdown(stop).await
}

async fn pre_reboot(
    State(service): State<Service>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    body: Result<Bytes, axum::extract::rejection::BytesRejection>,
) -> Response {
    let work = async |pool: Name, id: String| lock(&service, &pool, id, peer).await;
    answer(&service, "pre-reboot", peer, &headers, body.ok(), work).await
}

async fn steady_state(
    State(service): State<Service>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    body: Result<Bytes, axum::extract::rejection::BytesRejection>,
) -> Response {
    let work = async |pool: Name, id: String| {
        if poll::release(&service.session, &pool, &id, None).await? {
            info!(%pool, %id, peer = %peer.0, "slot given back");
        }
        Ok(())
    };
    answer(&service, "steady-state", peer, &headers, body.ok(), work).await
}

async fn lock(service: &Service, pool: &Name, id: String, peer: Peer) -> Result<(), Refusal> {
    let request = Request {
        holder: id.clone(),
        priority: 0,
        ephemeral: false,
        who: Some(format!("FleetLock client {}", peer.0.ip())),
        reason: Some("reboot".to_owned()),
        command: Vec::new(),
        // We know nothing else of the client's host.
        local: Local {
            host: peer.0.ip().to_string(),
            machine_id: None,
            boot_id: String::new(),
            pid_namespace: 0,
        },
        process: None,
        guard: None,
    };
    let source = Source::of(peer.0.ip());
    match poll::ask(&service.session, pool, &request, &source, service.waiting.limits).await? {
        PollOutcome::Holds(slot) => {
            info!(%pool, %id, slot, peer = %peer.0, "slot held");
            Ok(())
        }
        PollOutcome::Waits { frozen: true, .. } => {
            Err(Refusal::new(StatusCode::CONFLICT, "failed_lock_frozen", format!("pool {pool} is frozen")))
        }
        PollOutcome::Waits { ahead, holders, .. } => Err(Refusal::new(
            StatusCode::CONFLICT,
            "failed_lock_semaphore_full",
            format!("pool {pool} is full, held by {}; {ahead} ahead", holders.join(", ")),
        )),
        PollOutcome::Taken(slot) => Err(Refusal::new(
            StatusCode::CONFLICT,
            "failed_lock_in_use",
            format!("a command runs under slot {slot} of pool {pool} in the name of {id}"),
        )),
        PollOutcome::Crowded(Crowded::Pool(waiting)) => Err(Refusal::new(
            StatusCode::CONFLICT,
            "failed_lock_queue_full",
            format!(
                "{waiting} clients wait for pool {pool}, and no more get a place: ask again later; if all of them are \
                 yours, raise --waiters-max, and if not, look at `menagerie slots show {pool}`, and limit --allow"
            ),
        )),
        PollOutcome::Crowded(Crowded::Source(waiting)) => Err(Refusal::new(
            StatusCode::CONFLICT,
            "failed_lock_too_many_ids",
            format!(
                "{waiting} ids wait for pool {pool} from {}, and no more get a place: ask again later; if many hosts \
                 share this address, raise --waiters-per-address",
                peer.0.ip()
            ),
        )),
    }
}

/// Validates a request, runs it, counts it, and builds the response.
async fn answer(
    service: &Service,
    verb: &'static str,
    peer: Peer,
    headers: &HeaderMap,
    body: Option<Bytes>,
    work: impl AsyncFnOnce(Name, String) -> Result<(), Refusal>,
) -> Response {
    let done = async {
        let (pool, id) = understand(service, peer, headers, body)?;
        let slow = "ZooKeeper does not answer: ask again later";
        match tokio::time::timeout(PATIENCE, work(pool, id)).await {
            Ok(done) => done,
            Err(_) => Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", slow)),
        }
    };
    match done.await {
        Ok(()) => {
            service.metrics.count(verb, "ok");
            StatusCode::OK.into_response()
        }
        Err(refusal) => {
            service.metrics.count(verb, refusal.kind);
            if refusal.status.is_server_error() {
                warn!(verb, peer = %peer.0, kind = refusal.kind, value = refusal.value, "request failed");
            }
            refusal.response()
        }
    }
}

fn understand(
    service: &Service,
    peer: Peer,
    headers: &HeaderMap,
    body: Option<Bytes>,
) -> Result<(Name, String), Refusal> {
    if !service.allow.iter().any(|network| network.contains(peer.0.ip())) {
        let value = format!("{} is not on the list of --allow", peer.0.ip());
        return Err(Refusal::new(StatusCode::FORBIDDEN, "not_allowed", value));
    }
    if headers.get(HEADER).is_none_or(|value| value != "true") {
        return Err(Refusal::bad("missing_header", format!("send the header `{HEADER}: true`")));
    }
    let body = body.ok_or_else(|| Refusal::bad("invalid_body", "the body is too long, or did not arrive"))?;
    let Body { client_params: ClientParams { id, group } } =
        serde_json::from_slice(&body).map_err(|error| {
            let wanted = r#"{"client_params":{"id":"…","group":"…"}}"#;
            Refusal::bad("invalid_body", format!("expected {wanted}: {error}"))
        })?;
    let id = Name::new(id).map_err(|error| Refusal::bad("invalid_id", error.to_string()))?.to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    if !group.chars().all(plain) {
        return Err(Refusal::bad("invalid_group", "a group has letters, digits, `.` and `-` only"));
    }
    let pool = Name::new(group).map_err(|error| Refusal::bad("invalid_group", error.to_string()))?;
    Ok((pool, id))
}
