//! Many watches in one session: as many as are granted survive a lost connection, and one too many is refused.

use menagerie_kernel::session::{Change, IfLate, State, Term, Watch};
use menagerie_kernel::{CallError, Session};
use menagerie_testkit::DEADLINE;
use menagerie_znodes::Kind;
use tokio::task::JoinSet;

use crate::world::{LONG, World};

/// With paths as long as this, few reach the limit.
const NAME_LENGTH: usize = 700;

fn path(number: usize) -> String {
    format!("/{number:0>NAME_LENGTH$}")
}

/// Sets watches for creation until one is refused. Returns the refusal, too.
async fn watch_all(term: &Term) -> (Vec<Watch>, CallError) {
    let mut watches = Vec::new();
    loop {
        match term.stat_watched(&path(watches.len())).await {
            Ok((_, watch)) => watches.push(watch),
            Err(refusal) => return (watches, refusal),
        }
    }
}

async fn create_all(session: &Session, count: usize) {
    let mut creating = JoinSet::new();
    for number in 0..count {
        let term = session.term();
        creating.spawn(async move {
            term.create(&path(number), b"", Kind::Persistent, IfLate::Undo).await.unwrap()
        });
    }
    creating.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_watches_as_are_granted_survive_a_lost_connection() {
    let world = World::new("watches");
    let other = world.session().await;
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let term = session.term();
    let (watches, refusal) = watch_all(&term).await;
    assert!(watches.len() > 100, "only {} were granted", watches.len());
    assert!(
        matches!(&refusal, CallError::Refused { why, .. } if why.contains("several sessions")),
        "{refusal}"
    );

    proxy.cut();
    let mut state = session.state();
    state.wait_for(|state| *state == State::Suspended).await.unwrap();
    proxy.heal();
    state.wait_for(|state| *state == State::Connected).await.unwrap();
    term.stat("/").await.unwrap();
    create_all(&other, watches.len()).await;

    let mut telling = JoinSet::new();
    for watch in watches {
        telling.spawn(watch.changed());
    }
    let told = tokio::time::timeout(DEADLINE, telling.join_all()).await.expect("all of them tell");
    assert!(told.iter().all(|change| *change == Change::Created));
    assert_eq!(session.term().session_id(), term.session_id());
}

#[tokio::test]
async fn a_watch_that_is_dropped_makes_room_for_another() {
    let world = World::new("watches-dropped");
    let session = world.session().await;
    let term = session.term();
    let (mut watches, _) = watch_all(&term).await;
    drop(watches.pop());
    assert!(term.stat_watched(&path(0)).await.is_ok());
    assert!(term.stat("/").await.is_ok(), "who does not watch is not refused");
}
