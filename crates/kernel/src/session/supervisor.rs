//! Keeps a session alive: opens it, runs the driver of each term, and begins the next term when one is over.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tracing::{info, warn};
use zookeeper_client::Acls;

use super::config::Config;
use super::connect::connect;
use super::driver::{Ending, TermDriver};
use super::flight::Background;
use super::lease::LeaseClock;
use super::levels::levels;
use super::term::{Inner, Link, State, Term};
use super::watch::Budget;
use super::{ConnectError, namespace};
use crate::clock::Timer;
use crate::error::whole;

/// The first pause between attempts to begin a new term.
const BACKOFF: Duration = Duration::from_millis(200);
/// The longest pause.
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Opens a ZooKeeper session.
pub async fn begin(
    config: &Config,
    number: u64,
    background: &Arc<Background>,
) -> Result<(Term, TermDriver), ConnectError> {
    let timer = Timer::new().map_err(|error| ConnectError::Timer { why: error.to_string() })?;
    let (asked, client) = connect(config).await?;
    // Before anything else: no reconnect from here on may be missed, because it may come with a shorter time-out.
    let watcher = client.state_watcher();
    let (client, generation) = namespace::enter(client, config).await?;
    let clock = LeaseClock::new(asked, client.session_timeout());
    let client = Arc::new(client);
    let (levels, seen) = levels(&clock);
    let inner = Inner {
        number,
        session_id: client.session_id().0,
        client: RwLock::new(Link::Open(client.clone())),
        seen,
        permits: Arc::new(Semaphore::new(config.in_flight_max)),
        watching: Budget::new(&config.root()),
        background: background.clone(),
        acls: acls(config),
        root_bytes: config.root().len(),
        generation,
    };
    info!(session = format_args!("{:#x}", client.session_id().0), term = number, "session open");
    let driver = TermDriver::new(Arc::downgrade(&client), watcher, levels, clock, timer);
    Ok((Term::new(inner, config.call_timeout), driver))
}

pub fn acls(config: &Config) -> Acls<'static> {
    if config.auth.is_some() { Acls::creator_all() } else { Acls::anyone_all() }
}

/// Drives one term after the other, until the session is closed or its last handle is dropped.
pub async fn run(
    config: Config,
    background: Arc<Background>,
    terms: watch::Sender<Term>,
    state: watch::Sender<State>,
    mut closed: watch::Receiver<bool>,
    mut driver: TermDriver,
) {
    loop {
        let term = terms.borrow().clone();
        let number = term.number();
        let ending = tokio::select! {
            ending = driver.serve(&config, &state) => ending,
            () = terms.closed() => {
                drop(term.take_client());
                Ending::Over
            }
        };
        driver.leave(&state);
        if term.is_closed() {
            return;
        }
        if ending == Ending::Forfeited {
            term.give_up();
        }
        drop(term);
        info!(term = number, "session lost; opening another");
        let (term, next) = tokio::select! {
            begun = next_term(&config, number + 1, &background) => begun,
            () = terms.closed() => return,
            _ = closed.wait_for(|closed| *closed) => return,
        };
        driver = next;
        terms.send_replace(term);
        state.send_replace(State::Connected);
    }
}

async fn next_term(config: &Config, number: u64, background: &Arc<Background>) -> (Term, TermDriver) {
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
