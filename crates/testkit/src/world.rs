//! Where a fault test begins: a place of its own, and who acts in it.

use std::time::Duration;

use menagerie_kernel::session::Rights;
use menagerie_kernel::{Config, Session};

use crate::daemon::Daemon;
use crate::ensemble::TICK_MS;
use crate::environment::Environment;
use crate::proxy::Proxy;
use crate::servers::Servers;
use crate::shared::ensemble;

/// A session that a test lets expire: the shortest that a busy machine can keep alive while nobody cuts it off.
pub const SHORT: Duration = Duration::from_millis(5 * TICK_MS as u64);
/// A session that ends only when a test ends it: the longest that the servers grant.
pub const LONG: Duration = Duration::from_millis(20 * TICK_MS as u64);
/// Where everybody of a world lives, below the root of the test.
const NAMESPACE: &str = "/menagerie";

/// A root that no other test has, sessions in it, and processes of ours that find it in their environment. What concerns
/// processes blocks: an async test whose sessions must live meanwhile has more than one thread.
#[derive(Debug)]
pub struct World {
    /// The servers with the root behind them.
    servers: String,
    environment: Environment,
}

impl World {
    /// One on the ensemble that all tests share. The name becomes one of a znode, for who debugs.
    #[track_caller]
    pub fn new(name: &str) -> Self {
        Self::at(ensemble().chroot(name))
    }

    /// One on servers of the test's own, for one that kills or pauses them.
    #[track_caller]
    pub fn on(servers: &Servers, name: &str) -> Self {
        Self::at(servers.chroot(name))
    }

    fn at(servers: String) -> Self {
        Self { environment: environment(&servers), servers }
    }

    /// The servers with the root behind them, `host:port[,host:port…]/test-NNN-name`, as clients take it.
    pub fn connect_string(&self) -> &str {
        &self.servers
    }

    /// How a session of somebody gets here.
    pub fn config(&self, timeout: Duration) -> Config {
        config(&self.servers, timeout)
    }

    /// The same through a proxy, which sees and spoils what it asks for.
    pub fn config_through_proxy(&self, timeout: Duration) -> (Config, Proxy) {
        let (servers, proxy) = Proxy::before(&self.servers);
        (config(&servers, timeout), proxy)
    }

    /// A session of somebody to whom nothing happens.
    ///
    /// # Panics
    /// If there is none.
    pub async fn session(&self) -> Session {
        self.session_with(|_| {}).await
    }

    /// The same with other settings: a time-out, rights, a user.
    ///
    /// # Panics
    /// If there is none.
    pub async fn session_with(&self, change: impl FnOnce(&mut Config)) -> Session {
        let mut config = self.config(LONG);
        change(&mut config);
        connect(config).await
    }

    /// A session of somebody to whom things happen.
    ///
    /// # Panics
    /// If there is none.
    pub async fn session_through_proxy(&self, timeout: Duration) -> (Session, Proxy) {
        let (config, proxy) = self.config_through_proxy(timeout);
        (connect(config).await, proxy)
    }

    /// A session without heartbeats, so that every request that the proxy sees is of what is tested.
    ///
    /// # Panics
    /// If there is none.
    pub async fn observer_through_proxy(&self, timeout: Duration) -> (Session, Proxy) {
        let (mut config, proxy) = self.config_through_proxy(timeout);
        config.rights = Rights::Observer;
        (connect(config).await, proxy)
    }

    /// Sets a variable for the processes that are started from now on.
    pub fn with(mut self, variable: &'static str, value: impl Into<String>) -> Self {
        self.environment = self.environment.with(variable, value);
        self
    }

    /// Where processes are started: its folder, and commands that are not to be waited for.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Another one in the same root, as another host is, for processes to which things happen.
    pub fn environment_through_proxy(&self) -> (Environment, Proxy) {
        let (servers, proxy) = Proxy::before(&self.servers);
        (environment(&servers), proxy)
    }

    /// Starts `menagerie` with these arguments, and waits until it is ready: `world.start(&["worker", "mail", "--", "cat"])`.
    ///
    /// # Panics
    /// If it does not say in time that it is ready.
    #[track_caller]
    pub fn start(&self, args: &[&str]) -> Daemon {
        self.environment.start(args)
    }

    /// The same for what listens, on a port that stays its own while it is down: `world.serve(&["journal"])`.
    ///
    /// # Panics
    /// If it does not say in time that it is ready.
    #[track_caller]
    pub fn serve(&self, args: &[&str]) -> Daemon {
        self.environment.serve(args)
    }
}

fn environment(servers: &str) -> Environment {
    Environment::at(servers).with("MENAGERIE_NAMESPACE", NAMESPACE)
}

fn config(servers: &str, timeout: Duration) -> Config {
    let mut config = Config::new(servers, NAMESPACE);
    config.timeout = timeout;
    config
}

async fn connect(config: Config) -> Session {
    let servers = config.servers.clone();
    match Session::connect(config).await {
        Ok(session) => session,
        Err(error) => panic!("no session at {servers}: {error}"),
    }
}
