//! The configuration of a keeper.

use std::net::SocketAddr;
use std::path::PathBuf;

use menagerie_wal::Durability;

use crate::core::Limits;

/// The configuration of a keeper.
#[derive(Debug, Clone)]
pub struct Config {
    /// The data folder; created if it does not exist.
    pub data: PathBuf,
    /// Where to listen for plain connections; port 0 picks one.
    pub listen: SocketAddr,
    /// Where to listen for TLS connections, and with what.
    pub tls: Option<(SocketAddr, TlsFiles)>,
    /// When a write counts as durable.
    pub durability: Durability,
    /// The tick: sessions may ask for time-outs between 2 and 20 ticks.
    pub tick_ms: u32,
    /// `super:BASE64`: whoever proves this digest may do everything.
    pub superuser_digest: Option<String>,
    /// Refuse writes beyond a hard quota instead of only counting.
    pub enforce_quota: bool,
    /// Most connections; each is an open file, and the log needs some as well.
    pub connections_max: usize,
    /// Most connections from one address, loopback excepted.
    pub connections_per_address_max: usize,
    /// The four-letter words that are answered.
    pub words: Words,
    /// Most bytes in the buffers of all connections. Beyond this, connections with more than an equal share are cut
    /// off.
    pub held_bytes_max: usize,
    /// Limits on what clients make us write and hold.
    pub limits: Limits,
    /// A snapshot is taken when the log has grown by this much, or by the size of the last snapshot if that is more.
    pub snapshot_after_bytes: u64,
    /// How often containers and znodes with a time to live are swept.
    pub sweep_interval_ms: u64,
}

/// The four-letter words that are answered; others are refused. They need no credentials: whoever can connect can ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words(Vec<&'static str>);

impl Words {
    /// All words that the keeper knows.
    pub const ALL: [&str; 14] = [
        "conf", "cons", "crst", "dump", "envi", "isro", "mntr", "ruok", "srst", "srvr", "stat", "wchc",
        "wchp", "wchs",
    ];
    /// Words that reveal no path and no session, and change nothing: always answered. `envi` has the version; it is all
    /// that kazoo's `server_version()` asks for.
    const HARMLESS: [&str; 7] = ["conf", "envi", "isro", "mntr", "ruok", "srvr", "stat"];

    /// Allows another word, or all of them with `*`; `None` if there is no such word.
    pub fn allow(&mut self, word: &str) -> Option<()> {
        if word == "*" {
            self.0 = Self::ALL.to_vec();
            return Some(());
        }
        let word = Self::ALL.into_iter().find(|known| *known == word)?;
        self.0.push(word);
        Some(())
    }

    /// Whether a word is answered.
    pub fn allows(&self, word: &str) -> bool {
        self.0.contains(&word)
    }
}

impl Default for Words {
    fn default() -> Self {
        Self(Self::HARMLESS.to_vec())
    }
}

/// The files of a TLS listener. They are read again when they change.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// Our certificate chain, PEM.
    pub cert: PathBuf,
    /// Our private key, PEM.
    pub key: PathBuf,
    /// If set, clients must present a certificate that this authority signed.
    pub ca: Option<PathBuf>,
}

impl Config {
    /// A keeper on this folder and address, with default settings.
    pub fn new(data: PathBuf, listen: SocketAddr) -> Self {
        Self {
            data,
            listen,
            tls: None,
            durability: Durability::Fsync,
            tick_ms: 2000,
            superuser_digest: None,
            enforce_quota: false,
            connections_max: connections_max(),
            connections_per_address_max: 60,
            words: Words::default(),
            held_bytes_max: 1 << 30,
            limits: Limits::default(),
            snapshot_after_bytes: 64 << 20,
            sweep_interval_ms: 60_000,
        }
    }

    /// The time-out that a session gets when it asks for `wanted_ms`.
    pub(crate) fn grant_timeout_ms(&self, wanted_ms: i32) -> u32 {
        let wanted = u32::try_from(wanted_ms).unwrap_or(0);
        wanted.clamp(self.tick_ms.saturating_mul(2), self.tick_ms.saturating_mul(20))
    }
}

/// The connections that the limit of open files allows, if the keeper is alone in its process.
fn connections_max() -> usize {
    /// For the log, snapshots, listeners, administration and metrics.
    const RESERVED: u64 = 64;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| usize::try_from(limit.saturating_sub(RESERVED)).unwrap_or(usize::MAX))
}
