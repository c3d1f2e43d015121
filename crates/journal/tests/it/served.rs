//! The server and its client over sockets.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use bytes::Bytes;
use menagerie_journal::client::Address;
use menagerie_journal::commit::COMMIT_PARTS_MAX;
use menagerie_journal::server::{Listen, TlsFiles};
use menagerie_journal::token::Token;
use menagerie_journal::{
    Append, Appended, Client, Commit, Consumer, Created, DelayedId, Edit, Edited, Fence, Journal,
    JournalError, MessageId, Move, NewMessage, Read, Remedy, Server, StateWrite, Store, TopicConfig,
};
use menagerie_testkit::{allow_files, eventually};

use crate::rig::{Rig, partition, topic};

pub struct Served {
    rig: Rig,
    pub store: Store,
    pub server: Server,
}

impl Served {
    pub fn new() -> Self {
        Self::with(None)
    }

    pub fn with(tls: Option<TlsFiles>) -> Self {
        Self::start(Rig::small(), tls)
    }

    /// The same folder again, after the previous server has ended.
    pub fn on(before: Self) -> Self {
        let Self { rig, store, server } = before;
        server.stop();
        store.close().unwrap();
        drop(store);
        Self::start(rig, None)
    }

    fn start(rig: Rig, tls: Option<TlsFiles>) -> Self {
        let store = rig.open();
        let listen = Listen { address: "127.0.0.1:0".parse().unwrap(), tls, connections_max: None };
        let server = Server::start(store.clone(), &listen).unwrap();
        Self { rig, store, server }
    }

    pub fn address(&self) -> Address {
        Address::plain(self.server.address().to_string(), Token::read(self.server.token_file()).unwrap())
    }

    pub fn client(&self) -> Client {
        Client::new(self.address())
    }

    pub fn raw(&self) -> TcpStream {
        let stream = TcpStream::connect(self.server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }
}

fn body(text: &str) -> NewMessage {
    NewMessage::new(Bytes::copy_from_slice(text.as_bytes()))
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_can_be_asked_over_a_socket() {
    let served = Served::new();
    let client = served.client();
    let (mail, partition_id) = (topic("mail"), partition("mail", 1));
    let config = TopicConfig::partitions(2);
    assert_eq!(client.create_topic(&mail, config.clone()).await.unwrap(), Created::Fresh);
    assert_eq!(client.create_topic(&mail, TopicConfig::default()).await.unwrap(), Created::Existed(config));
    let (worker, fence) = (Consumer::new("worker").unwrap(), Fence::new(1, 7));
    client.open(&partition_id, &worker, fence).await.unwrap();
    let append = |text: &str| Append {
        partition: partition_id.clone(),
        message: NewMessage { dedup: Some(Bytes::copy_from_slice(text.as_bytes())), ..body(text) },
    };
    let commit = Commit {
        appends: vec![append("one"), append("two")],
        states: vec![StateWrite {
            partition: partition_id.clone(),
            consumer: worker.clone(),
            fence,
            key: "k".into(),
            value: Some("v".into()),
        }],
        ..Commit::default()
    };
    let first = client.commit(commit.clone()).await.unwrap();
    let again = client.commit(commit).await.unwrap();
    let ids: Vec<MessageId> = first.appends.iter().map(|appended| appended.id().unwrap()).collect();
    assert_eq!(again.appends, ids.iter().map(|id| Appended::Duplicate(Some(*id))).collect::<Vec<_>>());
    let batch = client.read(Read::after(partition_id.clone(), MessageId::ZERO)).await.unwrap();
    let bodies: Vec<&[u8]> = batch.messages.iter().map(|message| message.body.as_ref()).collect();
    assert_eq!(bodies, [b"one".as_slice(), b"two"]);
    assert_eq!(client.at_time(&partition_id, ids[1].0).await.unwrap(), Some(ids[1]));
    let done = Commit {
        moves: vec![Move {
            partition: partition_id.clone(),
            consumer: worker.clone(),
            fence,
            from: Some(MessageId::ZERO),
            position: ids[0],
        }],
        edits: vec![Edit::Remove { partition: partition_id.clone(), id: ids[0] }],
        ..Commit::default()
    };
    assert_eq!(client.commit(done).await.unwrap().edits, [Edited::Changed]);
    let stats = client.stats(&mail).await.unwrap();
    assert_eq!((stats[0].messages, stats[0].consumers[0].lag), (1, 1));
    let taken = client.open(&partition_id, &worker, Fence::new(2, 1)).await.unwrap();
    assert_eq!((taken.position, taken.state), (ids[0], vec![("k".into(), "v".into())]));
    let stale = Commit {
        moves: vec![Move {
            partition: partition_id.clone(),
            consumer: worker.clone(),
            fence,
            from: None,
            position: ids[1],
        }],
        ..Commit::default()
    };
    let refused = client.commit(stale).await.unwrap_err();
    assert!(
        matches!(refused, JournalError::Fenced { .. }) && refused.remedy() == Remedy::Reacquire,
        "{refused:?}"
    );
    client.trim(&partition_id, MessageId::MAX).await.unwrap();
    let batch = client.read(Read::after(partition_id.clone(), MessageId::ZERO)).await.unwrap();
    assert_eq!((batch.messages.len(), batch.gap), (0, Some(ids[1])));
    assert_eq!(client.usage().await.unwrap().topics, 1);
    assert_eq!(client.topics().await.unwrap().len(), 1);
    assert!(client.delete_topic(&mail).await.unwrap());
    let gone = client.read(Read::after(partition_id, MessageId::ZERO)).await.unwrap_err();
    assert_eq!(gone, JournalError::NoTopic { topic: mail });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_reader_is_given_what_comes_and_nothing_when_nothing_comes() {
    let served = Served::new();
    let client = served.client();
    client.create_topic(&topic("mail"), TopicConfig::default()).await.unwrap();
    let partition_id = partition("mail", 1);
    let read = Read::after(partition_id.clone(), MessageId::ZERO);
    assert!(client.read(read.clone().wait(Duration::from_millis(50))).await.unwrap().messages.is_empty());
    let waiting: Vec<_> = (0..1000)
        .map(|_| {
            let (client, read) = (client.clone(), read.clone().wait(Duration::from_secs(60)));
            tokio::spawn(async move { client.read(read).await })
        })
        .collect();
    client.commit(Commit::append(partition_id, body("hello"))).await.unwrap();
    for reader in waiting {
        assert_eq!(reader.await.unwrap().unwrap().messages.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn offenders_are_closed_and_others_go_on() {
    // Both ends of each are ours.
    allow_files(5_000);
    let served = Served::new();
    let client = served.client();
    client.create_topic(&topic("mail"), TopicConfig::default()).await.unwrap();
    let idle: Vec<TcpStream> = (0..2000).map(|_| served.raw()).collect();
    for garbage in [b"GET / HTTP/1.1\r\n\r\n".as_slice(), &[0xff; 64], &[0, 0, 0, 0], &[3, 0, 0, 0, 1, 2, 3]]
    {
        let mut stream = served.raw();
        stream.write_all(garbage).unwrap();
        let mut rest = Vec::new();
        // The connection was closed, orderly or not, without a reply.
        let _ = stream.read_to_end(&mut rest);
        assert_eq!(rest, b"");
        client.commit(Commit::append(partition("mail", 1), body("x"))).await.unwrap();
    }
    // Half a frame, and then nothing.
    let mut half = served.raw();
    half.write_all(&[40, 0, 0, 0, 1]).unwrap();
    drop(half);
    assert_eq!(
        client.read(Read::after(partition("mail", 1), MessageId::ZERO)).await.unwrap().messages.len(),
        4
    );
    drop(idle);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_too_large_is_refused_and_the_connection_goes_on() {
    let served = Served::new();
    let client = served.client();
    client.create_topic(&topic("mail"), TopicConfig::default()).await.unwrap();
    let large = NewMessage::new(vec![7; (16 << 20) + 1]);
    let refused = client.commit(Commit::append(partition("mail", 1), large)).await.unwrap_err();
    assert!(matches!(refused, JournalError::TooLarge { .. }), "{refused:?}");
    for size in [0, 1, 10 << 20] {
        let message = NewMessage::new(vec![7; size]);
        let committed = client.commit(Commit::append(partition("mail", 1), message)).await.unwrap();
        let id = committed.appends[0].id().unwrap();
        let found = client.read(Read::one(partition("mail", 1), id)).await.unwrap();
        assert_eq!(found.messages[0].body.len(), size);
    }
    served.store.close().unwrap();
    assert_eq!(
        client.commit(Commit::append(partition("mail", 1), body("x"))).await,
        Err(JournalError::Closed)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn delayed_messages_are_listed_and_cancelled_over_a_socket() {
    let served = Served::new();
    let client = served.client();
    client.create_topic(&topic("mail"), TopicConfig::partitions(2)).await.unwrap();
    let partition_id = partition("mail", 1);
    let due =
        served.store.commit(Commit::append(partition_id.clone(), body("now"))).await.unwrap().appends[0];
    let due = due.id().unwrap().0.plus(Duration::from_secs(3600));
    let message = NewMessage { due: Some(due), ttl: Some(Duration::from_secs(60)), ..body("later") };
    let append = Append { partition: partition_id.clone(), message };
    let commit = Commit { appends: vec![append; 3], ..Commit::default() };
    let ids = client.commit(commit).await.unwrap().appends.into_iter().map(|appended| match appended {
        Appended::Delayed(id) => id,
        other => panic!("it is delayed: {other:?}"),
    });
    let ids: Vec<DelayedId> = ids.collect();
    let read = Read::delayed(partition_id.clone(), ids[0]);
    let batch = client.read(read.clone()).await.unwrap();
    assert_eq!(batch, served.store.read(read).await.unwrap(), "here as there");
    assert_eq!(batch.delayed, ids[1..]);
    assert!(
        batch
            .messages
            .iter()
            .all(|message| message.body == "later"
                && message.expires == Some(due.plus(Duration::from_secs(60))))
    );
    // However little room there is, one message is returned.
    let tight = Read { bytes_max: 1, ..Read::delayed(partition_id.clone(), DelayedId::ZERO) };
    assert_eq!(client.read(tight).await.unwrap().delayed, ids[..1]);
    let cancel = |number, id| Edit::Cancel { partition: partition("mail", number), id };
    let edits = vec![cancel(2, ids[1]), cancel(1, ids[1]), cancel(1, ids[2])];
    let edited = client.commit(Commit { edits, ..Commit::default() }).await.unwrap().edits;
    assert_eq!(edited, [Edited::Missing, Edited::Changed, Edited::Changed]);
    let twice = Commit { edits: vec![cancel(1, ids[0]), cancel(1, ids[0])], ..Commit::default() };
    assert!(matches!(client.commit(twice).await, Err(JournalError::Invalid(_))));
    assert_eq!(client.stats(&topic("mail")).await.unwrap()[0].delayed, 1);
    let nowhere = Read::delayed(partition("nowhere", 1), DelayedId::ZERO);
    assert!(matches!(client.read(nowhere).await, Err(JournalError::NoTopic { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_of_too_many_parts_is_refused_and_the_connection_goes_on() {
    let served = Served::new();
    let client = served.client();
    client.create_topic(&topic("mail"), TopicConfig::default()).await.unwrap();
    let append = Append { partition: partition("mail", 1), message: NewMessage::default() };
    let many = Commit { appends: vec![append; COMMIT_PARTS_MAX + 1], ..Commit::default() };
    let refused = client.commit(many).await.unwrap_err();
    assert!(matches!(refused, JournalError::TooLarge { .. }), "{refused:?}");
    client.commit(Commit::append(partition("mail", 1), body("x"))).await.unwrap();
}

#[test]
fn clients_that_are_gone_without_a_word_are_noticed() {
    /// The keep-alive timer in the kernel's table of sockets.
    const KEEPALIVE: &str = "02";
    let served = Served::new();
    let client = served.raw();
    let place = |address: std::net::SocketAddr| format!("0100007F:{:04X}", address.port());
    let ends = (place(served.server.address()), place(client.local_addr().unwrap()));
    eventually("the server to watch over the connection", || {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let timer = table.lines().find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            ((fields[1], fields[2]) == (&ends.0, &ends.1)).then(|| fields[5][..2].to_owned())
        });
        (timer? == KEEPALIVE).then_some(())
    });
}
