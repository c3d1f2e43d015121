//! A session that outlives ZooKeeper's: it publishes its state and until when its lease is valid, and opens a new
//! ZooKeeper session when one expires.

mod access;
mod across;
mod calls;
mod config;
mod connect;
mod driver;
mod flight;
mod lease;
mod levels;
mod namespace;
mod probe;
mod stat;
mod supervisor;
mod term;
mod typed;
mod watch;

use std::sync::Arc;

use thiserror::Error;
use tokio::sync::{broadcast, watch as level};
use tracing::info;

pub use access::{Access, AccessError};
pub use across::{TermByTerm, TermError};
pub use calls::{Created, IfLate, Read, ReadResult};
pub use config::{Auth, Config, Rights, TIMEOUT, Tls};
pub use flight::LateOutcome;
pub use lease::{Granted, LeaseClock};
pub use namespace::{next_generation, now_ms};
pub use stat::Stat;
pub use term::{State, Term};
pub use typed::Versioned;
pub use watch::{Change, TreeEvent, TreeWatch, Watch};

pub(crate) use access::to_client as client_acls;
pub(crate) use calls::{REQUEST_BYTES_MAX, create_mode, fits};

/// Why a session cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the fields of errors name themselves")]
pub enum ConnectError {
    /// No server answers.
    #[error("no ZooKeeper server answers at {servers}")]
    Unreachable { servers: String, why: String },
    /// The list of servers cannot be parsed.
    #[error("{servers:?} is not a list of servers: {why}")]
    Address { servers: String, why: String },
    /// The servers reject our user.
    #[error("ZooKeeper at {servers} refuses our user or its rights: {why}")]
    Denied { servers: String, why: String },
    /// The certificates cannot be used.
    #[error("cannot use the certificates: {why}")]
    Tls { why: String },
    /// The operating system refuses a timer.
    #[error("cannot make a timer for the session: {why}")]
    Timer { why: String },
    /// The namespace belongs to somebody else, or is damaged.
    #[error("{path}{generation}, the generation of the namespace, cannot be read: {why}", generation = menagerie_znodes::kernel::generation())]
    Generation { path: String, why: String },
    /// An import into the namespace is in progress.
    #[error("an import into {path} is not finished")]
    Importing { path: String },
    /// The namespace is not a valid path.
    #[error("{path:?} cannot be a namespace: it must be a path such as /menagerie")]
    Namespace { path: String },
}

impl ConnectError {
    fn from_client(error: zookeeper_client::Error, servers: &str) -> Self {
        use zookeeper_client::Error as E;
        let (servers, why) = (servers.to_owned(), error.to_string());
        match error {
            E::BadArguments(_) => Self::Address { servers, why },
            E::NoAuth | E::AuthFailed | E::InvalidAcl => Self::Denied { servers, why },
            _ => Self::Unreachable { servers, why },
        }
    }
}

/// A connection to the ensemble, through as many ZooKeeper sessions as it takes. Cheap to clone; dropping the last
/// clone closes the ZooKeeper session, also for terms that somebody still has.
#[derive(Clone)]
pub struct Session {
    terms: level::Receiver<Term>,
    state: level::Receiver<State>,
    background: Arc<flight::Background>,
    /// Whether it is closed: then no term follows.
    closed: Arc<level::Sender<bool>>,
    config: Arc<Config>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("term", &*self.terms.borrow()).finish_non_exhaustive()
    }
}

impl Session {
    /// Connects, and reconnects whenever the connection is lost.
    pub async fn connect(config: Config) -> Result<Self, ConnectError> {
        if config.auth.is_none() && config.rights == Rights::Owner {
            info!("no zookeeper.auth is set: what we create is open to everybody who reaches the ensemble");
        }
        let background = flight::Background::new();
        let (term, driver) = supervisor::begin(&config, 1, &background).await?;
        let (terms, terms_seen) = level::channel(term);
        let (state, state_seen) = level::channel(State::Connected);
        let (closed, closed_seen) = level::channel(false);
        let supervisor =
            supervisor::run(config.clone(), background.clone(), terms, state, closed_seen, driver);
        // It ends by itself when the last session handle is gone.
        tokio::spawn(supervisor);
        Ok(Self {
            terms: terms_seen,
            state: state_seen,
            background,
            closed: Arc::new(closed),
            config: Arc::new(config),
        })
    }

    /// The current ZooKeeper session. It may be over already; then the next one is being opened.
    pub fn term(&self) -> Term {
        self.terms.borrow().clone()
    }

    /// The same, as a watchable value: owners re-create their ephemerals in each new term.
    pub fn terms(&self) -> level::Receiver<Term> {
        self.terms.clone()
    }

    /// Waits for a term after `old`. To repeat work there, use [`across_terms`](Self::across_terms).
    pub async fn term_after(&self, old: &Term) -> Result<Term, crate::CallError> {
        let mut terms = self.terms();
        let number = old.number();
        match terms.wait_for(|term| term.number() > number).await {
            Ok(term) => Ok(term.clone()),
            Err(_) => Err(crate::CallError::Closed),
        }
    }

    /// Connected, suspended or lost, as a watchable value.
    pub fn state(&self) -> level::Receiver<State> {
        self.state.clone()
    }

    /// The configuration that it was opened with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Outcomes of writes whose callers had given up.
    pub fn late_outcomes(&self) -> broadcast::Receiver<LateOutcome> {
        self.background.reports()
    }

    /// Ends the ZooKeeper session now, instead of leaving its ephemerals to the time-out; waits for background work
    /// first. Other handles find it closed.
    pub async fn close(self) {
        let patience = self.config.call_timeout;
        let _ = tokio::time::timeout(patience, self.background.settle()).await;
        self.closed.send_replace(true);
        let term = self.term();
        let Some(client) = term.take_client() else { return };
        let mut states = client.state_watcher();
        drop(client);
        let over = async {
            let mut state = states.state();
            while !state.is_terminated() {
                state = states.changed().await;
            }
        };
        let _ = tokio::time::timeout(patience, over).await;
    }
}
