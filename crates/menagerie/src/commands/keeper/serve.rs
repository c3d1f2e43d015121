//! `menagerie keeper`: serves until it is stopped.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use menagerie_keeper::{Config, Durability, Failure, Keeper, TlsFiles};
use prometheus_client::registry::Registry;
use serde_json::Map;
use tracing::warn;

use super::words;
use crate::client::Connection;
use crate::commands::data::DataArgs;
use crate::exit::CliError;
use crate::files::{Port, Shares};
use crate::role::host::Signals;
use crate::role::{Host, Ready, Role, wait_on_thread};
use crate::{client, ports};

const KIND: &str = "keeper";

/// Own files: log, spare segments, snapshot, backup. Sessions weigh more than any other connections.
pub const PORT: Port = Port { kind: KIND, own_files: 32, weight: 8 };

/// How the keeper is to run.
#[derive(Debug, Args)]
pub struct Serve {
    /// Address for unencrypted connections; port 0 picks a free one.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address, default_value = "127.0.0.1:2181", env = "MENAGERIE_KEEPER_LISTEN")]
    listen: SocketAddr,
    #[command(flatten)]
    data: DataArgs,
    /// When to acknowledge a write: `fsync` once it is on disk, `os` once the operating system has it (a power cut may
    /// then lose acknowledged writes).
    #[arg(long, value_enum, default_value_t = DurabilityArg::Fsync)]
    durability: DurabilityArg,
    /// Length of a tick in milliseconds; session time-outs range from 2 to 20 ticks.
    #[arg(long, value_name = "MS", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=3_600_000))]
    tick: u32,
    /// Address for TLS connections.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address, requires_all = ["tls_cert", "tls_key"])]
    tls_listen: Option<SocketAddr>,
    /// Server certificate chain, PEM. Reloaded when the file changes.
    #[arg(long, value_name = "FILE", requires = "tls_listen")]
    tls_cert: Option<PathBuf>,
    /// Server private key, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_listen")]
    tls_key: Option<PathBuf>,
    /// Require a client certificate signed by this authority, PEM; its subject is the client's x509 identity.
    #[arg(long, value_name = "FILE", requires = "tls_listen")]
    tls_ca: Option<PathBuf>,
    /// Give whoever proves this digest access to everything: `super:BASE64`, where BASE64 is the SHA-1 of
    /// `super:PASSWORD`.
    #[arg(long, value_name = "super:BASE64", value_parser = superuser_digest)]
    super_digest: Option<String>,
    /// Refuse writes beyond a hard quota instead of only counting them.
    #[arg(long)]
    enforce_quota: bool,
    /// Four-letter words to answer besides srvr, ruok, isro, mntr, stat, conf and envi; `*` for all. Some show paths
    /// and sessions to anybody, regardless of access lists.
    #[arg(long, value_name = "WORD,…", value_delimiter = ',', value_parser = words::known, env = "MENAGERIE_KEEPER_WORDS")]
    words: Vec<String>,
    /// Serve /metrics and /healthz on this address.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address)]
    metrics: Option<SocketAddr>,
    /// Allow unencrypted connections from other machines.
    #[arg(long)]
    insecure: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DurabilityArg {
    Fsync,
    Os,
}

fn superuser_digest(text: &str) -> Result<String, String> {
    match text.split_once(':') {
        // base64 writes the 20 bytes of a SHA-1 as 27 characters and one of padding.
        Some(("super", digest)) if digest.len() == 28 && digest.ends_with('=') => Ok(text.to_owned()),
        _ => Err("expected super:BASE64, where BASE64 is the SHA-1 of super:PASSWORD".to_owned()),
    }
}

impl Serve {
    /// Serves until it is stopped.
    pub fn run(self) -> Result<(), CliError> {
        ports::require_loopback(
            self.listen,
            self.insecure,
            "--listen",
            Some("use --tls-listen with certificates"),
        )?;
        let mut host = Host::new(self.metrics, self.insecure, Signals::Host)?;
        let mut config = self.config()?;
        config.connections_max = Shares::of(&[PORT]).connections(PORT);
        if config.durability == Durability::Os {
            warn!("durability is left to the operating system: a power cut may lose acknowledged writes");
        }
        let keeper = start(config, &mut host.registry, "--listen")?;
        host.run(role(keeper, None))
    }

    fn config(self) -> Result<Config, CliError> {
        let tls = match (self.tls_listen, self.tls_cert, self.tls_key) {
            (Some(address), Some(cert), Some(key)) => {
                Some((address, TlsFiles { cert, key, ca: self.tls_ca }))
            }
            _ => None,
        };
        Ok(Config {
            tls,
            durability: match self.durability {
                DurabilityArg::Fsync => Durability::Fsync,
                DurabilityArg::Os => Durability::Os,
            },
            tick_ms: self.tick,
            superuser_digest: self.super_digest,
            enforce_quota: self.enforce_quota,
            words: words::allowed(&self.words),
            ..Config::new(self.data.keeper()?, self.listen)
        })
    }
}

/// Starts a keeper. If the port is taken, the error names its owner and the flag that changes it.
pub fn start(config: Config, registry: &mut Registry, flag: &'static str) -> Result<Keeper, CliError> {
    let tls = config.tls.as_ref().map(|(address, _)| *address);
    Keeper::start(config, registry).map_err(|failure| match failure {
        Failure::Listen { address, source } if source.kind() == std::io::ErrorKind::AddrInUse => {
            let flag = if Some(address) == tls { "--tls-listen" } else { flag };
            CliError::Taken { address, owner: ports::owner(address), flag }
        }
        other => other.into(),
    })
}

/// The role of a started keeper. It registers through `connection`, if given: a keeper that runs alone cannot know
/// whose namespace it will store, and `menagerie status` asks it directly.
pub fn role(keeper: Keeper, connection: Option<Connection>) -> Role {
    Role::new(KIND, async move |life| {
        let stopper = keeper.stopper();
        let ready = Ready::on(keeper.address()).also("tls", keeper.tls_address());
        let mut waiting = wait_on_thread(move || keeper.wait())?;
        let serve = async {
            let session = match &connection {
                Some(connection) => Some(connection.open().await?),
                None => None,
            };
            if let Some(session) = &session {
                life.join(session, Map::new()).await;
            }
            life.ready(ready).await;
            life.stopping().await;
            life.draining().await;
            life.leave().await;
            if let Some(session) = session {
                client::close(session).await;
            }
            Ok(())
        };
        let served = tokio::select! {
            ended = &mut waiting => return ended.expect("the thread sends before it ends").map_err(CliError::from),
            served = serve => served,
        };
        stopper.stop();
        let ended = waiting.await.expect("the thread sends before it ends");
        served.and(ended.map_err(CliError::from))
    })
}
