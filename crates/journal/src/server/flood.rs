//! Tests: limits on what one client has in flight.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tempfile::TempDir;
use tokio::io::{AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf, duplex, split};

use super::connection::Service;
use crate::Fence;
use crate::codec::Sink as _;
use crate::commit::{Commit, NewMessage, StateWrite};
use crate::id::MessageId;
use crate::journal::Journal as _;
use crate::protocol::frame::{self, Frames};
use crate::protocol::handshake::{self, Binding, Challenge, Side, Transcript};
use crate::protocol::{DONE, Kind, values};
use crate::read::Read;
use crate::store::{Config, Metrics, Store};
use crate::token::Token;
use crate::topic::{Consumer, PartitionId, Topic, TopicConfig};

/// A raw connection that the test drives by hand.
struct Raw {
    frames: Frames<ReadHalf<DuplexStream>>,
    writing: WriteHalf<DuplexStream>,
    store: Store,
    partition_id: PartitionId,
    _folder: TempDir,
}

impl Raw {
    async fn connect() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { reserve_bytes: 0, ..Config::new(folder.path().join("journal")) };
        let store = Store::open(config, Metrics::new(&mut Registry::default())).unwrap();
        let partition_id = PartitionId::new(Topic::new("mail").unwrap(), 1);
        store.create_topic(&partition_id.topic, TopicConfig::partitions(2)).await.unwrap();
        let (ours, theirs) = duplex(64 << 10);
        let token = Token::new("secret");
        let service = Arc::new(Service { store: store.clone(), token: token.clone() });
        tokio::spawn(service.talk(theirs, "127.0.0.1:1".parse().unwrap(), Binding::default()));
        let (reading, writing) = split(ours);
        let frames = Frames::new(reading, u32::MAX);
        let mut raw = Self { frames, writing, store, partition_id, _folder: folder };
        let client = [7; 32];
        raw.ask(0, Kind::Hello, |out| handshake::put_hello(&client, out)).await;
        let challenge = Challenge::decode(raw.frames.next().await.unwrap().unwrap().body).unwrap();
        let Challenge { identity, nonce: server, .. } = challenge;
        let proof = Transcript { client, server, identity, binding: Binding::default() };
        raw.ask(0, Kind::Proof, |out| out.put(&proof.proof(Side::Client, &token))).await;
        assert_eq!(raw.reply().await, 0);
        raw
    }

    async fn ask(&mut self, number: u64, kind: Kind, put: impl FnOnce(&mut Vec<u8>)) {
        let mut request = frame::begin(number, kind as u8);
        put(&mut request);
        frame::finish(&mut request, 0);
        self.writing.write_all(&request).await.unwrap();
    }

    /// The number of the next reply.
    async fn reply(&mut self) -> u64 {
        let reply = tokio::time::timeout(Duration::from_secs(60), self.frames.next()).await;
        let reply = reply.expect("an answer").unwrap().expect("a reply");
        assert_eq!(reply.kind, DONE);
        reply.number
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_messages_keeps_no_commit_waiting() {
    const POLLS: u64 = 40_000;
    let mut raw = Raw::connect().await;
    let read = Read::after(raw.partition_id.clone(), MessageId::ZERO).wait(Duration::from_secs(300));
    for number in 1..=POLLS {
        raw.ask(number, Kind::Read, |out| values::put_read(&read, out)).await;
    }
    let elsewhere = PartitionId::new(raw.partition_id.topic.clone(), 2);
    let commit = Commit::append(elsewhere, NewMessage::new("x"));
    raw.ask(POLLS + 1, Kind::Commit, |out| values::put_commit(&commit, out)).await;
    assert_eq!(raw.reply().await, POLLS + 1);
}

/// Each reply is a megabyte, and the client reads none.
#[tokio::test(flavor = "multi_thread")]
async fn who_takes_no_replies_is_answered_only_so_much() {
    const REQUESTS: u64 = 200;
    let mut raw = Raw::connect().await;
    let (store, partition_id, worker) =
        (raw.store.clone(), raw.partition_id.clone(), Consumer::new("worker").unwrap());
    store.open(&partition_id, &worker, Fence::new(1, 0)).await.unwrap();
    let states = (0..15).map(|key| StateWrite {
        partition: partition_id.clone(),
        consumer: worker.clone(),
        fence: Fence::new(1, 0),
        key: vec![key].into(),
        value: Some(vec![0; 64 << 10].into()),
    });
    store.commit(Commit { states: states.collect(), ..Commit::default() }).await.unwrap();
    for number in 1..=REQUESTS {
        let put = |out: &mut Vec<u8>| {
            values::put_partition(&partition_id, out);
            values::put_consumer(&worker, out);
            values::put_fence(Fence::new(1, number as i64), out);
        };
        raw.ask(number, Kind::Open, put).await;
    }
    // By the time of that many commits of others it would have answered all of them.
    for _ in 0..REQUESTS {
        store.commit(Commit::append(partition_id.clone(), NewMessage::new("x"))).await.unwrap();
    }
    let fence = store.consumer(&partition_id, &worker).await.unwrap().unwrap().fence;
    assert!(fence < Fence::new(1, 100), "{fence:?}");
    for number in 1..=REQUESTS {
        assert_eq!(raw.reply().await, number);
    }
}
