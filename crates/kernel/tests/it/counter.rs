//! The counter: every addition once, or honestly unknown.

use menagerie_kernel::Session;
use menagerie_kernel::recipes::counter::{Change, Counter, CounterError};
use menagerie_kernel::retry;
use menagerie_testkit::OpCode;
use menagerie_znodes::{Kind, Znode};
use tokio::task::JoinSet;

use crate::world::{LONG, SHORT, World};

pub const PATH: &str = "/counters/hits";

pub fn counter(session: &Session) -> Counter {
    Counter::new(session, Znode::foreign(PATH, Kind::Persistent))
}

#[tokio::test]
async fn additions_of_many_add_up() {
    let world = World::new("counter");
    let first = world.session().await;
    assert_eq!(counter(&first).value().await, Ok(0));
    assert_eq!(counter(&first).add(5).await, Ok(Change { before: 0, after: 5 }));
    assert_eq!(counter(&first).sub(7).await, Ok(Change { before: 5, after: -2 }));
    let mut adders = JoinSet::new();
    for _ in 0..4 {
        let session = world.session().await;
        adders.spawn(async move {
            for _ in 0..10 {
                counter(&session).add(1).await.unwrap();
            }
        });
    }
    adders.join_all().await;
    assert_eq!(counter(&first).value().await, Ok(38));
    assert_eq!(first.term().get(PATH).await.unwrap().0, b"38");
}

#[tokio::test]
async fn what_is_no_whole_number_or_would_be_too_large_is_said() {
    let session = World::new("counter-odd").session().await;
    let counter = counter(&session);
    retry::ensure(&session.term(), PATH, b"1.5").await.unwrap();
    let not_whole = CounterError::NotWhole { path: PATH.to_owned(), stored: "1.5".to_owned() };
    assert_eq!(counter.add(1).await, Err(not_whole));
    session.term().set(PATH, i64::MAX.to_string().as_bytes(), None).await.unwrap();
    assert!(matches!(counter.add(1).await, Err(CounterError::Overflow { .. })));
    assert!(matches!(counter.sub(i64::MIN).await, Err(CounterError::Overflow { .. })));
    assert_eq!(counter.value().await, Ok(i64::MAX));
}

#[tokio::test]
async fn addition_that_nobody_can_vouch_for_is_unknown() {
    let world = World::new("counter-unknown");
    let other = world.session().await;
    let (session, proxy) = world.session_through_proxy(LONG).await;
    counter(&session).add(1).await.unwrap();
    // It has happened, but somebody else could have written the same.
    proxy.drop_reply_of(OpCode::SetData);
    let unknown = CounterError::Unknown { path: PATH.to_owned(), amount: 1 };
    assert_eq!(counter(&session).add(1).await, Err(unknown));
    assert_eq!(proxy.dropped_replies(), 1);
    assert_eq!(counter(&other).value().await, Ok(2));
}

#[tokio::test]
async fn addition_that_provably_did_not_happen_is_made_again() {
    let world = World::new("counter-refused");
    let other = world.session().await;
    let (session, proxy) = world.session_through_proxy(LONG).await;
    counter(&session).add(1).await.unwrap();
    // The request never arrives: the connection breaks before.
    proxy.hold_requests();
    let adding = tokio::spawn({
        let counter = counter(&session);
        async move { counter.add(1).await }
    });
    tokio::task::yield_now().await;
    proxy.lose_connections();
    proxy.heal();
    assert_eq!(adding.await.unwrap(), Ok(Change { before: 1, after: 2 }));
    assert_eq!(counter(&other).value().await, Ok(2));
}

#[tokio::test]
async fn session_that_ends_before_anything_is_written_does_no_harm() {
    let world = World::new("counter-expired");
    let other = world.session().await;
    let (session, proxy) = world.session_through_proxy(SHORT).await;
    counter(&session).add(1).await.unwrap();
    let term = session.term();
    proxy.partition();
    term.lost().await;
    counter(&other).add(1).await.unwrap();
    proxy.heal();
    assert_eq!(counter(&session).add(1).await, Ok(Change { before: 2, after: 3 }));
}
