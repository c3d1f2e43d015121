//! What every test needs: a root of its own on the shared ensemble, and sessions in it, behind a proxy or not.

use std::time::{Duration, Instant};

use menagerie_kernel::{Config, ConnectError, Session};
use menagerie_testkit::{DEADLINE, Proxy, ensemble, eventually_async};

/// The shortest session that a busy machine can keep alive.
pub const SHORT: Duration = Duration::from_millis(1000);
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
        connect(self.config(LONG)).await
    }

    /// A session of somebody to whom things happen.
    pub async fn troubled(&self, timeout: Duration) -> (Session, Proxy) {
        let (config, proxy) = self.troubled_config(timeout);
        (connect(config).await, proxy)
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

/// A server of a busy machine may answer too late; that is not what is tested here.
async fn connect(config: Config) -> Session {
    let deadline = Instant::now() + DEADLINE;
    loop {
        match Session::connect(config.clone()).await {
            Err(ConnectError::Unreachable { .. }) if Instant::now() < deadline => {}
            connected => return connected.unwrap(),
        }
    }
}
