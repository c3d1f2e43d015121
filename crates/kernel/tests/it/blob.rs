//! Blobs: whole or not at all, whatever happens to writers and readers.

use futures_util::future::join_all;
use menagerie_kernel::recipes::blob::{Blob, BlobError, Expect};
use menagerie_kernel::session::IfLate;
use menagerie_kernel::{CallError, Session, Transaction, retry};
use menagerie_testkit::{OpCode, Proxy, eventually_async};
use menagerie_znodes::{Kind, Raw, Znode};

use crate::world::{LONG, SHORT, World, held};

const PATH: &str = "/blob";

fn blob_at(session: &Session, path: &str) -> Blob {
    Blob::new(session, Znode::foreign(path, Kind::Persistent))
}

fn blob(session: &Session) -> Blob {
    blob_at(session, PATH)
}

/// A value that does not fit into the marker even when compressed; `seed` tells it from others. It has only one shard:
/// Apache ZooKeeper keeps the last 500 transactions in memory, and our test server has little of that.
fn long(seed: u64) -> Vec<u8> {
    noise(seed, 130_000)
}

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed;
    let step = |_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as u8
    };
    (0..bytes).map(step).collect()
}

async fn value(session: &Session) -> Option<Vec<u8>> {
    session.term().sync("/").await.unwrap();
    blob(session).read().await.unwrap().map(|(value, _)| value)
}

/// The children of the marker.
async fn below(session: &Session, path: &str) -> usize {
    session.term().sync("/").await.unwrap();
    session.term().children(path).await.unwrap().len()
}

#[tokio::test]
async fn values_short_and_long_are_read_as_they_were_written() {
    let session = World::new("blob").session().await;
    let blob = blob(&session);
    assert_eq!(blob.read().await, Ok(None));
    let mut version = None;
    for (content, shards) in [
        (b"short".to_vec(), 0),
        (noise(1, 2_100_000), 3),
        (vec![b'x'; 3_000_000], 0),
        (Vec::new(), 0),
        (long(2), 1),
    ] {
        let expect = version.map_or(Expect::Nothing, Expect::Version);
        let written = blob.write(&content, expect).await.unwrap();
        assert_eq!(blob.read().await, Ok(Some((content, written))));
        assert_eq!(below(&session, PATH).await, shards);
        version = Some(written);
    }
    assert_eq!(blob.delete(Expect::Version(version.unwrap())).await, Ok(true));
    assert_eq!(session.term().stat(PATH).await, Ok(None));
    assert_eq!(blob.delete(Expect::Anything).await, Ok(false));
}

#[tokio::test]
async fn writer_with_another_value_in_mind_is_refused() {
    let session = World::new("blob-conflict").session().await;
    let blob = blob(&session);
    let conflict = BlobError::Conflict { path: PATH.to_owned() };
    let first = blob.write(b"first", Expect::Nothing).await.unwrap();
    assert_eq!(blob.write(b"x", Expect::Nothing).await, Err(conflict.clone()));
    let second = blob.write(b"second", Expect::Version(first)).await.unwrap();
    for content in [b"x".to_vec(), long(1)] {
        assert_eq!(blob.write(&content, Expect::Version(first)).await, Err(conflict.clone()));
    }
    assert_eq!(blob.delete(Expect::Version(first)).await, Err(conflict.clone()));
    assert_eq!(value(&session).await, Some(b"second".to_vec()));
    eventually_async("the losers' shards are gone", async || {
        (below(&session, PATH).await == 0).then_some(())
    })
    .await;
    // A blob that was created again is another one, even with the same version.
    assert_eq!(blob.delete(Expect::Version(second)).await, Ok(true));
    blob.write(b"anew", Expect::Nothing).await.unwrap();
    blob.write(b"anew", Expect::Anything).await.unwrap();
    assert_eq!(blob.write(b"x", Expect::Version(second)).await, Err(conflict.clone()));
    assert_eq!(blob.delete(Expect::Version(second)).await, Err(conflict));
    assert_eq!(value(&session).await, Some(b"anew".to_vec()));
}

/// How a write ended.
#[derive(Debug, PartialEq)]
enum End {
    Killed,
    Finished,
}

/// Writes `new` with a session that dies after this many requests. Returns the session: only its time-out ends it.
async fn write_and_die(world: &World, path: &str, new: &[u8], requests: usize) -> (End, Session, Proxy) {
    let (session, proxy) = world.observer_through_proxy(SHORT).await;
    let blob = blob_at(&session, path);
    proxy.cut_after(requests);
    let end = tokio::select! {
        written = blob.write(new, Expect::Anything) => written.map(|_| End::Finished).unwrap(),
        end = eventually_async("it is cut", async || proxy.is_cut().then_some(End::Killed)) => end,
    };
    (end, session, proxy)
}

#[tokio::test]
async fn writer_killed_at_any_step_leaves_the_old_value_or_the_new_one() {
    let world = World::new("blob-killed");
    let session = world.session().await;
    let (old, new) = (&long(1), &long(2));
    let (world, session) = (&world, &session);
    let kill_after = |requests: usize| async move {
        let path = format!("/blob-{requests}");
        let other = blob_at(session, &path);
        other.write(old, Expect::Nothing).await.unwrap();
        let (end, _dead, _proxy) = write_and_die(world, &path, new, requests).await;
        session.term().sync("/").await.unwrap();
        let (seen, version) = other.read().await.unwrap().unwrap();
        assert!(seen == *old || seen == *new, "after {requests} requests it is torn");
        other.write(b"last", Expect::Version(version)).await.unwrap();
        eventually_async("nothing is left of the dead", async || {
            other.collect().await.unwrap();
            (below(session, &path).await == 0).then_some(())
        })
        .await;
        assert_eq!(other.read().await.unwrap().unwrap().0, b"last");
        (end, seen == *new)
    };
    let ends = join_all((0..=8).map(kill_after)).await;
    assert_eq!(ends.first(), Some(&(End::Killed, false)));
    assert!(ends.contains(&(End::Killed, true)), "it was killed after the commit, too: {ends:?}");
    assert_eq!(ends.last(), Some(&(End::Finished, true)));
}

#[tokio::test]
async fn lost_replies_are_resolved_and_the_value_is_written_once() {
    let world = World::new("blob-lost-reply");
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let blob = blob(&session);
    blob.write(&long(0), Expect::Nothing).await.unwrap();
    for (seed, op) in (1..).zip([OpCode::GetData, OpCode::Create2, OpCode::Multi, OpCode::Delete]) {
        let (_, before) = blob.read().await.unwrap().unwrap();
        let content = long(seed);
        proxy.drop_reply_of(op);
        let written = blob.write(&content, Expect::Version(before)).await.unwrap();
        assert_eq!(proxy.dropped_replies(), usize::try_from(seed).unwrap());
        assert_eq!(blob.read().await, Ok(Some((content, written))));
        assert_eq!(below(&session, PATH).await, 1);
    }
}

#[tokio::test]
async fn write_goes_on_after_the_connection_was_lost() {
    let (session, proxy) = World::new("blob-cut").session_through_proxy(LONG).await;
    let blob = blob(&session);
    blob.write(b"old", Expect::Anything).await.unwrap();
    proxy.cut_after(3);
    let heal = async {
        eventually_async("it is cut", async || proxy.is_cut().then_some(())).await;
        proxy.heal();
    };
    let content = long(1);
    let (written, ()) = tokio::join!(blob.write(&content, Expect::Anything), heal);
    assert_eq!(blob.read().await, Ok(Some((content, written.unwrap()))));
}

#[tokio::test]
async fn session_that_expires_while_writing_changes_nothing() {
    let world = World::new("blob-expired");
    let other = world.session().await;
    blob(&other).write(b"old", Expect::Nothing).await.unwrap();
    let (session, proxy) = world.session_through_proxy(SHORT).await;
    proxy.hold_requests();
    let written = blob(&session).write(&long(1), Expect::Anything).await;
    assert_eq!(written, Err(BlobError::Call(CallError::Expired)));
    assert_eq!(value(&other).await, Some(b"old".to_vec()));
}

#[tokio::test]
async fn of_writers_at_once_the_last_wins_and_readers_see_whole_values() {
    let world = World::new("blob-writers");
    let values: Vec<Vec<u8>> = (0..4).map(long).collect();
    let reader = world.session().await;
    blob(&reader).write(&values[0], Expect::Nothing).await.unwrap();
    let writers = join_all(values.iter().map(|value| async {
        let session = world.session().await;
        for _ in 0..3 {
            blob(&session).write(value, Expect::Anything).await.unwrap();
        }
    }));
    let read = async {
        loop {
            let (seen, _) = blob(&reader).read().await.unwrap().unwrap();
            assert!(values.contains(&seen));
        }
    };
    tokio::select! { _ = writers => {}, () = read => {} }
    assert!(values.contains(&value(&reader).await.unwrap()));
    assert_eq!(below(&reader, PATH).await, 1, "nothing is left of the replaced");
}

#[tokio::test]
async fn of_two_who_build_on_the_same_value_one_is_refused() {
    let world = World::new("blob-two");
    let (one, other) = (world.session().await, world.session().await);
    let version = blob(&one).write(b"base", Expect::Nothing).await.unwrap();
    let (blobs, contents) = ([blob(&one), blob(&other)], [long(1), b"short".to_vec()]);
    let written = tokio::join!(
        blobs[0].write(&contents[0], Expect::Version(version)),
        blobs[1].write(&contents[1], Expect::Version(version)),
    );
    let winner = match written {
        (Ok(_), Err(BlobError::Conflict { .. })) => &contents[0],
        (Err(BlobError::Conflict { .. }), Ok(_)) => &contents[1],
        other => panic!("one must win: {other:?}"),
    };
    assert_eq!(value(&one).await.as_ref(), Some(winner));
}

#[tokio::test]
async fn slow_reader_from_whom_shards_are_taken_reads_again() {
    let world = World::new("blob-slow");
    let (slow, proxy) = world.session_through_proxy(LONG).await;
    let writer = world.session().await;
    blob(&writer).write(&long(1), Expect::Nothing).await.unwrap();
    slow.term().sync("/").await.unwrap();
    proxy.take_requests();
    // It has read the marker, and is about to read the shard.
    proxy.hold_requests_after(1, OpCode::GetData);
    let reading = tokio::spawn({
        let blob = blob(&slow);
        async move { blob.read().await }
    });
    held(&proxy).await;
    let written = blob(&writer).write(&long(2), Expect::Anything).await.unwrap();
    proxy.heal();
    assert_eq!(reading.await.unwrap(), Ok(Some((long(2), written))));
    assert_eq!(proxy.requests_of(OpCode::GetData), 4, "marker and shard, twice");
}

#[tokio::test]
async fn under_a_ticket_that_is_gone_nothing_is_written_or_deleted() {
    let session = World::new("blob-fenced").session().await;
    let (term, blob) = (session.term(), blob(&session));
    retry::create(&term, "/ticket", b"").await.unwrap();
    let fenced = || Transaction::fenced(&term, "/ticket");
    let held = blob.write_fenced(fenced(), b"held", Expect::Anything).await.unwrap();
    let held = blob.write_fenced(fenced(), &long(1), Expect::Version(held)).await.unwrap();
    retry::delete(&term, "/ticket").await.unwrap();
    let lost = BlobError::Lost { ticket: "/ticket".to_owned() };
    for content in [b"zombie".to_vec(), long(2)] {
        assert_eq!(blob.write_fenced(fenced(), &content, Expect::Version(held)).await, Err(lost.clone()));
    }
    assert_eq!(blob.delete_fenced(fenced(), Expect::Anything).await, Err(lost));
    assert_eq!(blob.read().await, Ok(Some((long(1), held))));
    eventually_async("the zombie's shards are gone", async || {
        (below(&session, PATH).await == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn transaction_that_is_refused_for_another_reason_writes_nothing() {
    let session = World::new("blob-refused").session().await;
    let (term, blob) = (session.term(), blob(&session));
    let absent: Znode<Raw> = Znode::foreign("/absent", Kind::Persistent);
    let transaction = Transaction::new(&term).check(&absent, None);
    let written = blob.write_fenced(transaction, b"x", Expect::Anything).await;
    assert!(matches!(written, Err(BlobError::Refused { .. })), "{written:?}");
    assert_eq!(blob.read().await, Ok(None));
}

#[tokio::test]
async fn write_that_is_given_up_leaves_nothing_behind() {
    let world = World::new("blob-dropped");
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let other = world.session().await;
    blob(&other).write(b"old", Expect::Nothing).await.unwrap();
    session.term().sync("/").await.unwrap();
    // Its claim exists, and a shard is in flight.
    proxy.hold_requests_after(1, OpCode::Create2);
    let content = long(1);
    let given_up = blob(&session);
    tokio::select! {
        _ = given_up.write(&content, Expect::Anything) => panic!("it is held"),
        () = held(&proxy) => {}
    }
    assert!(below(&other, PATH).await > 0);
    proxy.heal();
    eventually_async("nothing is left", async || (below(&other, PATH).await == 0).then_some(())).await;
    assert_eq!(value(&other).await, Some(b"old".to_vec()));
}

#[tokio::test]
async fn blob_that_is_deleted_under_a_writer_is_made_anew() {
    let world = World::new("blob-deleted");
    let other = world.session().await;
    let (session, proxy) = world.observer_through_proxy(LONG).await;
    blob(&other).write(&long(0), Expect::Nothing).await.unwrap();
    session.term().sync("/").await.unwrap();
    // Its shards exist, and it is about to commit.
    proxy.hold_requests_after(0, OpCode::Multi);
    let content = long(1);
    let delete = async {
        held(&proxy).await;
        assert_eq!(blob(&other).delete(Expect::Anything).await, Ok(true));
        proxy.heal();
    };
    let session_blob = blob(&session);
    let (written, ()) = tokio::join!(session_blob.write(&content, Expect::Anything), delete);
    written.unwrap();
    assert_eq!(value(&other).await, Some(content));
    assert_eq!(below(&other, PATH).await, 1);
}

#[tokio::test]
async fn damaged_value_is_reported_until_it_is_deleted() {
    let session = World::new("blob-damaged").session().await;
    let (term, blob) = (session.term(), blob(&session));
    for damage in ["flip", "remove"] {
        blob.write(&long(1), Expect::Nothing).await.unwrap();
        let shard = format!("{PATH}/{}", term.children(PATH).await.unwrap()[0]);
        match damage {
            "flip" => drop(term.set(&shard, b"else", None).await.unwrap()),
            _ => term.delete(&shard, None).await.unwrap(),
        }
        assert!(matches!(blob.read().await, Err(BlobError::Damaged { .. })));
        assert_eq!(blob.delete(Expect::Anything).await, Ok(true));
    }
    term.create(PATH, b"not a marker", Kind::Persistent, IfLate::Report).await.unwrap();
    assert!(matches!(blob.write(b"x", Expect::Anything).await, Err(BlobError::Damaged { .. })));
    assert_eq!(blob.delete(Expect::Anything).await, Ok(true));
    blob.write(b"well", Expect::Nothing).await.unwrap();
}
