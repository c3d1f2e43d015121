//! Opening ZooKeeper sessions.

use std::time::{Duration, Instant};

use zookeeper_client::{Client, TlsOptions};

use super::ConnectError;
use super::config::{Config, TIMEOUT};
use crate::clock::Moment;

/// Connects. The client gives a server two fifths of the session time-out to answer; with a short time-out that is less
/// than a busy server may need, so we ask silent servers again, for as long as with the default time-out. A refusal
/// counts as an answer. Also returns when the successful attempt began.
pub async fn connect(config: &Config) -> Result<(Moment, Client), ConnectError> {
    let begun = Instant::now();
    loop {
        let (asked, since) = (Moment::now(), Instant::now());
        let connected = connect_once(config, config.hosts(), config.timeout).await;
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

/// Opens a session at one of these servers, and asks for this time-out.
pub async fn connect_once(config: &Config, hosts: &str, timeout: Duration) -> Result<Client, ConnectError> {
    let mut connector = Client::connector().with_session_timeout(timeout).with_fail_eagerly();
    if let Some(auth) = &config.auth {
        connector = connector.with_auth("digest", auth.digest.as_bytes());
    }
    let connected = match &config.tls {
        None => connector.connect(hosts).await,
        Some(tls) => {
            let bad = |source| ConnectError::Tls { why: format!("{source}") };
            let mut options = TlsOptions::new().with_pem_ca(&tls.ca).map_err(bad)?;
            if let Some((certificate, key)) = &tls.identity {
                options = options.with_pem_identity(certificate, key).map_err(bad)?;
            }
            connector.with_tls(options).secure_connect(hosts).await
        }
    };
    connected.map_err(|error| ConnectError::from_client(error, &config.servers))
}
