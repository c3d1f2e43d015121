//! Keeps a session alive: opens it, has each term served, and begins the next when one is over.

use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, watch};
use tracing::{info, warn};
use zookeeper_client::{Acls, Client, TlsOptions};

use super::config::{Config, TIMEOUT};
use super::flight::Background;
use super::lease::LeaseClock;
use super::levels::levels;
use super::office::Office;
use super::term::{Inner, State, Term};
use super::watch::Budget;
use super::{ConnectError, namespace};
use crate::clock::{Moment, Timer};
use crate::error::whole;

/// Between two attempts to begin a new term.
const BACKOFF: Duration = Duration::from_millis(200);
/// The same, after many.
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Opens a ZooKeeper session.
pub async fn begin(
    config: &Config,
    number: u64,
    background: &Arc<Background>,
) -> Result<(Term, Office), ConnectError> {
    let timer = Timer::new().map_err(|error| ConnectError::Timer { why: error.to_string() })?;
    let (asked, client) = connect(config).await?;
    // From before anything else is asked: what happens to the connection meanwhile must not be missed.
    let watcher = client.state_watcher();
    let (client, generation) = namespace::enter(client, config).await?;
    let clock = LeaseClock::new(asked, client.session_timeout());
    let client = Arc::new(client);
    let (announced, seen) = levels(&clock);
    let inner = Inner {
        number,
        session_id: client.session_id().0,
        client: RwLock::new(Some(client.clone())),
        seen,
        permits: Arc::new(Semaphore::new(config.in_flight_max)),
        watching: Budget::new(&config.root()),
        background: background.clone(),
        acls: acls(config),
        generation,
    };
    info!(session = format_args!("{:#x}", client.session_id().0), term = number, "session open");
    let office = Office::new(Arc::downgrade(&client), watcher, announced, clock, timer);
    Ok((Term::new(inner, config.call_timeout), office))
}

pub fn acls(config: &Config) -> Acls<'static> {
    if config.auth.is_some() { Acls::creator_all() } else { Acls::anyone_all() }
}

/// Connects. The client gives a server two fifths of the session's time-out to answer; of a short session that is less than a
/// busy server may need, so whoever was silent is asked again, as long as with the usual time-out. A refusal is an answer.
/// Also tells when that was asked for which was answered.
async fn connect(config: &Config) -> Result<(Moment, Client), ConnectError> {
    let begun = Instant::now();
    loop {
        let (asked, since) = (Moment::now(), Instant::now());
        let connected = connect_once(config).await;
        let was_silent = since.elapsed() >= silence(config.timeout);
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
