//! What these tests need besides a [`World`].

pub use menagerie_testkit::{LONG, SHORT, World};
use menagerie_testkit::{Proxy, eventually_async};

/// Waits until the proxy holds the request that it was set up to hold.
pub async fn held(proxy: &Proxy) {
    eventually_async("the request is held", async || proxy.holds_requests().then_some(())).await;
}
