//! Where a fault test begins: a chroot of its own, with sessions and processes in it.

use std::time::Duration;

use menagerie_kernel::session::Rights;
use menagerie_kernel::{Config, Session};

use crate::daemon::Daemon;
use crate::ensemble::TICK_MS;
use crate::environment::Environment;
use crate::proxy::Proxy;
use crate::servers::Servers;
use crate::shared::ensemble;

/// Time-out of a session that a test lets expire: the shortest that a busy machine can keep alive.
pub const SHORT: Duration = Duration::from_millis(5 * TICK_MS as u64);
/// Time-out of a session that ends only when a test ends it: the longest that the servers grant.
pub const LONG: Duration = Duration::from_millis(20 * TICK_MS as u64);
/// The namespace of every world, below the test's chroot.
const NAMESPACE: &str = "/menagerie";

/// A chroot that no other test uses, sessions in it, and `menagerie` processes that find it in their environment.
/// Calls that concern processes block: an async test whose sessions must live meanwhile needs more than one thread.
#[derive(Debug)]
pub struct World {
    /// The connect string, with the chroot.
    servers: String,
    environment: Environment,
}

impl World {
    /// A world on the shared ensemble. The name becomes part of a znode's name, for debugging.
    #[track_caller]
    pub fn new(name: &str) -> Self {
        Self::at(ensemble().chroot(name))
    }

    /// A world on the test's own servers, which it may kill or pause.
    #[track_caller]
    pub fn on(servers: &Servers, name: &str) -> Self {
        Self::at(servers.chroot(name))
    }

    fn at(servers: String) -> Self {
        Self { environment: environment(&servers), servers }
    }

    /// The connect string, `host:port[,host:port…]/test-NNN-name`.
    pub fn connect_string(&self) -> &str {
        &self.servers
    }

    /// Settings of a session in this world.
    pub fn config(&self, timeout: Duration) -> Config {
        config(&self.servers, timeout)
    }

    /// The same through a proxy, which observes and disturbs it.
    pub fn config_through_proxy(&self, timeout: Duration) -> (Config, Proxy) {
        let (servers, proxy) = Proxy::before(&self.servers);
        (config(&servers, timeout), proxy)
    }

    /// An undisturbed session.
    ///
    /// # Panics
    /// If it cannot be opened.
    pub async fn session(&self) -> Session {
        self.session_with(|_| {}).await
    }

    /// The same with other settings: a time-out, rights, a user.
    ///
    /// # Panics
    /// If it cannot be opened.
    pub async fn session_with(&self, change: impl FnOnce(&mut Config)) -> Session {
        let mut config = self.config(LONG);
        change(&mut config);
        connect(config).await
    }

    /// A session to be disturbed through the proxy.
    ///
    /// # Panics
    /// If it cannot be opened.
    pub async fn session_through_proxy(&self, timeout: Duration) -> (Session, Proxy) {
        let (config, proxy) = self.config_through_proxy(timeout);
        (connect(config).await, proxy)
    }

    /// A session without heartbeats, so that the proxy sees only requests of the code under test.
    ///
    /// # Panics
    /// If it cannot be opened.
    pub async fn observer_through_proxy(&self, timeout: Duration) -> (Session, Proxy) {
        let (mut config, proxy) = self.config_through_proxy(timeout);
        config.rights = Rights::Observer;
        (connect(config).await, proxy)
    }

    /// Sets a variable for processes started from now on.
    pub fn with(mut self, variable: &'static str, value: impl Into<String>) -> Self {
        self.environment = self.environment.with(variable, value);
        self
    }

    /// The environment of its processes: the folder, and commands that are not waited for.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Another environment in the same chroot, like that of another host, for processes to be disturbed through the
    /// proxy.
    pub fn environment_through_proxy(&self) -> (Environment, Proxy) {
        let (servers, proxy) = Proxy::before(&self.servers);
        (environment(&servers), proxy)
    }

    /// Starts `menagerie` with these arguments, and waits until it is ready: `world.start(&["worker", "mail", "--",
    /// "cat"])`.
    ///
    /// # Panics
    /// If it does not report ready in time.
    #[track_caller]
    pub fn start(&self, args: &[&str]) -> Daemon {
        self.environment.start(args)
    }

    /// The same for a role that listens, on a port that stays reserved while it is down: `world.serve(&["journal"])`.
    ///
    /// # Panics
    /// If it does not report ready in time.
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
