//! The end of a session, and its background work.

use std::time::Duration;

use menagerie_kernel::recipes::lock::Lock;
use menagerie_kernel::session::IfLate;
use menagerie_kernel::{CallError, Session};
use menagerie_testkit::eventually_async;
use menagerie_znodes::Kind;

use crate::lock::{DIR, dir};
use crate::world::{LONG, SHORT, World};

#[tokio::test]
async fn session_that_is_closed_between_two_terms_stays_closed() {
    let (session, proxy) = World::new("closed-between").session_through_proxy(SHORT).await;
    let (term, other) = (session.term(), session.clone());
    proxy.cut();
    term.lost().await;
    session.close().await;
    proxy.heal();
    assert_eq!(other.term_after(&term).await.map(|term| term.number()), Err(CallError::Closed));
    // A try to reconnect from before the close may still be under way, and ends; nobody comes after it.
    eventually_async("nobody is connected", async || (proxy.connections() == 0).then_some(())).await;
}

#[tokio::test]
async fn close_that_gives_up_waiting_ends_nothing_that_is_under_way() {
    let world = World::new("impatient");
    let (mut config, proxy) = world.config_through_proxy(LONG);
    config.call_timeout = Duration::from_millis(100);
    let session = Session::connect(config).await.unwrap();
    let mut late = session.late_outcomes();
    proxy.hold_replies();
    let created = session.term().create("/late", b"", Kind::Persistent, IfLate::Report).await;
    assert_eq!(created, Err(CallError::Unknown { path: "/late".to_owned() }));
    session.close().await;
    proxy.heal();
    let outcome = late.recv().await.expect("it is reported although the session is closed");
    assert_eq!((outcome.path.as_str(), outcome.happened), ("/late", Some(true)));
}

#[tokio::test]
async fn guard_is_dropped_where_there_is_no_runtime() {
    let world = World::new("elsewhere");
    let (session, other) = (world.session().await, world.session().await);
    let held = Lock::new(&session, dir()).acquire().await.unwrap();
    std::thread::spawn(move || drop(held)).join().expect("dropping does not panic");
    eventually_async("it is released", async || {
        other.term().sync("/").await.unwrap();
        other.term().children(DIR).await.unwrap().is_empty().then_some(())
    })
    .await;
}
