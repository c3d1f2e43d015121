//! One ZooKeeper session: a term. When it expires, a [`Session`](super::Session) goes on with the next one; whatever was
//! held in a term is gone with it.

use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, watch};
use tokio::time::timeout_at;
use tracing::warn;
use zookeeper_client::{Acls, Client, Error, SessionState};

use super::flight::{Background, Flight, Undo};
use super::watch::{Budget, Share};
use crate::backoff;
use crate::error::CallError;
use crate::fence::Fence;

/// How a term is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The server answers.
    Connected,
    /// The connection is lost; the session may or may not survive.
    Suspended,
    /// The session is over. What it held is gone or will be.
    Lost,
}

/// One ZooKeeper session. Cheap to clone.
#[derive(Clone)]
pub struct Term {
    inner: Arc<Inner>,
    /// How long a call may take; `None`: as long as its caller waits.
    call_timeout: Option<Duration>,
}

pub(super) struct Inner {
    pub number: u64,
    pub session_id: i64,
    pub timeout: Duration,
    /// `None` once the session was closed.
    pub client: RwLock<Option<Arc<Client>>>,
    pub state: watch::Receiver<State>,
    pub valid_until: watch::Receiver<Instant>,
    pub trusted_until: watch::Receiver<Instant>,
    pub permits: Arc<Semaphore>,
    pub watching: Budget,
    pub background: Arc<Background>,
    pub acls: Acls<'static>,
    pub generation: u64,
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

    /// The same term, whose calls wait as long as their caller does: for who resolves unknown outcomes, because a call
    /// that was given up on may still happen.
    pub fn patient(&self) -> Self {
        Self { inner: self.inner.clone(), call_timeout: None }
    }

    /// The how many-th of its session.
    pub fn number(&self) -> u64 {
        self.inner.number
    }

    /// The number of the ZooKeeper session, as `ephemeral_owner` shows it.
    pub fn session_id(&self) -> i64 {
        self.inner.session_id
    }

    /// The fence of whatever was created by this transaction. The generation in it is that of the namespace when the term
    /// began: it changes only when the namespace is replaced, and whoever works in it must have ended by then.
    pub fn fence(&self, zxid: i64) -> Fence {
        Fence { generation: self.inner.generation, zxid }
    }

    /// Room for another watch.
    pub(super) fn watching(&self, path: &str) -> Result<Share, CallError> {
        self.inner.watching.take(path)
    }

    /// The time-out that the server granted.
    pub fn timeout(&self) -> Duration {
        self.inner.timeout
    }

    /// How it is doing, as a level that can be awaited.
    pub fn state(&self) -> watch::Receiver<State> {
        self.inner.state.clone()
    }

    /// Until when nobody else can have been given what this term holds. It moves forward as long as heartbeats are
    /// answered.
    pub fn valid_until(&self) -> watch::Receiver<Instant> {
        self.inner.valid_until.clone()
    }

    /// Waits until the lease clock has run out, or the session is known to be over. Work under it must have ended then.
    pub async fn lapsed(&self) {
        let mut valid_until = self.valid_until();
        let lost = self.lost();
        tokio::pin!(lost);
        loop {
            let until = *valid_until.borrow_and_update();
            if until <= Instant::now() {
                return;
            }
            tokio::select! {
                () = &mut lost => return,
                () = tokio::time::sleep_until(until.into()) => {}
                moved = valid_until.changed() => if moved.is_err() { return },
            }
        }
    }

    /// Waits until the lease clock can be relied upon. After an outage that the session has survived it has run out, or
    /// nearly so, and only the second heartbeat sets it again: whoever would begin to hold something then would have to
    /// stop at once.
    pub async fn trusted(&self) -> Result<(), CallError> {
        let is_lost = *self.inner.state.borrow() == State::Lost;
        if !is_lost && *self.inner.trusted_until.borrow() > Instant::now() {
            return Ok(());
        }
        let mut trusted_until = self.inner.trusted_until.clone();
        tokio::select! {
            until = trusted_until.wait_for(|until| *until > Instant::now()) => match until {
                Ok(_) => Ok(()),
                Err(_) => Err(CallError::Expired),
            },
            () = self.lost() => Err(CallError::Expired),
        }
    }

    /// Waits until the session is known to be over.
    pub async fn lost(&self) {
        let mut state = self.state();
        // An error means that the supervisor is gone, and the session with it.
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

    pub(super) fn take_client(&self) -> Option<Arc<Client>> {
        self.inner.client.write().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client().is_err()
    }

    fn client(&self) -> Result<Arc<Client>, CallError> {
        self.inner.client.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or(CallError::Closed)
    }

    /// The client, as soon as it is connected: it would keep what it is given while it is not, and carry it out later.
    async fn ready(&self) -> Result<Arc<Client>, CallError> {
        let client = self.client()?;
        if matches!(client.state(), SessionState::SyncConnected | SessionState::ConnectedReadOnly) {
            return Ok(client);
        }
        drop(client);
        let mut state = self.state();
        loop {
            // Looked at before the client's own state, so that no change between the two is missed.
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

    /// A call that changes nothing: given up on, it is forgotten; and it may be made as often as it takes.
    pub(super) async fn read<T, F>(
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
                    warn!(path, lost, "the reply to a request is lost again and again; trying on");
                    tokio::time::sleep(pause).await;
                }
                let _permit = self.inner.permits.acquire().await.expect("the permits are never closed");
                let client = self.ready().await?;
                match call(client, path.to_owned()).await {
                    // What cannot be read now cannot be read the next time either.
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

    /// A call that changes something: it is made once, and kept until its outcome is known.
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

    /// Something to do later, on behalf of the session, with nobody waiting: releasing what a dropped guard held.
    pub fn in_background(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.inner.background.run(task);
    }

    pub(crate) fn acls(&self) -> Acls<'static> {
        self.inner.acls
    }
}
