//! Logical time: it rises for all.

use menagerie_kernel::recipes::logical_time::{Ltime, logical_time};
use menagerie_testkit::OpCode;
use menagerie_znodes::kernel;

use crate::world::{LONG, World};

#[tokio::test]
async fn time_rises_strictly_whoever_asks() {
    let world = World::new("ltime");
    let (one, other) = (world.session().await, world.session().await);
    // Both find none, and make it.
    let (first, second) = (one.term(), other.term());
    let (first, second) = tokio::join!(logical_time(&first), logical_time(&second));
    let mut last = first.unwrap().max(second.unwrap());
    for session in [&one, &other, &other, &one] {
        let now = logical_time(&session.term()).await.unwrap();
        assert!(now > last);
        last = now;
    }
    let (_, stat) = one.term().get(kernel::ltime().path()).await.unwrap();
    assert_eq!(Ltime(stat.mzxid), last);
}

#[tokio::test]
async fn time_whose_answer_is_lost_is_asked_again() {
    let (session, proxy) = World::new("ltime-lost").session_through_proxy(LONG).await;
    let before = logical_time(&session.term()).await.unwrap();
    proxy.drop_reply_of(OpCode::SetData);
    let after = logical_time(&session.term()).await.unwrap();
    assert_eq!(proxy.dropped_replies(), 1);
    assert!(after.0 > before.0 + 1, "the lost one counted");
}
