//! One client connection: requests in order, replies as they come.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use tracing::{debug, warn};

use super::parsed::{ParsedRequest, QUERY_BYTES, Query, SHORT_BYTES, reply_bytes};
use super::writer::Writer;
use crate::codec::{Sink as _, Source};
use crate::core::decide::{Answer, Proposal};
use crate::error::JournalError;
use crate::id::MessageId;
use crate::journal::Journal as _;
use crate::protocol::frame::{self, Frame, FrameError, Frames};
use crate::protocol::handshake::{self, Binding, Challenge, Hello, Side, Transcript};
use crate::protocol::{
    DONE, FRAME_BYTES_EXTRA, HANDSHAKE_BYTES_MAX, Kind, PROTOCOL_VERSION, REFUSED, values,
};
use crate::read::Read;
use crate::store::Store;
use crate::store::reader::Room;
use crate::token::Token;

/// Time-out of the handshake.
pub(crate) const HELLO_TIME: Duration = Duration::from_secs(10);
/// A client that accepts no bytes for this long is disconnected.
const WRITE_TIME: Duration = Duration::from_secs(60);
/// A client that stalls within a frame for this long, or takes this much longer than the slowest link, is disconnected.
const FRAME_TIME: Duration = Duration::from_secs(60);
/// Requests of one client in flight, besides long polls.
const REQUESTS_MAX: usize = 16_384;
/// Long polls of one client in flight, counted separately so that they do not block other requests. There may be one
/// for each partition, of which queues have up to 40,000; each takes about 1.5 KB.
const POLLS_MAX: usize = 65_536;
/// Bytes of replies in flight to one client: for reads, and as many for changes. Beyond that, reads wait before they
/// load anything, and changes before they are decided.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// What connections share.
pub(crate) struct Service {
    pub(crate) store: Store,
    pub(crate) token: Token,
}

/// A reply to be written.
struct Out {
    head: Vec<u8>,
    parts: Vec<Bytes>,
    /// Released when the reply is written.
    _room: Option<OwnedSemaphorePermit>,
    _place: Option<OwnedSemaphorePermit>,
}

/// The queue of replies of a connection. Not bounded itself: the number of requests and the bytes of replies are.
type Replies = mpsc::UnboundedSender<Out>;

/// Limits on what one client has in flight.
struct Bounds {
    requests: Arc<Semaphore>,
    polls: Arc<Semaphore>,
    /// Room for replies to changes and to queries. Separate, so that a change does not wait for a read.
    changes: Arc<Semaphore>,
    queries: Arc<Semaphore>,
}

impl Bounds {
    fn new() -> Self {
        let of = |count| Arc::new(Semaphore::new(count));
        Self {
            requests: of(REQUESTS_MAX),
            polls: of(POLLS_MAX),
            changes: of(REPLY_BYTES_MAX),
            queries: of(REPLY_BYTES_MAX),
        }
    }
}

async fn take(of: &Arc<Semaphore>, count: usize) -> OwnedSemaphorePermit {
    let count = count.min(REPLY_BYTES_MAX) as u32;
    of.clone().acquire_many_owned(count).await.expect("nobody closes it")
}

/// One request, with what it needs to answer.
struct Request {
    number: u64,
    replies: Replies,
    place: OwnedSemaphorePermit,
}

impl Request {
    /// Sends the reply, and releases the room that it does not need.
    fn answer<T>(
        self,
        mut room: OwnedSemaphorePermit,
        outcome: Result<T, JournalError>,
        put: impl FnOnce(&T, &mut Vec<u8>),
    ) {
        let mut head = match &outcome {
            Ok(_) => frame::begin(self.number, DONE),
            Err(_) => frame::begin(self.number, REFUSED),
        };
        match outcome {
            Ok(value) => put(&value, &mut head),
            Err(error) => values::put_json(&error, &mut head),
        }
        frame::finish(&mut head, 0);
        drop(room.split(room.num_permits().saturating_sub(head.len())));
        let out = Out { head, parts: Vec::new(), _room: Some(room), _place: Some(self.place) };
        // The client may have gone.
        let _ = self.replies.send(out);
    }
}

impl Service {
    /// Serves one client until it disconnects or breaks the protocol.
    pub(crate) async fn talk<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
        self: Arc<Self>,
        stream: S,
        peer: SocketAddr,
        binding: Binding,
    ) {
        let (reading, writing) = tokio::io::split(stream);
        let mut frames = Frames::new(reading, HANDSHAKE_BYTES_MAX);
        let (replies, outgoing) = mpsc::unbounded_channel();
        let mut writer = tokio::spawn(write(writing, outgoing));
        let broken = tokio::select! {
            broken = self.listen(&mut frames, &replies, binding) => broken,
            // The client accepts no more bytes.
            _ = &mut writer => Ok(()),
        };
        if let Err(why) = broken {
            self.store.metrics().protocol_errors.inc();
            debug!(%peer, why, "connection closed");
        }
        drop(replies);
        // Replies to decided changes are still sent; long polls of a client that has gone are dropped.
        if !writer.is_finished() {
            let _ = timeout(HELLO_TIME, &mut writer).await;
            writer.abort();
        }
    }

    async fn listen<S: AsyncRead + Unpin>(
        self: &Arc<Self>,
        frames: &mut Frames<S>,
        replies: &Replies,
        binding: Binding,
    ) -> Result<(), String> {
        let greeted = timeout(HELLO_TIME, self.greet(frames, replies, binding)).await;
        if !greeted.map_err(|_| "it has not said who it is in time".to_owned())?? {
            return Ok(());
        }
        frames.max = self.store.message_bytes_max().saturating_add(FRAME_BYTES_EXTRA);
        frames.patience = Some(FRAME_TIME);
        let bounds = Arc::new(Bounds::new());
        let mut queries = tokio::task::JoinSet::new();
        loop {
            let Some(Frame { number, kind, body }) = frames.next().await.map_err(close_reason)? else {
                return Ok(());
            };
            let kind = Kind::from_byte(kind).ok_or_else(|| format!("a request of kind {kind}"))?;
            let mut source = Source::new(body);
            let parsed = ParsedRequest::take(kind, &mut source).map_err(|error| error.to_string())?;
            let places = if parsed.waits() { &bounds.polls } else { &bounds.requests };
            let request = Request { number, replies: replies.clone(), place: take(places, 1).await };
            match parsed {
                // In the order in which they came.
                ParsedRequest::Change(proposal) => self.change(proposal, request, &bounds).await,
                ParsedRequest::Refused(error) => {
                    let room = take(&bounds.changes, SHORT_BYTES).await;
                    request.answer(room, Err::<(), _>(*error), |(), _| {});
                }
                ParsedRequest::Read(read) => {
                    let (service, bounds) = (self.clone(), bounds.clone());
                    queries.spawn(async move { service.read(read, request, &bounds.queries).await });
                }
                ParsedRequest::Query(query) => {
                    let (service, bounds) = (self.clone(), bounds.clone());
                    queries.spawn(async move { service.answer_query(query, request, &bounds.queries).await });
                }
            }
            while queries.try_join_next().is_some() {}
        }
    }

    /// Runs the handshake. `false`: the client was refused.
    async fn greet<S: AsyncRead + Unpin>(
        &self,
        frames: &mut Frames<S>,
        replies: &Replies,
        binding: Binding,
    ) -> Result<bool, String> {
        let Some(Frame { number, kind, body }) = frames.next().await.map_err(close_reason)? else {
            return Ok(false);
        };
        let hello = handshake::hello(&mut Source::new(body)).map_err(|error| error.to_string())?;
        if kind != Kind::Hello as u8 {
            return Err("it does not begin with a hello".to_owned());
        }
        let client = match hello {
            Hello::Nonce(nonce) => nonce,
            Hello::Version(version) => {
                let versions = format!("the server speaks version {PROTOCOL_VERSION}, the client {version}");
                refuse(replies, number, &JournalError::Protocol(versions));
                return Ok(false);
            }
        };
        let server = handshake::nonce().map_err(|error| error.to_string())?;
        let transcript = Transcript { client, server, identity: self.store.identity(), binding };
        let challenge = Challenge {
            version: PROTOCOL_VERSION,
            identity: transcript.identity,
            nonce: server,
            proof: transcript.proof(Side::Server, &self.token),
        };
        accept(replies, number, |out| challenge.put(out));
        let Some(Frame { number, kind, body }) = frames.next().await.map_err(close_reason)? else {
            return Ok(false);
        };
        if kind != Kind::Proof as u8 {
            return Err("it asks for something before it has proven who it is".to_owned());
        }
        if !transcript.is_proven(Side::Client, &self.token, &body) {
            refuse(replies, number, &JournalError::Denied("the token is not right".to_owned()));
            return Ok(false);
        }
        accept(replies, number, |_| {});
        Ok(true)
    }

    /// Waits for room in the store's queue: back-pressure on the client.
    async fn change(&self, proposal: Proposal, request: Request, bounds: &Bounds) {
        let room = take(&bounds.changes, reply_bytes(&proposal)).await;
        let tell = move |answer: Result<Answer, JournalError>| {
            request.answer(room, answer, |answer, out| match answer {
                Answer::Committed(committed) => values::put_committed(committed, out),
                Answer::Opened(opened) => values::put_opened(opened, out),
                Answer::Created(created) => values::put_created(created, out),
                Answer::Deleted(there) => out.put_u8(u8::from(*there)),
                Answer::Done | Answer::Matured(_) | Answer::Forgotten(_) => {}
            });
        };
        self.store.submit(proposal, Box::new(tell)).await;
    }

    /// Answers a request that changes nothing.
    async fn answer_query(&self, query: Query, request: Request, all: &Arc<Semaphore>) {
        let store = &self.store;
        let room = take(all, QUERY_BYTES).await;
        match query {
            Query::Consumer(partition, consumer) => {
                let found = store.consumer(&partition, &consumer).await;
                request.answer(room, found, |found, out| match found {
                    None => out.put_u8(0),
                    Some(opened) => {
                        out.put_u8(1);
                        values::put_opened(opened, out);
                    }
                });
            }
            Query::Stats(topic) => request.answer(room, store.stats(&topic).await, values::put_json),
            Query::Usage => request.answer(room, store.usage().await, values::put_json),
            Query::Topics => request.answer(room, store.topics().await, values::put_json),
        }
    }

    async fn read(&self, mut read: Read, request: Request, all: &Arc<Semaphore>) {
        let most = (REPLY_BYTES_MAX as u32).min(read.bytes_max.max(1));
        read.bytes_max = most;
        // It takes room only while it reads; while it waits for messages it has none.
        let room = Room { all, bytes: most };
        match self.store.read_encoded(&read, Some(room)).await {
            Err(error) => request.answer(take(all, SHORT_BYTES).await, Err::<(), _>(error), |(), _| {}),
            Ok((found, mut room)) => {
                let mut head = frame::begin(request.number, DONE);
                head.put_u64(found.gap.map_or(0, |MessageId(ticks)| ticks.0));
                head.put_u64(found.last.0.0);
                head.put_u32(found.count as u32);
                found.delayed.iter().flatten().for_each(|id| values::put_delayed(*id, &mut head));
                frame::finish(&mut head, found.bytes as usize);
                let surplus = (most as usize).saturating_sub(found.bytes as usize);
                drop(room.as_mut().and_then(|room| room.split(surplus)));
                let out = Out { head, parts: found.parts, _room: room, _place: Some(request.place) };
                let _ = request.replies.send(out);
            }
        }
    }
}

/// A reply of the handshake.
fn accept(replies: &Replies, number: u64, put: impl FnOnce(&mut Vec<u8>)) {
    let mut head = frame::begin(number, DONE);
    put(&mut head);
    send(replies, head);
}

fn refuse(replies: &Replies, number: u64, error: &JournalError) {
    let mut head = frame::begin(number, REFUSED);
    values::put_json(error, &mut head);
    send(replies, head);
}

fn send(replies: &Replies, mut head: Vec<u8>) {
    frame::finish(&mut head, 0);
    // The client may have gone.
    let _ = replies.send(Out { head, parts: Vec::new(), _room: None, _place: None });
}

fn close_reason(error: FrameError) -> String {
    error.to_string()
}

/// Writes replies, batching those that are ready.
async fn write<W: AsyncWrite + Unpin>(stream: W, mut outgoing: mpsc::UnboundedReceiver<Out>) {
    let mut writer = Writer::new(stream, WRITE_TIME);
    while let Some(first) = outgoing.recv().await {
        match write_all(&mut writer, first, &mut outgoing).await {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return warn!("a client accepts no more bytes; closing its connection");
            }
            Err(error) => return debug!(%error, "client disconnected"),
        }
    }
}

/// Writes a reply, and all others that are ready.
async fn write_all<W: AsyncWrite + Unpin>(
    writer: &mut Writer<W>,
    first: Out,
    outgoing: &mut mpsc::UnboundedReceiver<Out>,
) -> io::Result<()> {
    let mut next = Some(first);
    while let Some(out) = next {
        writer.put(&out.head).await?;
        for part in &out.parts {
            writer.put(part).await?;
        }
        drop(out);
        next = outgoing.try_recv().ok();
    }
    writer.flush().await
}
