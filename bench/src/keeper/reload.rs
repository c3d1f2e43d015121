//! How long a server with 1,000,000 znodes takes to be ready again.

use std::time::Instant;

use anyhow::{Result, ensure};
use nix::sys::signal::Signal;
use serde::Serialize;

use super::fill;
use super::load::connect;
use crate::servers::{Kind, Launcher, Server};

const ZNODES: usize = 1_000_000;

#[derive(Debug, Serialize)]
pub struct Reload {
    pub server: Kind,
    pub fill_s: f64,
    /// After SIGKILL.
    pub killed_s: f64,
    /// After SIGTERM.
    pub stopped_s: f64,
}

/// Fills the server and restarts it twice. Kills it first: right after the creates, most is still in the log.
pub async fn measure(launcher: &Launcher, kind: Kind) -> Result<Reload> {
    let server = launcher.start(kind)?;
    let began = Instant::now();
    fill::by_multis(&server, ZNODES).await?;
    let fill_s = began.elapsed().as_secs_f64();
    let server = restart(server, Signal::SIGKILL).await?;
    let killed_s = server.ready_after.as_secs_f64();
    let server = restart(server, Signal::SIGTERM).await?;
    let stopped_s = server.ready_after.as_secs_f64();
    eprintln!(
        "reload       {:<7} filled {fill_s:.1} s, killed {killed_s:.2} s, stopped {stopped_s:.2} s",
        kind.name()
    );
    Ok(Reload { server: kind, fill_s, killed_s, stopped_s })
}

/// A fast restart counts only if nothing is missing afterwards.
async fn restart(server: Server, signal: Signal) -> Result<Server> {
    let server = server.restart(signal)?;
    let found = connect(&server).await?.count_descendants_number("/").await?;
    ensure!(
        found >= ZNODES,
        "{} has {found} znodes after {signal}, {ZNODES} were created",
        server.kind.name()
    );
    Ok(server)
}
