//! Keeps a session alive: watches the client's state, sends the heartbeats of the lease clock, and begins the next term
//! when one is over.

use std::sync::{Arc, RwLock, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, watch};
use tracing::{info, warn};
use zookeeper_client::{Acls, Client, SessionState, StateWatcher, TlsOptions};

use super::config::{Config, Role, TIMEOUT};
use super::flight::Background;
use super::lease::LeaseClock;
use super::term::{Inner, State, Term};
use super::watch::Budget;
use super::{ConnectError, namespace};
use crate::error::whole;

/// Between two attempts to begin a new term.
const BACKOFF: Duration = Duration::from_millis(200);
/// The same, after many.
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// The side of a term that only its supervisor has.
pub struct Office {
    /// Weak, because the ZooKeeper session ends when nobody else has the client any more.
    client: Weak<Client>,
    watcher: StateWatcher,
    state: watch::Sender<State>,
    valid_until: watch::Sender<Instant>,
    trusted_until: watch::Sender<Instant>,
    clock: LeaseClock,
}

/// Opens a ZooKeeper session.
pub async fn begin(
    config: &Config,
    number: u64,
    background: &Arc<Background>,
) -> Result<(Term, Office), ConnectError> {
    let (asked, client) = connect(config).await?;
    let (client, generation) = namespace::enter(client, config).await?;
    let timeout = client.session_timeout();
    let clock = LeaseClock::new(asked, timeout);
    let client = Arc::new(client);
    let (state, state_seen) = watch::channel(State::Connected);
    let (valid_until, valid_until_seen) = watch::channel(clock.valid_until());
    let (trusted_until, trusted_until_seen) = watch::channel(clock.trusted_until());
    let inner = Inner {
        number,
        session_id: client.session_id().0,
        timeout,
        client: RwLock::new(Some(client.clone())),
        state: state_seen,
        valid_until: valid_until_seen,
        trusted_until: trusted_until_seen,
        permits: Arc::new(Semaphore::new(config.in_flight_max)),
        watching: Budget::new(&config.root()),
        background: background.clone(),
        acls: acls(config),
        generation,
    };
    info!(session = format_args!("{:#x}", client.session_id().0), term = number, "session open");
    let watcher = client.state_watcher();
    let client = Arc::downgrade(&client);
    let office = Office { client, watcher, state, valid_until, trusted_until, clock };
    Ok((Term::new(inner, config.call_timeout), office))
}

pub fn acls(config: &Config) -> Acls<'static> {
    if config.auth.is_some() { Acls::creator_all() } else { Acls::anyone_all() }
}

/// Connects. The client gives a server two fifths of the session's time-out to answer; of a short session that is less than a
/// busy server may need, so whoever was silent is asked again, as long as with the usual time-out. A refusal is an answer.
/// Also tells when that was asked for which was answered.
async fn connect(config: &Config) -> Result<(Instant, Client), ConnectError> {
    let begun = Instant::now();
    loop {
        let asked = Instant::now();
        let connected = connect_once(config).await;
        let was_silent = asked.elapsed() >= silence(config.timeout);
        match connected {
            Err(ConnectError::Unreachable { .. }) if was_silent && begun.elapsed() < silence(TIMEOUT) => {}
            connected => return connected.map(|client| (asked, client)),
        }
    }
}

/// How long the client waits for a server's answer.
fn silence(timeout: Duration) -> Duration {
    timeout * 2 / 5
}

async fn connect_once(config: &Config) -> Result<Client, ConnectError> {
    let mut connector = Client::connector().with_session_timeout(config.timeout).with_fail_eagerly();
    if let Some(auth) = &config.auth {
        connector = connector.with_auth("digest", auth.digest.as_bytes());
    }
    let connected = match &config.tls {
        None => connector.connect(config.hosts()).await,
        Some(tls) => {
            let bad = |source| ConnectError::Tls { why: format!("{source}") };
            let mut options = TlsOptions::new().with_pem_ca(&tls.ca).map_err(bad)?;
            if let Some((certificate, key)) = &tls.identity {
                options = options.with_pem_identity(certificate, key).map_err(bad)?;
            }
            connector.with_tls(options).secure_connect(config.hosts()).await
        }
    };
    connected.map_err(|error| ConnectError::from_client(error, &config.servers))
}

/// Serves one term after the other, until the session is closed or its last handle is gone.
pub async fn run(
    config: Config,
    background: Arc<Background>,
    terms: watch::Sender<Term>,
    state: watch::Sender<State>,
    mut closed: watch::Receiver<bool>,
    mut office: Office,
) {
    loop {
        let term = terms.borrow().clone();
        let number = term.number();
        tokio::select! {
            () = office.serve(&config, &state) => {}
            () = terms.closed() => drop(term.take_client()),
        }
        office.leave(&state);
        if term.is_closed() {
            return;
        }
        drop(term);
        info!(term = number, "session lost; opening another");
        let (term, next) = tokio::select! {
            begun = next_term(&config, number + 1, &background) => begun,
            () = terms.closed() => return,
            _ = closed.wait_for(|closed| *closed) => return,
        };
        office = next;
        terms.send_replace(term);
        state.send_replace(State::Connected);
    }
}

async fn next_term(config: &Config, number: u64, background: &Arc<Background>) -> (Term, Office) {
    let mut backoff = BACKOFF;
    loop {
        match begin(config, number, background).await {
            Ok(begun) => return begun,
            Err(error) => warn!(error = %whole(&error), "cannot open a session yet"),
        }
        tokio::time::sleep(backoff).await;
        backoff = (backoff * 2).min(BACKOFF_MAX);
    }
}

impl Office {
    /// Follows the client until its session is over.
    async fn serve(&mut self, config: &Config, session_state: &watch::Sender<State>) {
        let heartbeats = config.role == Role::Owner;
        let mut watcher = self.watcher.clone();
        let mut now = watcher.state();
        loop {
            let state = match now {
                SessionState::SyncConnected | SessionState::ConnectedReadOnly => State::Connected,
                SessionState::Disconnected => State::Suspended,
                SessionState::AuthFailed | SessionState::Expired | SessionState::Closed => return,
            };
            self.state.send_replace(state);
            session_state.send_replace(state);
            tokio::select! {
                changed = watcher.changed() => now = changed,
                () = self.beat(), if heartbeats && state == State::Connected => now = watcher.state(),
            }
        }
    }

    /// Sends heartbeats, one after the other, until one is not answered. A heartbeat is a write: the follower that we
    /// talk to cannot answer it without its leader. It checks that our root exists, and changes nothing.
    async fn beat(&mut self) {
        loop {
            let sent = Instant::now();
            if !self.beat_once().await {
                // The state will tell what is wrong; not before the connection is back is there anything to send.
                tokio::time::sleep(self.clock.interval() / 4).await;
                return;
            }
            self.clock.answered(sent);
            self.valid_until.send_replace(self.clock.valid_until());
            self.trusted_until.send_replace(self.clock.trusted_until());
            tokio::time::sleep_until((sent + self.clock.interval()).into()).await;
        }
    }

    async fn beat_once(&self) -> bool {
        let Some(client) = self.client.upgrade() else { return false };
        let mut write = client.new_multi_writer();
        write.add_check_version("/", -1).is_ok() && write.commit().await.is_ok()
    }

    fn leave(&self, session_state: &watch::Sender<State>) {
        self.state.send_replace(State::Lost);
        session_state.send_replace(State::Lost);
    }
}
