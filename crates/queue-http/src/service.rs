//! What every request needs, who asks, and where it goes.

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

use crate::access::{self, Caller, Wish};
use crate::bucket::Buckets;
use crate::keyring::{Application, Keyring, Remembered};
use crate::keys::Hash;
use crate::reply::Reply;
use crate::room::{Place, ROOM_BYTES, Room};
use crate::route::Route;
use crate::shelf::Shelf;
use crate::tide::Tide;

/// The document that says what can be asked.
pub const OPENAPI: &str = include_str!("../../../docs/queue-openapi.json");

/// Keys that nobody has heard of, from one address, unless the operator says otherwise: a key that was added a moment ago
/// is one of them, but not often.
const GUESSES_PER_SECOND: u32 = 10;

/// Who shows no key has ZooKeeper asked about queues at most so many at a time, however many they are.
const STRANGERS_LOOKUPS_MAX: usize = 8;

/// What the operator chooses.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The journal that new queues are kept in; the only one that is registered, if it is not said.
    pub journal: Option<String>,
    /// Applications of the configuration.
    pub applications: BTreeMap<String, Application>,
    /// So many requests a second with one key, unless its application says otherwise; and from one address without a key.
    pub rate_limit: Option<u32>,
    /// Bytes of requests and answers that are held at once, unless it is [`ROOM_BYTES`].
    pub room_bytes: Option<usize>,
}

/// Whose requests are counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Asker {
    /// Who has shown this key.
    Key(KeyId),
    /// Who has shown none, from there.
    Address(IpAddr),
    /// Who shows keys that nobody has heard of.
    Guess(IpAddr),
}

impl Asker {
    fn of(caller: &Caller, peer: IpAddr) -> Self {
        match caller.0.first() {
            Some(holder) => Self::Key(holder.key.clone()),
            None => Self::Address(origin(peer)),
        }
    }
}

/// Whoever has one address of a network of IPv6 has all of them.
fn origin(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
        address @ IpAddr::V4(_) => address,
    }
}

/// What a request holds in memory.
pub type Held = Place<Asker>;

/// A request, as far as it concerns us.
#[derive(Debug)]
pub struct Request {
    /// What is to be done.
    pub method: Method,
    /// With what.
    pub route: Option<Route>,
    /// Behind the `?`, as it came.
    pub query: String,
    /// Headers by which messages are described.
    pub headers: Headers,
    /// What was sent.
    pub body: Bytes,
    /// From where.
    pub peer: IpAddr,
}

/// Headers that mean something; what is no text has U+FFFD in it.
#[derive(Debug, Clone, Default)]
pub struct Headers {
    /// `Authorization`, all of them with `;` between.
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

/// An answer, and for whom it was.
#[derive(Debug)]
pub struct Answer {
    /// What goes back.
    pub reply: Reply,
    /// The application, if there is one of that name.
    pub application: Option<String>,
    /// The key that was shown.
    pub key: Option<KeyId>,
}

/// Answers requests.
pub struct Service {
    pub(crate) session: Session,
    pub(crate) journals: Journals,
    pub(crate) shelf: Shelf,
    pub(crate) tide: Tide,
    pub(crate) options: Options,
    keyring: Keyring,
    asked: Mutex<Buckets<Asker>>,
    room: Room<Asker>,
    strangers: Semaphore,
    /// The partition that the next message without a wish goes to.
    next: AtomicU16,
}

impl Service {
    /// Follows what there is.
    pub async fn new(
        session: &Session,
        journals: Journals,
        options: Options,
    ) -> Result<Self, TreeCacheError> {
        let keyring = Keyring::follow(session, options.applications.clone()).await?;
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(Self {
            session: session.clone(),
            journals,
            shelf: Shelf::follow(session).await?,
            tide: Tide::default(),
            room: Room::new(options.room_bytes.unwrap_or(ROOM_BYTES)),
            strangers: Semaphore::new(STRANGERS_LOOKUPS_MAX),
            options,
            keyring,
            asked: Mutex::default(),
            next: AtomicU16::new(since.subsec_micros() as u16),
        })
    }

    /// Who asks, if there is something to be asked; or what they are told. Needs no body: nobody sends one for nothing.
    pub async fn admitted(&self, request: &Request) -> Result<Caller, Answer> {
        let answer = |reply| Answer { reply, application: None, key: None };
        match (&request.route, request.method.as_str()) {
            (None, _) => return Err(answer(Reply::nothing_here())),
            (Some(Route::Heartbeat), "GET" | "HEAD" | "POST") => return Err(answer(Reply::text("OK"))),
            (Some(Route::OpenApi), "GET" | "HEAD") => return Err(answer(Reply::document(OPENAPI))),
            _ => {}
        }
        let caller = self.caller(request).await.map_err(answer)?;
        let key = caller.0.first().map(|holder| holder.key.clone());
        match self.admit(&caller, request.peer) {
            Ok(()) => Ok(caller),
            Err(reply) => Err(Answer { key, ..answer(reply) }),
        }
    }

    /// Where a request of theirs has its bytes. Those who show no key share one half, however many addresses they have: the
    /// other is for keys.
    pub fn place(&self, caller: &Caller) -> Held {
        self.room.place(Asker::of(caller, Ipv4Addr::UNSPECIFIED.into()))
    }

    /// Answers somebody who was admitted.
    pub async fn answer(&self, request: &Request, caller: &Caller, held: &mut Held) -> Answer {
        let key = caller.0.first().map(|holder| holder.key.clone());
        let application = self.application(request, caller);
        let reply = match application {
            None => Reply::no_application(),
            Some(_) => self.dispatch(request, caller, held).await.unwrap_or_else(|refused| refused),
        };
        Answer { reply, application, key }
    }

    /// Whose keys were shown.
    pub(crate) async fn caller(&self, request: &Request) -> Result<Caller, Reply> {
        let mut holders = Vec::new();
        for key in access::keys(&request.headers.authorization) {
            let hash = Hash::of(key);
            let holder = match self.keyring.remembered(&hash) {
                Remembered::Known(holder) => Some(holder),
                Remembered::Wrong => None,
                // Before ZooKeeper is asked: whoever guesses must not keep it busy.
                Remembered::Nothing { live } => {
                    self.admit_guess(request.peer, live)?;
                    self.keyring.look_up(&hash).await.map_err(|error| unreachable(error.into()))?
                }
            };
            holders.push(holder.ok_or_else(Reply::wrong_key)?);
        }
        Ok(Caller(holders))
    }

    /// Whether this address may show another key that we have not heard of. While nobody tells us about keys, that is every
    /// one, and only what the operator has said counts.
    fn admit_guess(&self, peer: IpAddr, live: bool) -> Result<(), Reply> {
        match self.options.rate_limit.or(live.then_some(GUESSES_PER_SECOND)) {
            Some(rate) => self.take(&Asker::Guess(origin(peer)), rate),
            None => Ok(()),
        }
    }

    /// The application of a request, if there is one of that name.
    fn application(&self, request: &Request, caller: &Caller) -> Option<String> {
        let application = request.route.as_ref()?.application()?;
        let known =
            caller.is_of(application) || self.keyring.knows(application) || self.shelf.knows(application);
        known.then(|| application.to_owned())
    }

    /// Whether who asks may ask again already.
    fn admit(&self, caller: &Caller, peer: IpAddr) -> Result<(), Reply> {
        let own = caller.0.first().and_then(|holder| self.keyring.rate_limit(&holder.application));
        let Some(rate) = own.or(self.options.rate_limit) else { return Ok(()) };
        self.take(&Asker::of(caller, peer), rate)
    }

    fn take(&self, asker: &Asker, rate: u32) -> Result<(), Reply> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.take(asker, rate, Instant::now()).map_err(Reply::too_often)
    }

    async fn dispatch(&self, request: &Request, caller: &Caller, held: &mut Held) -> Result<Reply, Reply> {
        match (&request.route, request.method.as_str()) {
            (Some(Route::Application { application }), "POST") => {
                self.make(request, caller, application).await
            }
            (Some(Route::Application { application }), "GET") => {
                self.list(request, caller, application).await
            }
            (Some(Route::Queue { application, queue, slash }), method) => {
                let place = (application.as_str(), queue.as_str());
                match method {
                    "POST" => self.post(request, caller, place).await,
                    "GET" => self.read(request, caller, place, held).await,
                    "PUT" => self.change(request, caller, place).await,
                    "DELETE" if *slash => Err(Reply::no_id()),
                    "DELETE" => self.remove(caller, place).await,
                    _ => Err(Reply::nothing_here()),
                }
            }
            (Some(Route::Messages { application, queue, ids }), method) => {
                let place = (application.as_str(), queue.as_str());
                match method {
                    "GET" => self.pick(caller, place, ids, held).await,
                    "PUT" => self.replace(request, caller, (place, ids), held).await,
                    "DELETE" => self.delete(caller, place, ids).await,
                    _ => Err(Reply::nothing_here()),
                }
            }
            _ => Err(Reply::nothing_here()),
        }
    }

    /// The queue of a path, if it is there and this may be done to it.
    pub(crate) async fn queue(
        &self,
        caller: &Caller,
        wish: Wish,
        (application, name): (&str, &str),
    ) -> Result<(QueueName, Settings), Reply> {
        let queue = QueueName::new(application, name).map_err(|error| match error {
            QueueNameError::Long(_) | QueueNameError::Bytes(_) => Reply::long_name(),
            _ => Reply::no_queue(),
        })?;
        let found = match self.shelf.known(&queue) {
            Some(settings) => Some(settings),
            None => {
                let _turn = match caller.0.is_empty() {
                    true => Some(self.strangers.acquire().await),
                    false => None,
                };
                self.shelf.fresh(&queue).await.map_err(|error| unreachable(error.into()))?
            }
        };
        let settings = found.ok_or_else(Reply::no_queue)?;
        if caller.may(wish, application, Some(&settings)) {
            return Ok((queue, settings));
        }
        // Somebody may have allowed it a moment ago, on another server.
        let settings = self.refreshed(&queue).await?;
        if caller.may(wish, application, Some(&settings)) {
            Ok((queue, settings))
        } else {
            Err(Reply::denied())
        }
    }

    /// What a queue is at this moment.
    pub(crate) async fn refreshed(&self, queue: &QueueName) -> Result<Settings, Reply> {
        let found = self.shelf.fresh(queue).await.map_err(|error| unreachable(error.into()))?;
        found.ok_or_else(Reply::no_queue)
    }

    /// A partition for a message that does not care: one after the other.
    pub(crate) fn any_partition(&self, partitions: u16) -> u16 {
        self.next.fetch_add(1, Ordering::Relaxed) % partitions.max(1) + 1
    }
}

/// What a client is told when the journal did not do it.
pub(crate) fn failed(error: JournalError) -> Reply {
    match &error {
        JournalError::NoTopic { .. } => Reply::no_queue(),
        // The queue was made anew with fewer of them, a moment ago and on another server.
        JournalError::NoPartition { partition, partitions } => {
            let why = format!("{} is greater than maximum value {partitions}", partition.number);
            Reply::error(400, "partition", &why)
        }
        JournalError::TooLarge { .. } => Reply::too_large(&error.to_string()),
        JournalError::Ahead { .. } => Reply::error(400, "InvalidMessageID", &error.to_string()),
        JournalError::Invalid(reason) => Reply::error(400, "InvalidParameter", reason),
        _ => unreachable(error.into()),
    }
}

/// What a client is told when something is down that he cannot see.
pub(crate) fn unreachable(error: QueueError) -> Reply {
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
    fn who_has_a_network_is_one() {
        let of = |text: &str| Asker::of(&Caller::default(), text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
