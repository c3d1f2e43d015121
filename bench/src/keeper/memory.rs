//! Resident memory of a fresh server after 100,000 znodes were created.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

use super::fill;
use crate::procfs;
use crate::servers::{Kind, Launcher, Server};

const ZNODES: usize = 100_000;

/// Memory has settled when it has not changed for this long.
const SETTLED: Duration = Duration::from_secs(1);

/// A server that does not settle is measured after this.
const PATIENCE: Duration = Duration::from_secs(15);

#[derive(Debug, Serialize)]
pub struct Memory {
    pub server: Kind,
    pub empty_mib: f64,
    pub filled_mib: f64,
}

/// Starts the server, fills it, and measures before and after.
pub async fn measure(launcher: &Launcher, kind: Kind) -> Result<Memory> {
    let server = launcher.start(kind)?;
    let empty_mib = settled_mib(&server).await?;
    fill::by_creates(&server, ZNODES).await?;
    let filled_mib = settled_mib(&server).await?;
    eprintln!("memory       {:<7} {empty_mib:.1} MiB empty, {filled_mib:.1} MiB filled", kind.name());
    Ok(Memory { server: kind, empty_mib, filled_mib })
}

async fn settled_mib(server: &Server) -> Result<f64> {
    let began = Instant::now();
    let mut kib = procfs::resident_kib(server.pid())?;
    let mut since = began;
    while since.elapsed() < SETTLED && began.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = procfs::resident_kib(server.pid())?;
        if now != kib {
            (kib, since) = (now, Instant::now());
        }
    }
    Ok(kib as f64 / 1024.0)
}
