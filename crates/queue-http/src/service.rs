//! The service: identifies callers, limits their rate and dispatches their requests.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use axum::http::Method;
use bytes::Bytes;
use menagerie_journal::JournalError;
use menagerie_kernel::recipes::tree_cache::TreeCacheError;
use menagerie_kernel::{CallError, Session, whole};
use menagerie_queues::QueueError;
use menagerie_queues::journals::Journals;
use menagerie_znodes::queues::{KeyId, QueueName, QueueNameError, Settings};
use tokio::sync::Semaphore;
use tracing::warn;

use crate::access::{self, Action, Caller};
use crate::bucket::Buckets;
use crate::keyring::{Application, CachedKey, Keyring};
use crate::keys::Hash;
use crate::memory::{IN_FLIGHT_BYTES_MAX, MemoryBudget, Reservation};
use crate::newest_ids::NewestIds;
use crate::one::Traces;
use crate::receive::workers::{ReceiveOptions, Receiving};
use crate::reply::Reply;
use crate::route::{Route, Verb};
use crate::settings_cache::SettingsCache;

/// OpenAPI document of this server.
pub const OPENAPI: &str = include_str!("../../../docs/queue-openapi.json");

/// Default rate of unknown keys from one address. A key added a moment ago is unknown, too, but that is rare.
const GUESSES_PER_SECOND: u32 = 10;

/// Anonymous callers share this many concurrent ZooKeeper look-ups.
const ANONYMOUS_LOOKUPS_MAX: usize = 8;

/// Options chosen by the operator.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Journal for new queues; if `None`, the only one registered.
    pub journal: Option<String>,
    /// Applications of the configuration, by name.
    pub applications: BTreeMap<String, Application>,
    /// Requests per second for each key, unless its application has its own rate; and for each address without a key.
    pub rate_limit: Option<u32>,
    /// Memory for requests and replies in flight; [`IN_FLIGHT_BYTES_MAX`] if `None`.
    pub in_flight_bytes_max: Option<usize>,
    /// How clients receive messages.
    pub receive: ReceiveOptions,
}

/// A client, as rate limits and memory shares count it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Client {
    /// A holder of this key.
    Key(KeyId),
    /// An anonymous caller at this address.
    Address(IpAddr),
    /// A caller with unknown keys at this address.
    Guesser(IpAddr),
}

impl Client {
    fn of(caller: &Caller, peer: IpAddr) -> Self {
        match caller.0.first() {
            Some(holder) => Self::Key(holder.key.clone()),
            None => Self::Address(rate_limit_address(peer)),
        }
    }
}

/// The /64 network of an IPv6 address: whoever has one address of it has all of them.
fn rate_limit_address(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
        address @ IpAddr::V4(_) => address,
    }
}

/// Memory reserved by a request.
pub type RequestMemory = Reservation<Client>;

/// The parts of an HTTP request that we use.
#[derive(Debug)]
#[expect(missing_docs, reason = "method and headers name themselves")]
pub struct Request {
    pub method: Method,
    /// `None` if there is no such path.
    pub route: Option<Route>,
    /// The raw query, without `?`.
    pub query: String,
    pub headers: Headers,
    /// Empty until the caller is admitted.
    pub body: Bytes,
    /// Address of the client.
    pub peer: IpAddr,
}

/// The headers we read; bytes that are not UTF-8 become U+FFFD.
#[derive(Debug, Clone, Default)]
pub struct Headers {
    /// All `Authorization` headers, joined by `;`.
    pub authorization: String,
    /// `Content-Type`
    pub content_type: Option<String>,
    /// `X-TTL`
    pub ttl: Option<String>,
    /// `X-Partition`
    pub partition: Option<String>,
    /// `Idempotency-Key`
    pub idempotency_key: Option<String>,
}

/// A reply, and what the access log and the metrics say about it.
#[derive(Debug)]
pub struct Answer {
    /// The reply to send.
    pub reply: Reply,
    /// Application in the path, if it exists.
    pub application: Option<String>,
    /// First key presented.
    pub key: Option<KeyId>,
}

/// Answers requests.
pub struct Service {
    pub(crate) session: Session,
    pub(crate) journals: Journals,
    pub(crate) settings: SettingsCache,
    pub(crate) newest_ids: NewestIds,
    pub(crate) receiving: Receiving,
    pub(crate) options: Options,
    keyring: Keyring,
    rates: Mutex<Buckets<Client>>,
    memory: MemoryBudget<Client>,
    anonymous_lookups: Semaphore,
    pub(crate) traces: Traces,
    /// Round robin over partitions, for messages that name none.
    next: AtomicU16,
}

impl Service {
    /// Fills the caches of queues and keys, then serves from them.
    pub async fn new(
        session: &Session,
        journals: Journals,
        options: Options,
    ) -> Result<Self, TreeCacheError> {
        let keyring = Keyring::follow(session, options.applications.clone()).await?;
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let receiving = Receiving::new(session, journals.clone(), options.receive.clone()).await?;
        Ok(Self {
            session: session.clone(),
            journals,
            receiving,
            settings: SettingsCache::follow(session).await?,
            newest_ids: NewestIds::default(),
            memory: MemoryBudget::new(options.in_flight_bytes_max.unwrap_or(IN_FLIGHT_BYTES_MAX)),
            anonymous_lookups: Semaphore::new(ANONYMOUS_LOOKUPS_MAX),
            traces: Traces::default(),
            options,
            keyring,
            rates: Mutex::default(),
            next: AtomicU16::new(since.subsec_micros() as u16),
        })
    }

    /// What clients receive; stop it before the session ends.
    pub fn receiving(&self) -> Receiving {
        self.receiving.clone()
    }

    /// Identifies the caller and checks its rate; `Err` answers at once. Decides without the body, so that nobody
    /// uploads one in vain.
    pub async fn admit(&self, request: &Request) -> Result<Caller, Answer> {
        let answer = |reply| Answer { reply, application: None, key: None };
        match (&request.route, request.method.as_str()) {
            (None, _) => return Err(answer(Reply::not_found())),
            (Some(Route::Heartbeat), "GET" | "HEAD" | "POST") => return Err(answer(Reply::text("OK"))),
            (Some(Route::OpenApi), "GET" | "HEAD") => return Err(answer(Reply::document(OPENAPI))),
            _ => {}
        }
        let caller = self.caller(request).await.map_err(answer)?;
        let key = caller.0.first().map(|holder| holder.key.clone());
        match self.check_rate(&caller, request.peer) {
            Ok(()) => Ok(caller),
            Err(reply) => Err(Answer { key, ..answer(reply) }),
        }
    }

    /// A memory reservation for one request. All anonymous callers count as one client, whatever their addresses, so
    /// that half of the budget is left to callers with keys.
    pub fn reserve_memory(&self, caller: &Caller) -> RequestMemory {
        self.memory.reserve(Client::of(caller, Ipv4Addr::UNSPECIFIED.into()))
    }

    /// Answers the request of an admitted caller.
    pub async fn answer(&self, request: &Request, caller: &Caller, memory: &mut RequestMemory) -> Answer {
        let key = caller.0.first().map(|holder| holder.key.clone());
        let application = self.application(request, caller);
        let reply = match application {
            None => Reply::no_application(),
            Some(_) => self.dispatch(request, caller, memory).await.unwrap_or_else(|refused| refused),
        };
        Answer { reply, application, key }
    }

    /// The holders of the keys presented; refuses the request if any key is wrong.
    pub(crate) async fn caller(&self, request: &Request) -> Result<Caller, Reply> {
        let mut holders = Vec::new();
        for key in access::keys(&request.headers.authorization) {
            let hash = Hash::of(key);
            let holder = match self.keyring.cached(&hash) {
                CachedKey::Known(holder) => Some(holder),
                CachedKey::Wrong => None,
                // Check the rate before asking ZooKeeper: guessing keys must not keep it busy.
                CachedKey::Unknown { is_live } => {
                    self.admit_guess(request.peer, is_live)?;
                    self.keyring.look_up(&hash).await.map_err(|error| unavailable(error.into()))?
                }
            };
            holders.push(holder.ok_or_else(Reply::invalid_key)?);
        }
        Ok(Caller(holders))
    }

    /// Whether this address may present another unknown key. While the cache is stale every key is unknown, so only the
    /// operator's rate applies.
    fn admit_guess(&self, peer: IpAddr, is_live: bool) -> Result<(), Reply> {
        match self.options.rate_limit.or(is_live.then_some(GUESSES_PER_SECOND)) {
            Some(rate) => self.take_token(&Client::Guesser(rate_limit_address(peer)), rate),
            None => Ok(()),
        }
    }

    /// The application in the path, if it exists.
    fn application(&self, request: &Request, caller: &Caller) -> Option<String> {
        let application = request.route.as_ref()?.application()?;
        let known = caller.is_of(application)
            || self.keyring.has_application(application)
            || self.settings.has_application(application);
        known.then(|| application.to_owned())
    }

    /// Takes one request from the caller's rate.
    fn check_rate(&self, caller: &Caller, peer: IpAddr) -> Result<(), Reply> {
        let own = caller.0.first().and_then(|holder| self.keyring.rate_limit(&holder.application));
        let Some(rate) = own.or(self.options.rate_limit) else { return Ok(()) };
        self.take_token(&Client::of(caller, peer), rate)
    }

    fn take_token(&self, client: &Client, rate: u32) -> Result<(), Reply> {
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        rates.take(client, rate, Instant::now()).map_err(Reply::rate_limited)
    }

    async fn dispatch(
        &self,
        request: &Request,
        caller: &Caller,
        memory: &mut RequestMemory,
    ) -> Result<Reply, Reply> {
        match (&request.route, request.method.as_str()) {
            (Some(Route::Application { application }), "POST") => {
                self.create(request, caller, application).await
            }
            (Some(Route::Application { application }), "GET") => {
                self.list(request, caller, application).await
            }
            (Some(Route::Queue { application, queue, slash }), method) => {
                let path = (application.as_str(), queue.as_str());
                match method {
                    "POST" => self.post(request, caller, path).await,
                    "GET" => self.read(request, caller, path, memory).await,
                    "PUT" => self.change(request, caller, path).await,
                    "DELETE" if *slash => Err(Reply::missing_id()),
                    "DELETE" => self.remove(caller, path).await,
                    _ => Err(Reply::not_found()),
                }
            }
            (Some(Route::Messages { application, queue, ids }), method) => {
                let path = (application.as_str(), queue.as_str());
                match method {
                    "GET" => self.pick(caller, path, ids, memory).await,
                    "PUT" => self.replace(request, caller, (path, ids), memory).await,
                    "DELETE" => self.delete(caller, path, ids).await,
                    _ => Err(Reply::not_found()),
                }
            }
            (Some(Route::Message { application, queue, id }), "GET") => {
                self.message(caller, (application, queue), id, memory).await
            }
            (Some(Route::Handling { application, queue, verb }), "POST") => match verb {
                Verb::Receive => self.receive(request, caller, (application, queue), memory).await,
                Verb::Answer(kind) => {
                    self.answer_receipts(request, caller, (application, queue), *kind).await
                }
            },
            _ => Err(Reply::not_found()),
        }
    }

    /// The queue in the path and its settings, if it exists and the caller is allowed to do this.
    pub(crate) async fn queue(
        &self,
        caller: &Caller,
        action: Action,
        (application, name): (&str, &str),
    ) -> Result<(QueueName, Settings), Reply> {
        let queue = QueueName::new(application, name).map_err(|error| match error {
            QueueNameError::Long(_) | QueueNameError::Bytes(_) => Reply::name_too_long(),
            _ => Reply::no_queue(),
        })?;
        let found = match self.settings.cached(&queue) {
            Some(settings) => Some(settings),
            None => {
                let _turn = match caller.0.is_empty() {
                    true => Some(self.anonymous_lookups.acquire().await),
                    false => None,
                };
                self.settings.read_fresh(&queue).await.map_err(|error| unavailable(error.into()))?
            }
        };
        let settings = found.ok_or_else(Reply::no_queue)?;
        if caller.can(action, application, Some(&settings)) {
            return Ok((queue, settings));
        }
        // Our settings may be stale: another server may have granted access a moment ago.
        let settings = self.fresh_settings(&queue).await?;
        if caller.can(action, application, Some(&settings)) {
            Ok((queue, settings))
        } else {
            Err(Reply::forbidden())
        }
    }

    /// Current settings of a queue.
    pub(crate) async fn fresh_settings(&self, queue: &QueueName) -> Result<Settings, Reply> {
        let found = self.settings.read_fresh(queue).await.map_err(|error| unavailable(error.into()))?;
        found.ok_or_else(Reply::no_queue)
    }

    /// The next partition, round robin, for a message that names none.
    pub(crate) fn next_partition(&self, partitions: u16) -> u16 {
        self.next.fetch_add(1, Ordering::Relaxed) % partitions.max(1) + 1
    }
}

/// The reply to a client when the journal refuses a request.
pub(crate) fn journal_refusal(error: JournalError) -> Reply {
    match &error {
        JournalError::NoTopic { .. } => Reply::no_queue(),
        // Another server recreated the queue with fewer partitions a moment ago.
        JournalError::NoPartition { partition, partitions } => {
            let why = format!("{} is greater than maximum value {partitions}", partition.number);
            Reply::error(400, "partition", &why)
        }
        JournalError::TooLarge { .. } => Reply::too_large(&error.to_string()),
        JournalError::Ahead { .. } => Reply::error(400, "InvalidMessageID", &error.to_string()),
        JournalError::Invalid(reason) => Reply::error(400, "InvalidParameter", reason),
        _ => unavailable(error.into()),
    }
}

/// The reply to a client when a queue cannot be used.
pub(crate) fn queue_refusal(error: QueueError) -> Reply {
    match error {
        QueueError::Journal(error) => journal_refusal(error),
        error => unavailable(error),
    }
}

/// The reply to a client when ZooKeeper or the journal does not answer.
pub(crate) fn unavailable(error: QueueError) -> Reply {
    let reason = match &error {
        QueueError::Journal(error) => error.to_string(),
        QueueError::Call(CallError::Suspended | CallError::Unknown { .. } | CallError::Expired) => {
            "ZooKeeper does not answer".to_owned()
        }
        error => error.to_string(),
    };
    warn!(error = %whole(&error), reason, "a request failed");
    Reply::storage_down(&reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_network_counts_as_one_client() {
        let of = |text: &str| Client::of(&Caller::default(), text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
