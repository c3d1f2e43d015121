//! Probes which session time-out the servers grant.
//!
//! The ZooKeeper client does not expose what it was granted when it reconnected. It asks for the time-out that it had,
//! and a server clamps the wish of a returning session exactly as that of a new one. So a new session that asks for the
//! same gets the same. The client does not expose which server it is connected to either, so we ask all of them, and
//! the shortest counts.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tracing::{debug, warn};

use super::config::Config;
use super::connect::connect_once;
use super::lease::Granted;

/// How long to wait before [`granted`]: each probe costs a server two writes, and many clients may reconnect at once.
pub fn random_delay(timeout: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(0);
    (timeout / 80).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// Asks the servers what they grant to a session that requests `timeout`. Repeats until at least one has answered.
///
/// A server that is down would delay every reconnect, so after the first answer the others get no longer than a tenth
/// of the time-out.
pub async fn granted(config: &Config, timeout: Duration) -> Granted {
    let mut warned = false;
    loop {
        if let Some(granted) = ask_all(config, timeout).await {
            return granted;
        }
        if !std::mem::replace(&mut warned, true) {
            warn!(
                "no server tells which session time-out it grants; leases are not prolonged until one does"
            );
        }
        tokio::time::sleep(timeout / 20).await;
    }
}

async fn ask_all(config: &Config, timeout: Duration) -> Option<Granted> {
    let ask = |host| async move {
        connect_once(config, host, timeout).await.map(|client| client.session_timeout())
    };
    let mut answers: FuturesUnordered<_> = config.hosts().split(',').map(ask).collect();
    let (mut least, mut unanswered): (Option<Duration>, _) = (None, answers.len());
    let patience = tokio::time::sleep(Duration::MAX);
    tokio::pin!(patience);
    loop {
        let answer = tokio::select! {
            answer = answers.next() => answer,
            () = &mut patience => None,
        };
        match answer {
            Some(Ok(granted)) => {
                if least.is_none() {
                    patience.as_mut().reset(tokio::time::Instant::now() + timeout / 10);
                }
                least = Some(least.map_or(granted, |least| least.min(granted)));
                unanswered -= 1;
            }
            Some(Err(error)) => debug!(%error, "a server does not tell which session time-out it grants"),
            None => return least.map(|least| Granted { least, by_all: unanswered == 0 }),
        }
    }
}
