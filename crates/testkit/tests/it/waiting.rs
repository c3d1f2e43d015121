//! Waiting in async tests.

use std::future;

use menagerie_testkit::eventually_async;

#[tokio::test]
async fn a_condition_may_borrow_and_may_wait() {
    let mut looks = 0;
    let seen = eventually_async("three looks", async || {
        looks += 1;
        tokio::task::yield_now().await;
        (looks == 3).then_some(looks)
    });
    assert_eq!(seen.await, 3);
    assert_eq!(eventually_async("a plain closure", || future::ready(Some(1))).await, 1);
}
