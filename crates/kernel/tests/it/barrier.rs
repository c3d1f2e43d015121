//! Barriers: waiting for each other.

use std::time::Duration;

use menagerie_kernel::recipes::barrier::Barrier;
use menagerie_kernel::recipes::double_barrier::{DoubleBarrier, DoubleBarrierError, Inside};
use menagerie_kernel::session::{IfLate, State};
use menagerie_kernel::{Config, Session, retry};
use menagerie_testkit::{Ensemble, OpCode, Proxy, eventually_async};
use menagerie_znodes::{Dir, Kind, Znode};
use tokio::task::JoinHandle;

use crate::world::{LONG, SHORT, World};

pub const PATH: &str = "/barriers/go";
const READY: &str = "/barriers/go/ready";

pub fn dir() -> Znode<Dir> {
    Znode::foreign(PATH, Kind::Persistent)
}

fn double(session: &Session, participants: usize, who: &str) -> DoubleBarrier {
    DoubleBarrier::new(session, dir(), participants).identified_by(who)
}

fn enter(barrier: DoubleBarrier) -> JoinHandle<Result<Inside, DoubleBarrierError>> {
    tokio::spawn(async move { barrier.enter().await })
}

fn leave(inside: Inside) -> JoinHandle<Result<(), DoubleBarrierError>> {
    tokio::spawn(inside.leave())
}

/// Waits until this many participants are there.
pub async fn present(session: &Session, wanted: usize) {
    eventually_async(&format!("{wanted} are there"), async || {
        session.term().sync("/").await.unwrap();
        let names = session.term().children(PATH).await.unwrap_or_default();
        (names.iter().filter(|name| *name != "ready").count() == wanted).then_some(())
    })
    .await;
}

#[tokio::test]
async fn all_wait_until_the_barrier_is_down() {
    let world = World::new("barrier");
    let (a, b) = (world.session().await, world.session().await);
    let (barrier, other) = (Barrier::new(&a, dir()), Barrier::new(&b, dir()));
    other.wait().await.unwrap();
    barrier.create().await.unwrap();
    barrier.create().await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(50), other.wait()).await.is_err());
    let waits = tokio::spawn(async move { other.wait().await });
    assert_eq!(barrier.remove().await, Ok(true));
    assert_eq!(barrier.remove().await, Ok(false));
    waits.await.unwrap().unwrap();
}

#[tokio::test]
async fn who_waits_goes_on_after_lost_connections_and_sessions() {
    let world = World::new("barrier-faults");
    let other = Barrier::new(&world.session().await, dir());
    for (timeout, expires) in [(LONG, false), (SHORT, true)] {
        other.create().await.unwrap();
        let (session, proxy) = world.session_through_proxy(timeout).await;
        let barrier = Barrier::new(&session, dir());
        let mut waits = tokio::spawn(async move { barrier.wait().await });
        assert!(tokio::time::timeout(Duration::from_millis(50), &mut waits).await.is_err());
        if expires {
            let term = session.term();
            proxy.partition();
            term.lost().await;
        } else {
            proxy.cut();
            session.state().wait_for(|state| *state == State::Suspended).await.unwrap();
        }
        other.remove().await.unwrap();
        assert!(!waits.is_finished());
        proxy.heal();
        waits.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn lost_replies_put_up_and_take_down_once() {
    let (session, proxy) = World::new("barrier-lost-reply").session_through_proxy(LONG).await;
    let barrier = Barrier::new(&session, dir());
    proxy.drop_reply_of(OpCode::Create2);
    barrier.create().await.unwrap();
    proxy.drop_reply_of(OpCode::Delete);
    assert_eq!(barrier.remove().await, Ok(true));
    assert_eq!(proxy.dropped_replies(), 2);
    barrier.wait().await.unwrap();
}

#[tokio::test]
async fn all_go_in_together_and_out_together_time_and_again() {
    let world = World::new("double");
    let sessions = [world.session().await, world.session().await, world.session().await];
    for _ in 0..3 {
        let mut entering: Vec<_> =
            sessions[..2].iter().map(|session| enter(double(session, 3, "x"))).collect();
        present(&sessions[2], 2).await;
        assert!(entering.iter().all(|entering| !entering.is_finished()));
        entering.push(enter(double(&sessions[2], 3, "last")));
        let mut inside = Vec::new();
        for entering in entering {
            inside.push(entering.await.unwrap().unwrap());
        }
        let last = inside.pop().unwrap();
        let leaving: Vec<_> = inside.into_iter().map(leave).collect();
        eventually_async("the first leave", async || {
            sessions[0].term().stat(READY).await.unwrap().is_none().then_some(())
        })
        .await;
        assert!(leaving.iter().all(|leaving| !leaving.is_finished()));
        last.leave().await.unwrap();
        for leaving in leaving {
            leaving.await.unwrap().unwrap();
        }
    }
    present(&sessions[0], 0).await;
}

#[tokio::test]
async fn who_was_cut_off_when_it_opened_goes_in_although_the_others_leave() {
    let world = World::new("double-missed");
    let other = world.session().await;
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let cut_off = enter(double(&session, 2, "cut-off"));
    present(&other, 1).await;
    proxy.cut();
    session.state().wait_for(|state| *state == State::Suspended).await.unwrap();
    let inside = double(&other, 2, "other").enter().await.unwrap();
    let leaving = leave(inside);
    eventually_async("it leaves", async || other.term().stat(READY).await.unwrap().is_none().then_some(()))
        .await;
    proxy.heal();
    let inside = cut_off.await.unwrap().unwrap();
    assert!(!leaving.is_finished());
    inside.leave().await.unwrap();
    leaving.await.unwrap().unwrap();
}

#[tokio::test]
async fn crash_inside_keeps_nobody_and_lets_nobody_in_too_early() {
    let world = World::new("double-crash");
    let watcher = world.session().await;
    let (doomed, proxy) = world.session_through_proxy(SHORT).await;
    let one = enter(double(&watcher, 2, "one"));
    let crashes = double(&doomed, 2, "crashes").enter().await.unwrap();
    let one = one.await.unwrap().unwrap();
    // One crashes inside: the other leaves as soon as the server knows.
    let leaving = leave(one);
    proxy.partition();
    leaving.await.unwrap().unwrap();
    proxy.heal();
    drop(crashes);
    present(&watcher, 0).await;
    // All crash inside, and leave the `ready` znode behind.
    watcher.term().create(READY, b"", Kind::Persistent, IfLate::Report).await.unwrap();
    let first = enter(double(&watcher, 2, "first"));
    eventually_async("it is tidied up", async || {
        watcher.term().stat(READY).await.unwrap().is_none().then_some(())
    })
    .await;
    present(&watcher, 1).await;
    assert!(!first.is_finished(), "it is alone");
    let second = double(&watcher, 2, "second").enter().await.unwrap();
    let first = leave(first.await.unwrap().unwrap());
    second.leave().await.unwrap();
    first.await.unwrap().unwrap();
}

#[tokio::test]
async fn who_loses_its_session_at_the_door_comes_again() {
    let world = World::new("double-expired");
    let other = world.session().await;
    let (session, proxy) = world.session_through_proxy(SHORT).await;
    let waits = enter(double(&session, 2, "waits"));
    present(&other, 1).await;
    proxy.partition();
    present(&other, 0).await;
    proxy.heal();
    let inside = double(&other, 2, "other").enter().await.unwrap();
    let waits = leave(waits.await.unwrap().unwrap());
    inside.leave().await.unwrap();
    waits.await.unwrap().unwrap();
}

#[tokio::test]
async fn who_loses_its_session_while_it_opens_is_told() {
    let world = World::new("double-lost");
    let other = world.session().await;
    let (session, proxy) = world.session_through_proxy(SHORT).await;
    let waits = enter(double(&session, 2, "waits"));
    present(&other, 1).await;
    // It counts until its session is over; on a busy machine that may be too soon, and then it joins again.
    let inside = loop {
        proxy.partition();
        match tokio::time::timeout(SHORT * 2, double(&other, 2, "other").enter()).await {
            Ok(inside) => break inside.unwrap(),
            Err(_) => proxy.heal(),
        }
        present(&other, 1).await;
    };
    present(&other, 1).await;
    proxy.heal();
    let lost = waits.await.unwrap().unwrap_err();
    assert_eq!(lost, DoubleBarrierError::Lost { path: PATH.to_owned() });
    inside.leave().await.unwrap();
}

#[tokio::test]
async fn replies_lost_at_the_door_and_futures_dropped_there_leave_nothing_behind() {
    let world = World::new("double-dropped");
    let other = world.session().await;
    let (session, proxy) = world.session_through_proxy(LONG).await;
    retry::ensure(&session.term(), PATH, b"").await.unwrap();
    proxy.drop_reply_of(OpCode::Create2);
    let entering = enter(double(&session, 2, "mine"));
    present(&other, 1).await;
    entering.abort();
    present(&other, 0).await;
    proxy.cut_at_reply_of(OpCode::Create2);
    let entering = enter(double(&session, 2, "mine"));
    present(&other, 1).await;
    // The other may be connected to another server, and learn of it before the reply arrives.
    eventually_async("the reply is lost", async || proxy.is_cut().then_some(())).await;
    entering.abort();
    proxy.heal();
    present(&other, 0).await;
    assert_eq!(proxy.dropped_replies(), 2);
}

#[tokio::test]
async fn removed_directory_is_made_again() {
    let world = World::new("double-removed");
    let (a, b) = (world.session().await, world.session().await);
    let waits = enter(double(&a, 2, "waits"));
    present(&b, 1).await;
    let name = b.term().children(PATH).await.unwrap().remove(0);
    retry::delete(&b.term(), &format!("{PATH}/{name}")).await.unwrap();
    let _ = b.term().delete(PATH, None).await;
    present(&b, 1).await;
    let inside = double(&b, 2, "other").enter().await.unwrap();
    let waits = leave(waits.await.unwrap().unwrap());
    inside.leave().await.unwrap();
    waits.await.unwrap().unwrap();
}

#[tokio::test]
async fn elder_leaves_the_next_round_alone_and_is_not_kept_by_it() {
    let world = World::new("double-elder");
    let sessions = [world.session().await, world.session().await, world.session().await];
    let first = enter(double(&sessions[0], 2, "elder"));
    let second = double(&sessions[1], 2, "leaves").enter().await.unwrap();
    let elder = first.await.unwrap().unwrap();
    // One of them leaves and its caller gives up, two others come: the barrier is open again, with the elder still in.
    let leaving = leave(second);
    eventually_async("one leaves", async || {
        sessions[0].term().stat(READY).await.unwrap().is_none().then_some(())
    })
    .await;
    leaving.abort();
    present(&sessions[0], 1).await;
    let third = enter(double(&sessions[1], 2, "next"));
    let fourth = double(&sessions[2], 2, "next").enter().await.unwrap();
    let third = third.await.unwrap().unwrap();
    elder.leave().await.unwrap();
    sessions[0].term().sync("/").await.unwrap();
    assert!(sessions[0].term().stat(READY).await.unwrap().is_some(), "all of the next round are there");
    let third = leave(third);
    fourth.leave().await.unwrap();
    third.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_loses_the_reply_and_then_its_session_is_not_counted_twice() {
    let servers = Ensemble::from_env().start_own();
    let root = servers.fresh_path("double-twice");
    let config = |address: std::net::SocketAddr, timeout| {
        let mut config = Config::new(format!("{address}{root}"), "/menagerie");
        config.timeout = timeout;
        config
    };
    let other = Session::connect(config(servers.address(0), LONG * 4)).await.unwrap();
    retry::ensure(&other.term(), PATH, b"").await.unwrap();
    let proxy = Proxy::new(servers.address(0));
    let session = Session::connect(config(proxy.address(), SHORT)).await.unwrap();
    let term = session.term();
    // Its creation succeeds but the reply is lost; then the server stalls until the client has given up its session.
    proxy.cut_at_reply_of(OpCode::Create2);
    let waits = enter(double(&session, 2, "waits"));
    let name = eventually_async("it is there", async || {
        other.term().children(PATH).await.unwrap().into_iter().find(|name| name != "ready")
    })
    .await;
    servers.pause();
    term.lost().await;
    proxy.heal();
    servers.resume();
    // Its old participant is deleted before the new one is created.
    eventually_async("it comes again", async || {
        let names = other.term().children(PATH).await.unwrap();
        let again = names.iter().any(|other| *other != name && other != "ready");
        assert!(!again || !names.contains(&name), "it is there twice");
        again.then_some(())
    })
    .await;
    assert_eq!(other.term().stat(READY).await, Ok(None), "it is alone");
    let inside = double(&other, 2, "other").enter().await.unwrap();
    let waits = leave(waits.await.unwrap().unwrap());
    inside.leave().await.unwrap();
    waits.await.unwrap().unwrap();
}
