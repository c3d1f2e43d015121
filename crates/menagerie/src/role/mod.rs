//! The life of every server, and the only place that knows its order:
//!
//! options checked → sockets bound → metrics registered (so far the command, which builds a [`Role`] of it) → signals
//! handled → ZooKeeper session → registered under `/components/<kind>` as `initializing` → ready: `running`, ready
//! line, systemd notified → told to stop: `paused`, finishes what is in flight → `stopped`, left.
//!
//! `up` starts the next role of its list only when the one before is ready, and SIGTERM stops them in the opposite order. A
//! second signal ends the process. A role that fails ends all roles of its process, with its own error. The journal serves
//! without ZooKeeper, and registers when it can be reached.
//!
//! - this file: a role as a value. [`life`]: what a role is given to live by. [`host`]: the process that runs one
//!   role, or several in the order of their dependencies.

pub mod host;
pub mod life;

use std::net::SocketAddr;
use std::pin::Pin;
use std::thread;

use menagerie_kernel::Session;
use serde_json::{Map, Value};
use tokio::sync::oneshot;

pub use host::Host;
pub use life::{Life, Stopper};

use crate::client::{self, Connection};
use crate::exit::CliError;

type Listen = Box<dyn FnOnce(Stopper) -> Result<(), CliError> + Send>;
type Serving = Pin<Box<dyn Future<Output = Result<(), CliError>>>>;

/// A server that has not started yet: its options are checked, its sockets bound, its metrics registered.
pub struct Role {
    /// Its name in its ready line, under `/components`, and in logs.
    kind: &'static str,
    /// For a role that handles more signals than those that stop it.
    listen: Option<Listen>,
    serve: Box<dyn FnOnce(Life) -> Serving + Send>,
}

/// What a role reports when it serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// What follows `<kind> ready` in its ready line.
    words: String,
    /// Where it listens, if it does.
    pub address: Option<SocketAddr>,
    /// Further addresses, with their names.
    also: Vec<(&'static str, SocketAddr)>,
}

impl Ready {
    /// A role that listens on this address.
    pub fn on(address: SocketAddr) -> Self {
        Self { words: format!(" on {address}"), address: Some(address), also: Vec::new() }
    }

    /// A role that neither listens nor has a name.
    pub fn plain() -> Self {
        Self { words: String::new(), address: None, also: Vec::new() }
    }

    /// A role that does not listen, and is known by this name.
    pub fn named(name: &str) -> Self {
        Self { words: format!(" as {name}"), address: None, also: Vec::new() }
    }

    /// Adds a further address; prints `<kind> <name> on HOST:PORT`.
    pub fn also(mut self, name: &'static str, address: Option<SocketAddr>) -> Self {
        self.also.extend(address.map(|address| (name, address)));
        self
    }

    /// The lines to print. Scripts read them one by one, so their order is fixed: the ready line is the first of a
    /// role that listens, and the last of one that does not.
    pub fn lines(&self, kind: &str) -> Vec<String> {
        let ready = format!("{kind} ready{}", self.words);
        let mut lines: Vec<String> =
            self.also.iter().map(|(name, address)| format!("{kind} {name} on {address}")).collect();
        let place = if self.address.is_some() { 0 } else { lines.len() };
        lines.insert(place, ready);
        lines
    }
}

impl Role {
    /// A role that opens its own session, or needs none. It reports when it is [ready](Life::ready), and returns when
    /// it has been told to stop and has drained.
    pub fn new(
        kind: &'static str,
        serve: impl AsyncFnOnce(&Life) -> Result<(), CliError> + Send + 'static,
    ) -> Self {
        let serve = move |life: Life| -> Serving { Box::pin(async move { serve(&life).await }) };
        Self { kind, listen: None, serve: Box::new(serve) }
    }

    /// A role that cannot work without ZooKeeper: it is given a session, and stays registered with these details
    /// while it serves.
    pub fn with_session(
        kind: &'static str,
        connection: Connection,
        details: Map<String, Value>,
        serve: impl AsyncFnOnce(&Session, &Life) -> Result<(), CliError> + Send + 'static,
    ) -> Self {
        Self::new(kind, async move |life| {
            let session = tokio::select! {
                session = connection.open() => session?,
                () = life.stopping() => return Ok(()),
            };
            life.join(&session, details).await;
            let served = serve(&session, life).await;
            life.leave().await;
            client::close(session).await;
            served
        })
    }

    /// Its name in its ready line, under `/components`, and in logs.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Lets the role handle its own signals, from before it connects: for a host that does not
    /// ([`host::Signals::Role`]).
    pub fn listening(self, listen: impl FnOnce(Stopper) -> Result<(), CliError> + Send + 'static) -> Self {
        Self { listen: Some(Box::new(listen)), ..self }
    }
}

/// Waits for something that blocks, on a thread of its own. Nobody waits for that thread when the role fails or panics.
pub fn wait_on_thread<T: Send + 'static>(
    wait: impl FnOnce() -> T + Send + 'static,
) -> Result<oneshot::Receiver<T>, CliError> {
    let (done, waiting) = oneshot::channel();
    let run = move || drop(done.send(wait()));
    thread::Builder::new().name("wait".to_owned()).spawn(run).map_err(CliError::io("start a thread"))?;
    Ok(waiting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_line_is_the_first_of_a_role_that_listens_and_the_last_of_others() {
        let address: SocketAddr = "127.0.0.1:2181".parse().unwrap();
        let tls: SocketAddr = "127.0.0.1:2281".parse().unwrap();
        let ready = Ready::on(address).also("tls", Some(tls)).also("more", None);
        assert_eq!(ready.lines("keeper"), ["keeper ready on 127.0.0.1:2181", "keeper tls on 127.0.0.1:2281"]);
        let named = Ready::named("db1-7").also("metrics", Some(tls));
        assert_eq!(named.lines("worker"), ["worker metrics on 127.0.0.1:2281", "worker ready as db1-7"]);
    }
}
