//! Servers that grant a session a shorter time-out when it reconnects.

use std::time::Duration;

use menagerie_kernel::recipes::grant::Loss;
use menagerie_kernel::recipes::lock::Lock;
use menagerie_kernel::session::{Change, State};
use menagerie_kernel::{CallError, Moment, Session, Term, retry};
use menagerie_testkit::{Ensemble, OpCode, Proxy, TICK_MS, eventually_async, free_port};

use crate::lock::dir;
use crate::world::{LONG, World};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lease_follows_a_server_that_grants_less_after_a_restart() {
    let mut servers = Ensemble::from_env().start_own();
    let world = World::on(&servers, "shorter");
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let term = session.term();
    retry::create(&term, "/mine", b"").await.unwrap();
    let mut valid_until = term.valid_until();
    let before = *valid_until.borrow_and_update();
    let shorter = LONG / 4;
    servers.restart_all_with_tick(TICK_MS / 4);
    term.timeouts().wait_for(|timeout| *timeout == shorter).await.unwrap();
    assert!(*valid_until.borrow() < before + shorter, "its end went back");
    // Under the new time-out the lease is as good as before.
    term.trusted().await.unwrap();
    assert!(term.is_valid() && *valid_until.borrow() < Moment::after(shorter));
    assert_eq!((session.term().number(), *term.state().borrow()), (1, State::Connected));
    let witness = world.session().await;
    witness.term().sync("/").await.unwrap();
    let (_, gone) = witness.term().stat_watched("/mine").await.unwrap();
    let gone = tokio::spawn(async move { (gone.changed().await, Moment::now()) });
    proxy.partition();
    term.lapsed().await;
    let lapsed = Moment::now();
    let (change, gone) = gone.await.unwrap();
    assert_eq!(change, Change::Deleted);
    assert!(lapsed < gone, "the lease ended {:?} after the session", lapsed - gone);
}

/// Loses the connection, and then the next one before its granted time-out can be known.
async fn lose_twice(term: &Term, proxy: &Proxy) {
    // A round trip takes 2 s; the client waits for 3.2 s.
    proxy.delay(Duration::from_secs(1));
    proxy.lose_connections();
    let mut state = term.state();
    state.wait_for(|state| *state == State::Suspended).await.unwrap();
    assert!(term.is_valid(), "one lost connection ends nothing");
    state.wait_for(|state| *state == State::Connected).await.unwrap();
    assert!(term.is_valid());
    proxy.lose_connections();
    state.wait_for(|state| *state == State::Suspended).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lease_ends_when_nobody_tells_for_too_long_what_a_lost_connection_had() {
    let world = World::new("missed");
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let held = Lock::new(&session, dir()).acquire().await.unwrap();
    let term = session.term();
    lose_twice(&term, &proxy).await;
    assert_eq!(held.lost().await, Loss::Lapsed);
    // Long before its end by the old time-out.
    assert!(!term.is_valid() && *term.valid_until().borrow() == Moment::PAST);
    proxy.delay(Duration::ZERO);
    // The only server has answered.
    term.trusted().await.unwrap();
    assert!(held.is_valid() && session.term().number() == 1);
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_is_given_up_when_nobody_can_find_out_what_it_has() {
    let world = World::new("forfeited");
    let (mut config, proxy) = world.config_through_proxy(LONG);
    // The lost connection may have been one to a server that no longer answers.
    config.servers = config.servers.replacen('/', &format!(",127.0.0.1:{}/", free_port()), 1);
    let session = Session::connect(config).await.unwrap();
    let held = Lock::new(&session, dir()).acquire().await.unwrap();
    let term = session.term();
    lose_twice(&term, &proxy).await;
    proxy.delay(Duration::ZERO);
    let next = session.term_after(&term).await.unwrap();
    assert_eq!(term.stat("/").await, Err(CallError::Expired));
    // Its own place is not in its way.
    let again = Lock::new(&session, dir()).acquire().await.unwrap();
    assert_eq!(again.term().number(), next.number());
    assert!(again.fence() > held.fence());
}

#[tokio::test]
async fn connection_that_is_lost_again_and_again_ends_no_lease() {
    let world = World::new("back");
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let held = Lock::new(&session, dir()).acquire().await.unwrap();
    let (term, lost) = (session.term(), tokio::spawn(held.lost()));
    for _ in 0..5 {
        let opened = proxy.requests_of(OpCode::CreateSession);
        proxy.lose_connections();
        eventually_async("another connection", async || {
            (proxy.requests_of(OpCode::CreateSession) > opened).then_some(())
        })
        .await;
    }
    let (mut valid_until, before) = (term.valid_until(), *term.valid_until().borrow());
    // Heartbeats extend it again, so the time-out is known by then.
    valid_until.wait_for(|until| *until > before).await.unwrap();
    assert!(!lost.is_finished() && term.is_valid() && term.timeout() == LONG);
    assert_eq!(session.term().number(), 1);
    held.release().await.unwrap();
}
