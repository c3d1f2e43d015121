//! A remote journal: the same trait, over a connection that reconnects when it breaks.

mod greeting;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufWriter};
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot};
use tokio::time::timeout;

pub use self::greeting::identify;

use self::greeting::Greeted;
use crate::Fence;
use crate::codec::{Malformed, Sink as _, Source};
use crate::commit::{Commit, Committed, Opened};
use crate::core::{message, record};
use crate::error::JournalError;
use crate::id::{MessageId, Ticks};
use crate::identity::{Identity, RandomId};
use crate::journal::{Journal, Reply};
use crate::protocol::frame::{self, Frame, Frames};
use crate::protocol::handshake::Binding;
use crate::protocol::{DONE, Kind, values};
use crate::read::{Batch, Read};
use crate::stats::{PartitionStats, Usage};
use crate::token::Token;
use crate::topic::{Consumer, Created, PartitionId, Topic, TopicConfig, TopicView};

/// Time-out of connecting and the handshake.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Requests that may wait to be written; beyond that, callers wait.
const OUTGOING_MAX: usize = 1024;

/// The address of a journal, and the credentials for it.
#[derive(Debug, Clone)]
pub struct Address {
    /// `HOST:PORT`.
    pub address: String,
    /// Candidate tokens, perhaps of several journals: the server's proof shows which one is its own.
    pub tokens: Vec<Token>,
    /// If set, connections use TLS and trust certificates that this authority (PEM) signed.
    pub authority: Option<PathBuf>,
    /// The expected journal; `None`: any journal that knows the token.
    pub identity: Option<Identity>,
}

impl Address {
    /// Any journal at this address that knows the token, without TLS.
    pub fn plain(address: impl Into<String>, token: Token) -> Self {
        Self { address: address.into(), tokens: vec![token], authority: None, identity: None }
    }
}

/// A remote journal. Clones share one connection.
#[derive(Clone)]
pub struct Client {
    address: Arc<Address>,
    connection: Arc<AsyncMutex<Option<Arc<Connection>>>>,
}

/// The waiters by request number; `None` when the connection is over.
type Waiters = Mutex<Option<HashMap<u64, oneshot::Sender<Frame>>>>;

struct Connection {
    outgoing: mpsc::Sender<Vec<u8>>,
    waiters: Arc<Waiters>,
    next: AtomicU64,
    /// The identity that the server has proven.
    identity: Identity,
}

impl Client {
    /// A client for this address. It connects when it is first used.
    pub fn new(address: Address) -> Self {
        Self { address: Arc::new(address), connection: Arc::default() }
    }

    async fn connection(&self) -> Result<Arc<Connection>, JournalError> {
        let mut held = self.connection.lock().await;
        if let Some(connection) = held.as_ref().filter(|connection| connection.is_open()) {
            return Ok(connection.clone());
        }
        let fresh = match timeout(CONNECT_TIME, self.connect()).await {
            Ok(connected) => connected?,
            Err(_) => return Err(self.unreachable("it took too long")),
        };
        *held = Some(fresh.clone());
        Ok(fresh)
    }

    fn unreachable(&self, why: impl ToString) -> JournalError {
        self.address.unreachable(why)
    }

    async fn connect(&self) -> Result<Arc<Connection>, JournalError> {
        let address = &self.address.address;
        let stream = greeting::connect(address).await?;
        let Some(authority) = &self.address.authority else {
            return Ok(serve(self.address.greet(stream, Binding::default()).await?));
        };
        let connector = crate::tls::connector(authority).map_err(|error| self.unreachable(error))?;
        let (stream, binding) = greeting::encrypt(address, connector, stream).await?;
        Ok(serve(self.address.greet(stream, binding).await?))
    }

    /// Sends a request, and waits for the reply.
    async fn ask(&self, kind: Kind, put: impl FnOnce(&mut Vec<u8>)) -> Result<Source, JournalError> {
        let connection = self.connection().await?;
        let number = connection.next.fetch_add(1, Ordering::Relaxed);
        let (tell, told) = oneshot::channel();
        if !connection.expect(number, tell) {
            return Err(self.unreachable("the connection has just ended"));
        }
        let mut request = frame::begin(number, kind as u8);
        put(&mut request);
        frame::finish(&mut request, 0);
        // From here on the request may have been sent.
        let lost = || match kind {
            Kind::Read
            | Kind::Stats
            | Kind::Usage
            | Kind::Topics
            | Kind::Consumer
            | Kind::Hello
            | Kind::Proof => self.unreachable("the connection broke"),
            Kind::Commit | Kind::Open | Kind::Trim | Kind::Create | Kind::Alter | Kind::Delete => {
                JournalError::Unknown("the connection broke before the answer came".to_owned())
            }
        };
        connection.outgoing.send(request).await.map_err(|_| lost())?;
        outcome(told.await.map_err(|_| lost())?)
    }
}

/// Starts the loops that send and receive on a connection, until it ends.
fn serve<S: AsyncRead + AsyncWrite + Send + 'static>(greeted: Greeted<S>) -> Arc<Connection> {
    let (outgoing, queue) = mpsc::channel(OUTGOING_MAX);
    let waiters = Arc::new(Mutex::new(Some(HashMap::new())));
    tokio::spawn(write(greeted.writing, queue, waiters.clone()));
    tokio::spawn(listen(greeted.frames, waiters.clone()));
    Arc::new(Connection { outgoing, waiters, next: AtomicU64::new(1), identity: greeted.identity })
}

impl Connection {
    fn is_open(&self) -> bool {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Registers a waiter. `false`: the connection is over.
    fn expect(&self, number: u64, tell: oneshot::Sender<Frame>) -> bool {
        match self.waiters.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(waiters) => waiters.insert(number, tell).is_none(),
            None => false,
        }
    }
}

fn outcome(reply: Frame) -> Result<Source, JournalError> {
    if reply.kind == DONE {
        return Ok(Source::new(reply.body));
    }
    Err(values::json(&reply.body).unwrap_or_else(|error| JournalError::Protocol(error.to_string())))
}

fn broken(error: Malformed) -> JournalError {
    JournalError::Protocol(error.to_string())
}

async fn write<W: AsyncWrite + Unpin>(stream: W, mut queue: mpsc::Receiver<Vec<u8>>, waiters: Arc<Waiters>) {
    let mut stream = BufWriter::with_capacity(64 << 10, stream);
    while let Some(first) = queue.recv().await {
        let mut next = Some(first);
        let written: std::io::Result<()> = async {
            while let Some(request) = next.take() {
                stream.write_all(&request).await?;
                next = queue.try_recv().ok();
            }
            stream.flush().await
        }
        .await;
        if written.is_err() {
            break;
        }
    }
    // Otherwise the server would keep a connection that nobody uses.
    let _ = stream.shutdown().await;
    end(&waiters);
}

async fn listen<R: AsyncRead + Unpin>(mut frames: Frames<R>, waiters: Arc<Waiters>) {
    while let Ok(Some(reply)) = frames.next().await {
        let mut held = waiters.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(tell) = held.as_mut().and_then(|waiters| waiters.remove(&reply.number)) else { continue };
        drop(held);
        // The caller may have gone.
        let _ = tell.send(reply);
    }
    end(&waiters);
}

/// Ends the connection: dropping the senders notifies the waiters.
fn end(waiters: &Waiters) {
    waiters.lock().unwrap_or_else(PoisonError::into_inner).take();
}

impl Journal for Client {
    fn folder(&self) -> Reply<'_, RandomId> {
        Box::pin(async move { Ok(self.connection().await?.identity.folder) })
    }

    fn open<'a>(
        &'a self,
        partition: &'a PartitionId,
        consumer: &'a Consumer,
        fence: Fence,
    ) -> Reply<'a, Opened> {
        Box::pin(async move {
            let put = |out: &mut Vec<u8>| {
                values::put_partition(partition, out);
                values::put_consumer(consumer, out);
                values::put_fence(fence, out);
            };
            values::opened(&mut self.ask(Kind::Open, put).await?).map_err(broken)
        })
    }

    fn consumer<'a>(
        &'a self,
        partition: &'a PartitionId,
        consumer: &'a Consumer,
    ) -> Reply<'a, Option<Opened>> {
        Box::pin(async move {
            let put = |out: &mut Vec<u8>| {
                values::put_partition(partition, out);
                values::put_consumer(consumer, out);
            };
            let mut source = self.ask(Kind::Consumer, put).await?;
            match source.u8().map_err(broken)? {
                0 => Ok(None),
                _ => values::opened(&mut source).map(Some).map_err(broken),
            }
        })
    }

    fn commit(&self, commit: Commit) -> Reply<'_, Committed> {
        Box::pin(async move {
            let mut source = self.ask(Kind::Commit, |out| values::put_commit(&commit, out)).await?;
            values::committed(&mut source).map_err(broken)
        })
    }

    fn read(&self, read: Read) -> Reply<'_, Batch> {
        Box::pin(async move {
            let mut source = self.ask(Kind::Read, |out| values::put_read(&read, out)).await?;
            let head = |source: &mut Source| Ok((values::id(source)?, values::id(source)?, source.u32()?));
            let (gap, last, count) = head(&mut source).map_err(broken)?;
            let ids = read.delayed.map(|_| values::delayed_ids(&mut source, count as usize));
            let ids = ids.transpose().map_err(broken)?;
            let bytes: Bytes = source.rest();
            let mut messages = Vec::with_capacity((count as usize).min(bytes.len() / message::HEAD_BYTES));
            message::decode_all(bytes, &mut messages).map_err(broken)?;
            let gap = Some(gap).filter(|gap| *gap != MessageId::ZERO);
            let batch = Batch { messages, gap, last, delayed: Vec::new() };
            Ok(match ids {
                Some(ids) => batch.waiting(ids),
                None => batch,
            })
        })
    }

    fn at_time<'a>(&'a self, partition: &'a PartitionId, time: Ticks) -> Reply<'a, Option<MessageId>> {
        Box::pin(async move {
            let read = Read { bytes_max: 1, ..Read::from(partition.clone(), MessageId(time)).limit(1) };
            Ok(self.read(read).await?.messages.first().map(|message| message.id))
        })
    }

    fn trim<'a>(&'a self, partition: &'a PartitionId, through: MessageId) -> Reply<'a, ()> {
        Box::pin(async move {
            let put = |out: &mut Vec<u8>| {
                values::put_partition(partition, out);
                out.put_u64(through.0.0);
            };
            self.ask(Kind::Trim, put).await.map(drop)
        })
    }

    fn stats<'a>(&'a self, topic: &'a Topic) -> Reply<'a, Vec<PartitionStats>> {
        Box::pin(async move {
            let put = |out: &mut Vec<u8>| out.put_short(topic.as_str().as_bytes());
            values::json(&self.ask(Kind::Stats, put).await?.rest()).map_err(broken)
        })
    }

    fn usage(&self) -> Reply<'_, Usage> {
        Box::pin(async move { values::json(&self.ask(Kind::Usage, |_| {}).await?.rest()).map_err(broken) })
    }

    fn create_topic<'a>(&'a self, topic: &'a Topic, config: TopicConfig) -> Reply<'a, Created> {
        Box::pin(async move {
            let mut source = self.ask(Kind::Create, |out| record::put_topic(topic, &config, out)).await?;
            values::created(&mut source).map_err(broken)
        })
    }

    fn topics(&self) -> Reply<'_, Vec<TopicView>> {
        Box::pin(async move { values::json(&self.ask(Kind::Topics, |_| {}).await?.rest()).map_err(broken) })
    }

    fn alter_topic<'a>(&'a self, topic: &'a Topic, config: TopicConfig) -> Reply<'a, ()> {
        Box::pin(async move {
            self.ask(Kind::Alter, |out| record::put_topic(topic, &config, out)).await.map(drop)
        })
    }

    fn delete_topic<'a>(&'a self, topic: &'a Topic) -> Reply<'a, bool> {
        Box::pin(async move {
            let mut source = self.ask(Kind::Delete, |out| out.put_short(topic.as_str().as_bytes())).await?;
            Ok(source.u8().map_err(broken)? != 0)
        })
    }
}
