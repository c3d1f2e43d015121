//! One ZooKeeper session: a term. When it expires, a [`Session`](super::Session) goes on with the next one; what was
//! held in a term is lost with it.

use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::timeout_at;
use tracing::warn;
use zookeeper_client::{Acls, Client, Error, SessionState};

use super::flight::{Background, Flight, Undo};
use super::levels::LevelReceivers;
use super::watch::{Budget, Share};
use crate::Fence;
use crate::backoff;
use crate::clock::Moment;
use crate::error::CallError;

/// The state of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The server answers.
    Connected,
    /// The connection is lost; the session may or may not survive.
    Suspended,
    /// The session is over. What it held is gone or soon will be.
    Lost,
}

/// One ZooKeeper session. Cheap to clone.
#[derive(Clone)]
pub struct Term {
    inner: Arc<Inner>,
    /// Time-out of a call; `None`: as long as its caller waits.
    call_timeout: Option<Duration>,
}

pub(super) struct Inner {
    pub number: u64,
    pub session_id: i64,
    pub client: RwLock<Link>,
    pub seen: LevelReceivers,
    pub permits: Arc<Semaphore>,
    pub watching: Budget,
    pub background: Arc<Background>,
    pub acls: Acls<'static>,
    /// Length of the path that the client puts before every path of ours.
    pub root_bytes: usize,
    pub generation: u64,
}

/// The client of a term, or why there is none.
pub(super) enum Link {
    Open(Arc<Client>),
    /// Its owner has closed the session.
    Closed,
    /// Its driver has closed it; to callers it looks expired, because the next term follows.
    GivenUp,
}

impl std::fmt::Debug for Term {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Term").field("number", &self.inner.number).finish_non_exhaustive()
    }
}

impl Term {
    pub(super) fn new(inner: Inner, call_timeout: Duration) -> Self {
        Self { inner: Arc::new(inner), call_timeout: Some(call_timeout) }
    }

    /// The same term, without a time-out on calls. Code that resolves unknown outcomes needs it, because a call that
    /// was given up on may still happen.
    pub fn patient(&self) -> Self {
        Self { inner: self.inner.clone(), call_timeout: None }
    }

    /// Counts the terms of a session.
    pub fn number(&self) -> u64 {
        self.inner.number
    }

    /// The id of the ZooKeeper session, as in `ephemeral_owner`.
    pub fn session_id(&self) -> i64 {
        self.inner.session_id
    }

    /// The fence of a znode that this transaction created. Its generation is the namespace's when the term began: that
    /// changes only when the namespace is replaced, and all work in it must have ended by then.
    pub fn fence(&self, zxid: i64) -> Fence {
        Fence { generation: self.inner.generation, zxid }
    }

    /// Reserves room for another watch.
    pub(super) fn watching(&self, path: &str) -> Result<Share, CallError> {
        self.inner.watching.take(path)
    }

    /// The session time-out that the server granted: the shortest so far, because each reconnect may grant less.
    pub fn timeout(&self) -> Duration {
        *self.inner.seen.timeout.borrow()
    }

    /// The same, as a watchable value. When it shrinks, it changes before [`valid_until`](Self::valid_until).
    pub fn timeouts(&self) -> watch::Receiver<Duration> {
        self.inner.seen.timeout.clone()
    }

    /// The state, as a watchable value.
    pub fn state(&self) -> watch::Receiver<State> {
        self.inner.seen.state.clone()
    }

    /// Until when nobody else can hold what this term holds. It moves forward while heartbeats are answered, and back
    /// if a server grants less than before.
    pub fn valid_until(&self) -> watch::Receiver<Moment> {
        self.inner.seen.valid_until.clone()
    }

    /// Whether at this moment nobody else can hold what this term holds. Check it right before you begin anything under
    /// the lease: after a suspension of the machine, [`lapsed`](Self::lapsed) may not have been polled yet.
    pub fn is_valid(&self) -> bool {
        *self.inner.seen.state.borrow() != State::Lost && !self.inner.seen.valid_until.borrow().has_passed()
    }

    /// Waits until the lease clock has run out, or the session is known to be over. Work under it must have ended then.
    pub async fn lapsed(&self) {
        let mut is_lapsed = self.inner.seen.is_lapsed.clone();
        if !self.is_valid() {
            return;
        }
        tokio::select! {
            () = self.lost() => {}
            // An error means that the driver is gone, and the session with it.
            _ = is_lapsed.wait_for(|is_lapsed| *is_lapsed) => {}
        }
    }

    /// Waits until new work may begin under the lease. After an outage that the session has survived, the lease has
    /// ended or nearly so, and only the second heartbeat renews it: whoever acquired something before that would have
    /// to stop at once.
    pub async fn trusted(&self) -> Result<(), CallError> {
        let is_lost = *self.inner.seen.state.borrow() == State::Lost;
        if !is_lost && !self.inner.seen.trusted_until.borrow().has_passed() {
            return Ok(());
        }
        let mut trusted_until = self.inner.seen.trusted_until.clone();
        tokio::select! {
            until = trusted_until.wait_for(|until| !until.has_passed()) => match until {
                Ok(_) => Ok(()),
                Err(_) => Err(CallError::Expired),
            },
            () = self.lost() => Err(CallError::Expired),
        }
    }

    /// Waits until the session is known to be over.
    pub async fn lost(&self) {
        let mut state = self.state();
        // An error means that the driver is gone, and the session with it.
        let _ = state.wait_for(|state| *state == State::Lost).await;
    }

    /// Waits until the server answers.
    pub async fn connected(&self) -> Result<(), CallError> {
        let mut state = self.state();
        match state.wait_for(|state| *state != State::Suspended).await.as_deref() {
            Ok(State::Connected) => Ok(()),
            Ok(State::Lost | State::Suspended) => Err(CallError::Expired),
            Err(_) => Err(CallError::Closed),
        }
    }

    /// Closes the session once the returned client is dropped.
    pub(super) fn take_client(&self) -> Option<Arc<Client>> {
        self.replace(Link::Closed)
    }

    /// Closes the session; to callers it looks expired.
    pub(super) fn give_up(&self) {
        drop(self.replace(Link::GivenUp));
    }

    fn replace(&self, link: Link) -> Option<Arc<Client>> {
        let mut ours = self.inner.client.write().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *ours, link) {
            Link::Open(client) => Some(client),
            Link::Closed | Link::GivenUp => None,
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.client(), Err(CallError::Closed))
    }

    fn client(&self) -> Result<Arc<Client>, CallError> {
        match &*self.inner.client.read().unwrap_or_else(PoisonError::into_inner) {
            Link::Open(client) => Ok(client.clone()),
            Link::Closed => Err(CallError::Closed),
            Link::GivenUp => Err(CallError::Expired),
        }
    }

    /// The client, once it is connected: while it is not, it would queue requests and send them later.
    async fn ready(&self) -> Result<Arc<Client>, CallError> {
        let client = self.client()?;
        if matches!(client.state(), SessionState::SyncConnected | SessionState::ConnectedReadOnly) {
            return Ok(client);
        }
        drop(client);
        let mut state = self.state();
        loop {
            // Read before the client's own state, so that no change between the two is missed.
            state.borrow_and_update();
            let client = self.client()?;
            match client.state() {
                SessionState::SyncConnected | SessionState::ConnectedReadOnly => return Ok(client),
                SessionState::Disconnected => {
                    drop(client);
                    state.changed().await.map_err(|_| CallError::Closed)?;
                }
                SessionState::AuthFailed | SessionState::Expired | SessionState::Closed => {
                    return Err(CallError::Expired);
                }
            }
        }
    }

    /// Makes a call that only reads: it is repeated after lost replies, and forgotten when its caller gives up.
    pub(super) async fn ask<T, F>(
        &self,
        path: &str,
        call: impl Fn(Arc<Client>, String) -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, zookeeper_client::Error>>,
    {
        let attempts = async {
            let mut lost = 0;
            loop {
                if let Some(pause) = backoff::pause(lost) {
                    warn!(path, lost, "reply lost repeatedly; retrying");
                    tokio::time::sleep(pause).await;
                }
                let _permit = self.inner.permits.acquire().await.expect("the permits are never closed");
                let client = self.ready().await?;
                match call(client, path.to_owned()).await {
                    // A reply that cannot be parsed would fail the same way again.
                    Err(error @ (Error::UnexpectedError(_) | Error::UnmarshalError { .. })) => {
                        return Err(CallError::Refused { path: path.to_owned(), why: error.to_string() });
                    }
                    Err(error) => match CallError::from_client(error, path) {
                        CallError::Unknown { .. } | CallError::Suspended => lost += 1,
                        error => return Err(error),
                    },
                    Ok(read) => return Ok(read),
                }
            }
        };
        match self.deadline() {
            Some(deadline) => timeout_at(deadline, attempts).await.unwrap_or(Err(CallError::Suspended)),
            None => attempts.await,
        }
    }

    /// Makes a call that writes: it is sent once, and kept until its outcome is known.
    pub(crate) async fn write<T, F>(
        &self,
        path: &str,
        undo: Option<Undo<T>>,
        call: impl FnOnce(Arc<Client>, String) -> F,
    ) -> Result<T, CallError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, zookeeper_client::Error>> + Send + 'static,
    {
        let deadline = self.deadline();
        let before = async {
            let permit =
                self.inner.permits.clone().acquire_owned().await.expect("the permits are never closed");
            Ok((permit, self.ready().await?))
        };
        let (permit, client) = match deadline {
            Some(deadline) => timeout_at(deadline, before).await.unwrap_or(Err(CallError::Suspended))?,
            None => before.await?,
        };
        let flight =
            Flight::new(path, call(client, path.to_owned()), permit, self.inner.background.clone(), undo);
        let reply = match deadline {
            Some(deadline) => match timeout_at(deadline, flight).await {
                Ok(reply) => reply,
                Err(_) => return Err(CallError::Unknown { path: path.to_owned() }),
            },
            None => flight.await,
        };
        reply.map_err(|error| CallError::from_client(error, path))
    }

    fn deadline(&self) -> Option<tokio::time::Instant> {
        self.call_timeout.map(|timeout| tokio::time::Instant::now() + timeout)
    }

    /// Runs a task in the background, on behalf of the session: to release what a dropped guard held, say.
    pub fn in_background(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.inner.background.run(task);
    }

    pub(crate) fn acls(&self) -> Acls<'static> {
        self.inner.acls
    }

    pub(crate) fn root_bytes(&self) -> usize {
        self.inner.root_bytes
    }
}
