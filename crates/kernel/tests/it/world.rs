//! What every test needs: a root of its own on the shared ensemble, and sessions in it, behind a proxy or not.

use std::time::Duration;

use menagerie_kernel::session::Role;
use menagerie_kernel::{Config, Session};
use menagerie_testkit::{Proxy, ensemble, eventually_async};

/// The shortest session that a busy machine can keep alive.
pub const SHORT: Duration = Duration::from_secs(2);
/// A session that ends only when a test ends it.
pub const LONG: Duration = Duration::from_secs(8);

/// A root of its own.
pub struct World {
    path: String,
}

impl World {
    pub fn new(name: &str) -> Self {
        Self { path: ensemble().fresh_path(name) }
    }

    /// How to reach it.
    pub fn config(&self, timeout: Duration) -> Config {
        let mut config = Config::new(ensemble().connect_string() + &self.path, "/menagerie");
        config.timeout = timeout;
        config
    }

    /// A session of somebody to whom nothing happens.
    pub async fn session(&self) -> Session {
        Session::connect(self.config(LONG)).await.unwrap()
    }

    /// A session of somebody to whom things happen.
    pub async fn troubled(&self, timeout: Duration) -> (Session, Proxy) {
        let (config, proxy) = self.troubled_config(timeout);
        (Session::connect(config).await.unwrap(), proxy)
    }

    /// The same without heartbeats, so that every request is of what is tested.
    pub async fn troubled_observer(&self, timeout: Duration) -> (Session, Proxy) {
        let (mut config, proxy) = self.troubled_config(timeout);
        config.role = Role::Observer;
        (Session::connect(config).await.unwrap(), proxy)
    }

    /// The same, not connected yet.
    pub fn troubled_config(&self, timeout: Duration) -> (Config, Proxy) {
        let proxy = Proxy::new(ensemble().addresses()[0]);
        let mut config = self.config(timeout);
        config.servers = format!("{}{}", proxy.address(), self.path);
        (config, proxy)
    }
}

/// Waits until the proxy holds the request that it was told to.
pub async fn held(proxy: &Proxy) {
    eventually_async("the request is held", async || proxy.holds_requests().then_some(())).await;
}
