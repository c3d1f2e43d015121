//! The sequence queue: in order, at least once, never lost.

use std::time::Duration;

use menagerie_kernel::recipes::blob::{Blob, Expect};
use menagerie_kernel::recipes::sequence_queue::{Ack, Content, LIMIT, QueueEntry, QueueError, SequenceQueue};
use menagerie_kernel::{CallError, Session, Transaction, TransactionError, retry};
use menagerie_testkit::{OpCode, eventually_async};
use menagerie_znodes::{Kind, Znode};

use crate::world::{LONG, SHORT, World, held};

fn queue_at(session: &Session, path: &str, limit: usize) -> SequenceQueue {
    SequenceQueue::new(session, Znode::foreign(path, Kind::Persistent), limit)
}

fn queue(session: &Session) -> SequenceQueue {
    queue_at(session, "/events", LIMIT)
}

fn long(byte: u8) -> Vec<u8> {
    vec![byte; 200_000]
}

fn contents(entries: &[QueueEntry]) -> Vec<String> {
    let text = |entry: &QueueEntry| match &entry.content {
        Content::Whole(data) if data.len() < 100 => String::from_utf8(data.clone()).unwrap(),
        Content::Whole(data) => format!("{} x {}", data.len(), data[0] as char),
        Content::Damaged(_) => "damaged".to_owned(),
    };
    entries.iter().map(text).collect()
}

async fn all(session: &Session) -> Vec<String> {
    session.term().sync("/").await.unwrap();
    contents(&queue(session).entries(None, usize::MAX).await.unwrap())
}

async fn sides(session: &Session) -> usize {
    session.term().children("/events/data").await.unwrap().len()
}

/// Makes a consumer: the holder of a ticket.
async fn consume(session: &Session, ticket: &str) {
    retry::create(&session.term(), ticket, b"").await.unwrap();
}

#[tokio::test]
async fn entries_come_in_the_order_of_the_puts() {
    let world = World::new("queue");
    let (one, other) = (world.session().await, world.session().await);
    let mut ids = Vec::new();
    for (session, data) in [(&one, "a"), (&other, "b"), (&other, "c"), (&one, "d")] {
        ids.push(queue(session).put(data.as_bytes()).await.unwrap());
    }
    assert!(ids.is_sorted());
    assert_eq!(all(&one).await, ["a", "b", "c", "d"]);
    let some = queue(&one).entries(Some(&ids[0]), 2).await.unwrap();
    assert_eq!(contents(&some), ["b", "c"]);
    assert!(some[0].put_at < some[1].put_at);
    assert_eq!(queue(&one).backlog().await, Ok(4));
}

#[tokio::test]
async fn long_entry_lies_beside_the_queue_and_goes_with_its_ack() {
    let session = World::new("queue-long").session().await;
    let (term, queue) = (session.term(), queue(&session));
    consume(&session, "/ticket").await;
    for data in [b"short".to_vec(), long(b'x'), b"last".to_vec()] {
        queue.put(&data).await.unwrap();
    }
    assert_eq!(all(&session).await, ["short", "200000 x x", "last"]);
    assert_eq!(sides(&session).await, 1);
    for entry in queue.entries(None, 2).await.unwrap() {
        let ack = || queue.ack(Transaction::fenced(&term, "/ticket"), &entry.id);
        assert_eq!(ack().await, Ok(Ack::Done));
        assert_eq!(ack().await, Ok(Ack::Gone));
    }
    assert_eq!(all(&session).await, ["last"]);
    assert_eq!(sides(&session).await, 0);
}

#[tokio::test]
async fn full_queue_says_so_and_takes_nothing() {
    let session = World::new("queue-full").session().await;
    let queue = queue_at(&session, "/events", 2);
    consume(&session, "/ticket").await;
    let first = queue.put(b"1").await.unwrap();
    queue.put(b"2").await.unwrap();
    let full = Err(QueueError::Full { path: "/events".to_owned(), limit: 2, len: 2 });
    assert_eq!(queue.put(b"3").await, full);
    assert_eq!(queue.put(&long(b'3')).await, full);
    assert_eq!((all(&session).await, sides(&session).await), (vec!["1".to_owned(), "2".to_owned()], 0));
    queue.ack(Transaction::fenced(&session.term(), "/ticket"), &first).await.unwrap();
    queue.put(b"3").await.unwrap();
}

#[tokio::test]
async fn consumer_that_dies_between_work_and_ack_leaves_its_entries_to_the_next() {
    let world = World::new("queue-dead");
    let other = world.session().await;
    for data in [b"1".to_vec(), long(b'2'), b"3".to_vec()] {
        queue(&other).put(&data).await.unwrap();
    }
    let (session, proxy) = world.session_through_proxy(SHORT).await;
    consume(&session, "/ticket-1").await;
    let (term, dying) = (session.term(), queue(&session));
    let taken = dying.entries(None, 2).await.unwrap();
    assert_eq!(dying.ack(Transaction::fenced(&term, "/ticket-1"), &taken[0].id).await, Ok(Ack::Done));
    // It works on the second, and is never heard of again until it is too late.
    proxy.partition();
    other.term().sync("/").await.unwrap();
    let (_, gone) = other.term().stat_watched("/ticket-1").await.unwrap();
    gone.changed().await;
    consume(&other, "/ticket-2").await;
    let again = queue(&other).entries(None, 1).await.unwrap();
    assert_eq!(again, taken[1..]);
    proxy.heal();
    let late = dying.ack(Transaction::fenced(&term, "/ticket-1"), &taken[1].id).await;
    assert_eq!(late, Err(QueueError::Call(CallError::Expired)));
    let next = session.term_after(&term).await.unwrap();
    let late = dying.ack(Transaction::fenced(&next, "/ticket-1"), &taken[1].id).await;
    assert_eq!(late, Err(QueueError::Lost { ticket: "/ticket-1".to_owned() }));
    assert_eq!(all(&other).await, ["200000 x 2", "3"]);
    let acked = queue(&other).ack(Transaction::fenced(&other.term(), "/ticket-2"), &taken[1].id).await;
    assert_eq!(acked, Ok(Ack::Done));
    assert_eq!(all(&other).await, ["3"]);
}

#[tokio::test]
async fn lost_replies_put_once_and_ack_once() {
    let (session, proxy) = World::new("queue-lost-reply").session_through_proxy(LONG).await;
    let (term, queue) = (session.term(), queue(&session));
    consume(&session, "/ticket").await;
    queue.put(b"0").await.unwrap();
    for (count, data) in (1..).zip([b"1".to_vec(), long(b'2')]) {
        proxy.drop_reply_of(OpCode::Multi);
        queue.put(&data).await.unwrap();
        assert_eq!(proxy.dropped_replies(), count);
    }
    let entries = queue.entries(None, 9).await.unwrap();
    assert_eq!(contents(&entries), ["0", "1", "200000 x 2"]);
    for (count, entry) in (3..).zip(&entries) {
        proxy.drop_reply_of(OpCode::Multi);
        let acked = queue.ack(Transaction::fenced(&term, "/ticket"), &entry.id).await;
        assert_eq!((acked, proxy.dropped_replies()), (Ok(Ack::Done), count));
    }
    assert_eq!(queue.backlog().await, Ok(0));
    assert_eq!(sides(&session).await, 0);
}

#[tokio::test]
async fn entry_is_forwarded_once_in_the_transaction_of_its_ack() {
    let session = World::new("queue-forward").session().await;
    let (term, from, to) = (session.term(), queue(&session), queue_at(&session, "/next", LIMIT));
    consume(&session, "/ticket").await;
    let entry = from.put(b"event").await.unwrap();
    for outcome in [Ok(Ack::Done), Ok(Ack::Gone)] {
        let transaction = Transaction::fenced(&term, "/ticket");
        let transaction = to.put_with(transaction, b"short").await.unwrap();
        let transaction = to.put_with(transaction, &long(b'l')).await.unwrap();
        assert_eq!(from.ack(transaction, &entry).await, outcome);
    }
    assert_eq!(contents(&to.entries(None, 9).await.unwrap()), ["short", "200000 x l"]);
}

#[tokio::test]
async fn several_entries_of_several_queues_are_acked_in_one_transaction() {
    let session = World::new("queue-pass").session().await;
    let (term, from, other, to) = (
        session.term(),
        queue(&session),
        queue_at(&session, "/other", LIMIT),
        queue_at(&session, "/next", LIMIT),
    );
    consume(&session, "/ticket").await;
    let mut acked = Vec::new();
    for data in [b"1".to_vec(), long(b'2'), long(b'3')] {
        acked.push(from.put(&data).await.unwrap());
    }
    let last = from.put(&long(b'4')).await.unwrap();
    let elsewhere = other.put(b"elsewhere").await.unwrap();
    let pass = || async {
        let put = to.put_with(Transaction::fenced(&term, "/ticket"), b"result").await.unwrap();
        let acks = acked.iter().fold(put, |transaction, entry| from.ack_with(transaction, entry));
        other.ack_with(acks, &elsewhere)
    };
    pass().await.commit().await.unwrap();
    assert_eq!((all(&session).await, sides(&session).await), (vec!["200000 x 4".to_owned()], 3));
    assert_eq!(other.backlog().await, Ok(0));
    // The last one is not acked, and keeps its data though somebody names it.
    from.forget_sides(&[acked.as_slice(), &[last]].concat()).await;
    assert_eq!((all(&session).await, sides(&session).await), (vec!["200000 x 4".to_owned()], 1));
    // What is gone is a refused part, and nothing else happens.
    let again = pass().await.commit().await;
    let part = |error: &TransactionError| match error {
        TransactionError::Part { index, source: CallError::NoZnode { .. } } => Some(*index),
        _ => None,
    };
    assert_eq!(again.as_ref().err().and_then(part), Some(1), "{again:?}");
    assert_eq!(contents(&to.entries(None, 9).await.unwrap()), ["result"]);
}

#[tokio::test]
async fn pass_that_has_lost_its_ticket_acks_nothing() {
    let session = World::new("queue-pass-lost").session().await;
    let (term, queue) = (session.term(), queue(&session));
    let entries = [queue.put(b"1").await.unwrap(), queue.put(&long(b'2')).await.unwrap()];
    let fenced = Transaction::fenced(&term, "/ticket");
    let pass = entries.iter().fold(fenced, |transaction, entry| queue.ack_with(transaction, entry));
    assert_eq!(pass.commit().await, Err(TransactionError::Lost { ticket: "/ticket".to_owned() }));
    queue.forget_sides(&entries).await;
    assert_eq!(all(&session).await, ["1", "200000 x 2"]);
}

#[tokio::test]
async fn entries_without_side_data_are_forgotten_without_a_request() {
    let (session, proxy) = World::new("queue-forget").session_through_proxy(LONG).await;
    let queue = queue(&session);
    let id = queue.put(b"short").await.unwrap();
    proxy.take_requests();
    queue.forget_sides(&[id]).await;
    let reads = [OpCode::GetData, OpCode::Exists, OpCode::MultiRead].map(|op| proxy.requests_of(op));
    assert_eq!(reads, [0; 3]);
}

#[tokio::test]
async fn many_are_put_in_order_with_one_look_at_the_limit() {
    let (session, proxy) = World::new("queue-put-all").session_through_proxy(LONG).await;
    let (term, queue) = (session.term(), queue_at(&session, "/events", 4));
    // The first makes the directory, as ever.
    let none: [Vec<u8>; 0] = [];
    let first = queue.put_all_with(Transaction::new(&term), &[b"0".to_vec()]).await.unwrap();
    let first = queue.put_all_with(first, &none).await.unwrap();
    assert_eq!(first.commit().await.map(|created| created.len()), Ok(1));
    proxy.take_requests();
    let many = [b"1".to_vec(), long(b'2'), b"3".to_vec()];
    let transaction = queue.put_all_with(Transaction::new(&term), &many).await.unwrap();
    assert_eq!(proxy.requests_of(OpCode::Exists), 1);
    transaction.commit().await.unwrap();
    assert_eq!(all(&session).await, ["0", "1", "200000 x 2", "3"]);
}

#[tokio::test]
async fn of_many_that_exceed_the_limit_none_is_put() {
    let session = World::new("queue-put-all-full").session().await;
    let (term, queue) = (session.term(), queue_at(&session, "/events", 3));
    queue.put(b"0").await.unwrap();
    let many = [long(b'1'), b"2".to_vec(), b"3".to_vec()];
    let full = queue.put_all_with(Transaction::new(&term), &many).await;
    assert_eq!(full.err(), Some(QueueError::Full { path: "/events".to_owned(), limit: 3, len: 1 }));
    assert_eq!(sides(&session).await, 0, "not even its data was written");
    let two = queue.put_all_with(Transaction::new(&term), &many[1..]).await.unwrap();
    two.commit().await.unwrap();
    assert_eq!(queue.backlog().await, Ok(3));
}

#[tokio::test]
async fn orphaned_side_data_is_collected_after_its_grace_and_nothing_else() {
    let session = World::new("queue-orphans").session().await;
    let queue = queue(&session);
    queue.put(&long(b'x')).await.unwrap();
    let orphan = Blob::new(&session, Znode::foreign("/events/data/orphan", Kind::Persistent));
    orphan.write(&long(b'y'), Expect::Nothing).await.unwrap();
    assert_eq!(queue.collect(Duration::from_secs(300)).await, Ok(0));
    assert_eq!(queue.collect(Duration::ZERO).await, Ok(1));
    assert_eq!(orphan.read().await, Ok(None));
    assert_eq!(all(&session).await, ["200000 x x"]);
}

#[tokio::test]
async fn put_whose_side_data_was_taken_for_an_orphan_writes_it_again() {
    let world = World::new("queue-slow-put");
    let other = world.session().await;
    let (session, proxy) = world.observer_through_proxy(LONG).await;
    queue(&other).put(b"first").await.unwrap();
    session.term().sync("/").await.unwrap();
    proxy.hold_requests_after(0, OpCode::Multi);
    let collect = async {
        held(&proxy).await;
        assert!(queue(&other).collect(Duration::ZERO).await.unwrap() > 0);
        proxy.heal();
    };
    let (slow, content) = (queue(&session), long(b'x'));
    let (put, ()) = tokio::join!(slow.put(&content), collect);
    put.unwrap();
    assert_eq!(all(&other).await, ["first", "200000 x x"]);
}

#[tokio::test]
async fn who_waits_is_woken_by_a_put_even_through_a_lost_connection() {
    let world = World::new("queue-wait");
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let other = world.session().await;
    let waiting = tokio::spawn({
        let queue = queue(&session);
        async move { queue.arrival(None).await }
    });
    eventually_async("it waits", async || (proxy.requests_of(OpCode::GetChildren2) > 0).then_some(())).await;
    proxy.cut();
    let first = queue(&other).put(b"1").await.unwrap();
    proxy.heal();
    assert_eq!(waiting.await.unwrap(), Ok(()));
    // It is a level: it is there until it is acked.
    assert_eq!(queue(&other).arrival(None).await, Ok(()));
    let waiting = tokio::spawn({
        let queue = queue(&session);
        async move { queue.arrival(Some(&first)).await }
    });
    queue(&other).put(b"2").await.unwrap();
    assert_eq!(waiting.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn who_waits_is_told_when_the_session_is_over() {
    let (session, proxy) = World::new("queue-expired").session_through_proxy(SHORT).await;
    let waiting = tokio::spawn({
        let queue = queue(&session);
        async move { queue.arrival(None).await }
    });
    eventually_async("it waits", async || (proxy.requests_of(OpCode::GetChildren2) > 0).then_some(())).await;
    proxy.partition();
    assert_eq!(waiting.await.unwrap(), Err(QueueError::Call(CallError::Expired)));
}

#[tokio::test]
async fn directory_that_is_removed_is_made_again() {
    let session = World::new("queue-removed").session().await;
    let (term, queue) = (session.term(), queue(&session));
    assert_eq!(queue.entries(None, 1).await, Ok(Vec::new()));
    queue.put(b"1").await.unwrap();
    let entry = &queue.entries(None, 1).await.unwrap()[0];
    queue.ack(Transaction::new(&term), &entry.id).await.unwrap();
    for path in ["/events/queue", "/events/data", "/events"] {
        term.delete(path, None).await.unwrap();
    }
    queue.put(&long(b'2')).await.unwrap();
    assert_eq!(all(&session).await, ["200000 x 2"]);
}

#[tokio::test]
async fn damaged_side_data_is_shown_as_such_and_can_be_acked() {
    let session = World::new("queue-damaged").session().await;
    let (term, queue) = (session.term(), queue(&session));
    let id = queue.put(&long(b'x')).await.unwrap();
    queue.put(b"next").await.unwrap();
    let side = &term.children("/events/data").await.unwrap()[0];
    term.set(&format!("/events/data/{side}"), b"garbage", None).await.unwrap();
    assert_eq!(all(&session).await, ["damaged", "next"]);
    assert_eq!(queue.ack(Transaction::new(&term), &id).await, Ok(Ack::Done));
    assert_eq!((all(&session).await, sides(&session).await), (vec!["next".to_owned()], 0));
}
