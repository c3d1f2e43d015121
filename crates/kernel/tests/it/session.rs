//! Sessions: their published state, and how they continue.

use std::time::{Duration, Instant};

use menagerie_kernel::session::{Change, IfLate, Rights, State};
use menagerie_kernel::{CallError, ConnectError, Session, Transaction, TransactionError, retry};
use menagerie_testkit::{OpCode, eventually_async, free_port};
use menagerie_znodes::{Kind, Raw, Znode, kernel};

use crate::world::{LONG, SHORT, World};

#[tokio::test]
async fn namespace_is_made_once_and_has_a_generation() {
    let world = World::new("namespace");
    let first = world.session().await;
    let (generation, stat) = first.term().get(kernel::generation().path()).await.unwrap();
    assert!(String::from_utf8(generation.clone()).unwrap().parse::<u64>().unwrap() > 1_700_000_000_000);
    let second = world.session().await;
    assert_eq!(second.term().get(kernel::generation().path()).await.unwrap(), (generation, stat));
}

#[tokio::test]
async fn observer_makes_nothing() {
    let world = World::new("observer");
    let mut config = world.config(LONG);
    config.rights = Rights::Observer;
    let observer = Session::connect(config).await.unwrap();
    assert_eq!(observer.term().stat("/").await, Ok(None));
}

#[tokio::test]
async fn lost_connection_suspends_and_the_same_term_resumes() {
    let (session, proxy) = World::new("suspended").session_through_proxy(LONG).await;
    let term = session.term();
    retry::create(&term, "/mine", b"").await.unwrap();
    proxy.cut();
    let mut state = session.state();
    state.wait_for(|state| *state == State::Suspended).await.unwrap();
    // A read now waits until the connection is back.
    let read = tokio::spawn({
        let term = term.clone();
        async move { term.stat("/mine").await }
    });
    proxy.heal();
    state.wait_for(|state| *state == State::Connected).await.unwrap();
    assert_eq!(read.await.unwrap().unwrap().unwrap().ephemeral_owner, term.session_id());
    assert_eq!(session.term().number(), 1);
}

#[tokio::test]
async fn call_that_cannot_be_sent_in_time_has_not_happened() {
    let world = World::new("unsent");
    let (mut config, proxy) = world.config_through_proxy(LONG);
    config.call_timeout = Duration::from_millis(100);
    let session = Session::connect(config).await.unwrap();
    proxy.cut();
    let mut state = session.state();
    state.wait_for(|state| *state == State::Suspended).await.unwrap();
    let created = session.term().create("/late", b"", Kind::Persistent, IfLate::Report).await;
    assert_eq!(created, Err(CallError::Suspended));
    proxy.heal();
    state.wait_for(|state| *state == State::Connected).await.unwrap();
    assert_eq!(session.term().patient().stat("/late").await, Ok(None));
}

#[tokio::test]
async fn write_that_outlives_its_deadline_is_unknown_and_undone_or_reported() {
    let world = World::new("late");
    let (mut config, proxy) = world.config_through_proxy(LONG);
    config.call_timeout = Duration::from_millis(200);
    let session = Session::connect(config).await.unwrap();
    let mut late = session.late_outcomes();
    let term = session.term();
    proxy.hold_replies();
    let undone = term.create("/undone", b"", Kind::Persistent, IfLate::Undo).await;
    let reported = term.create("/reported", b"", Kind::Persistent, IfLate::Report).await;
    assert_eq!(undone, Err(CallError::Unknown { path: "/undone".to_owned() }));
    assert_eq!(reported, Err(CallError::Unknown { path: "/reported".to_owned() }));
    proxy.heal();
    let outcome = late.recv().await.unwrap();
    assert_eq!((outcome.path.as_str(), outcome.happened), ("/reported", Some(true)));
    let other = world.session().await;
    let other_term = other.term();
    while let (Some(_), gone) = other_term.stat_watched("/undone").await.unwrap() {
        gone.changed().await;
    }
    assert!(other_term.stat("/reported").await.unwrap().is_some());
}

#[tokio::test]
async fn transaction_that_was_given_up_on_and_refused_is_not_said_to_have_happened() {
    let world = World::new("late-refused");
    let (mut config, proxy) = world.config_through_proxy(LONG);
    config.call_timeout = Duration::from_millis(200);
    let session = Session::connect(config).await.unwrap();
    let mut late = session.late_outcomes();
    proxy.hold_replies();
    let nowhere: Znode<Raw> = Znode::foreign("/nowhere", Kind::Persistent);
    let refused = Transaction::new(&session.term()).delete(&nowhere, None).commit().await;
    assert!(refused.unwrap_err().is_unknown());
    proxy.heal();
    let outcome = late.recv().await.unwrap();
    assert_eq!((outcome.path.as_str(), outcome.happened), ("/nowhere", Some(false)));
}

#[tokio::test]
async fn no_more_is_on_its_way_at_once_than_allowed() {
    const ALLOWED: usize = 3;
    let world = World::new("in-flight");
    let (mut config, proxy) = world.config_through_proxy(LONG);
    config.in_flight_max = ALLOWED;
    let session = Session::connect(config).await.unwrap();
    proxy.take_requests();
    proxy.hold_replies();
    let mut reads = tokio::task::JoinSet::new();
    for _ in 0..ALLOWED * 4 {
        let term = session.term();
        reads.spawn(async move { term.stat("/").await });
    }
    let sent = || proxy.requests_of(OpCode::Exists);
    eventually_async("as many as allowed are sent", async || (sent() == ALLOWED).then_some(())).await;
    proxy.heal();
    while let Some(read) = reads.join_next().await {
        assert!(read.unwrap().unwrap().is_some());
    }
    assert_eq!(sent(), ALLOWED * 4);
}

#[tokio::test]
async fn creation_whose_reply_is_lost_happens_once() {
    let (session, proxy) = World::new("lost-reply").session_through_proxy(LONG).await;
    let term = session.term();
    retry::ensure(&term, "/dir", b"").await.unwrap();
    proxy.drop_reply_of(OpCode::Create2);
    let created = retry::create_unique(&term, "/dir", "abc-", b"", Kind::EphemeralSequence).await.unwrap();
    proxy.drop_reply_of(OpCode::Create2);
    let named = retry::create(&term, "/dir-2", b"x").await.unwrap();
    assert_eq!(proxy.dropped_replies(), 2);
    assert_eq!(term.children("/dir").await.unwrap(), [created.path.trim_start_matches("/dir/")]);
    assert_eq!(named.stat.ephemeral_owner, term.session_id());
}

#[tokio::test]
async fn what_was_asked_when_the_server_fell_silent_is_asked_again_or_unknown() {
    let (session, proxy) = World::new("silent").session_through_proxy(LONG).await;
    let term = session.term();
    proxy.partition();
    let calls = tokio::spawn(async move {
        tokio::join!(term.stat("/"), term.create("/w", b"", Kind::Persistent, IfLate::Report))
    });
    // The client gives the connection up by itself.
    session.state().wait_for(|state| *state == State::Suspended).await.unwrap();
    proxy.heal();
    let (read, written) = calls.await.unwrap();
    assert!(read.unwrap().is_some());
    assert_eq!(written, Err(CallError::Unknown { path: "/w".to_owned() }));
    assert_eq!(session.term().number(), 1);
}

#[tokio::test]
async fn silent_session_lapses_before_it_expires_and_is_followed_by_another_term() {
    let world = World::new("expiry");
    let other = world.session().await;
    let (session, proxy) = world.session_through_proxy(SHORT).await;
    let term = session.term();
    retry::create(&term, "/mine", b"").await.unwrap();
    // It may be connected to another server, which lags.
    other.term().sync("/").await.unwrap();
    let (_, gone) = other.term().stat_watched("/mine").await.unwrap();
    proxy.partition();
    let gone = tokio::spawn(async move { (gone.changed().await, Instant::now()) });
    term.lapsed().await;
    let lapsed = Instant::now();
    let (change, gone) = gone.await.unwrap();
    assert_eq!(change, Change::Deleted);
    assert!(lapsed < gone, "the lease ended {:?} after the session", lapsed - gone);
    term.lost().await;
    proxy.heal();
    let next = session.term_after(&term).await.unwrap();
    assert_eq!(next.number(), 2);
    assert_ne!(next.session_id(), term.session_id());
    assert_eq!(term.stat("/mine").await, Err(CallError::Expired));
    assert_eq!(next.stat("/mine").await, Ok(None));
}

#[tokio::test]
async fn lease_moves_forward_as_long_as_heartbeats_are_answered() {
    let session = Session::connect(World::new("lease").config(SHORT)).await.unwrap();
    let mut valid_until = session.term().valid_until();
    let first = *valid_until.borrow();
    valid_until.wait_for(|until| *until > first + SHORT).await.unwrap();
    assert!(!valid_until.borrow().has_passed());
    assert_eq!(session.term().number(), 1);
}

#[tokio::test]
async fn closed_session_takes_its_ephemerals_along_at_once() {
    let world = World::new("close");
    let (session, other) = (world.session().await, world.session().await);
    let term = session.term();
    retry::create(&term, "/mine", b"").await.unwrap();
    session.close().await;
    other.term().sync("/").await.unwrap();
    assert_eq!(other.term().stat("/mine").await, Ok(None));
    assert_eq!(term.stat("/mine").await, Err(CallError::Closed));
}

#[tokio::test]
async fn session_without_handles_is_closed() {
    let world = World::new("dropped");
    let ((session, proxy), other) = (world.session_through_proxy(LONG).await, world.session().await);
    retry::create(&session.term(), "/mine", b"").await.unwrap();
    // It may be connected to another server, which lags.
    other.term().sync("/").await.unwrap();
    let (_, gone) = other.term().stat_watched("/mine").await.unwrap();
    drop(session);
    assert_eq!(gone.changed().await, Change::Deleted);
    assert_eq!(proxy.requests_of(OpCode::CloseSession), 1, "it was closed, not forgotten");
}

#[tokio::test]
async fn nobody_answers() {
    let config = menagerie_kernel::Config::new(format!("127.0.0.1:{}", free_port()), "/menagerie");
    assert!(matches!(Session::connect(config).await, Err(ConnectError::Unreachable { .. })));
    let config = menagerie_kernel::Config::new("", "/menagerie");
    assert!(matches!(Session::connect(config).await, Err(ConnectError::Address { .. })));
}

#[tokio::test]
async fn transaction_under_a_ticket_that_is_gone_changes_nothing() {
    let session = World::new("fenced").session().await;
    let term = session.term();
    let place: Znode<Raw> = Znode::foreign("/place", Kind::Persistent);
    retry::ensure(&term, "/place", b"before").await.unwrap();
    retry::create(&term, "/ticket", b"").await.unwrap();
    let write =
        |data: &[u8]| Transaction::fenced(&term, "/ticket").set(&place, &Raw(data.to_vec()), None).commit();
    write(b"held").await.unwrap();
    retry::delete(&term, "/ticket").await.unwrap();
    assert_eq!(write(b"zombie").await, Err(TransactionError::Lost { ticket: "/ticket".to_owned() }));
    assert_eq!(term.get("/place").await.unwrap().0, b"held");
}
