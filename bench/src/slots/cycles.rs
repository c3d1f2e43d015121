//! Cycles of acquire and awaited release, each contender with a session and a task of its own.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures_util::future::try_join_all;
use menagerie_kernel::{Config, Session};
use menagerie_slots::{Request, acquire, admin, identity};
use menagerie_znodes::Name;

use crate::kernel::rows::PERMITS;

pub const NAMESPACE: &str = "/bench";

pub async fn cycles_per_s(address: SocketAddr, pool: &str, contenders: usize, time: Duration) -> Result<f64> {
    let config = Config::new(address.to_string(), NAMESPACE);
    let pool = Name::new(pool)?;
    let sessions = try_join_all((0..contenders).map(|_| Session::connect(config.clone()))).await?;
    admin::create(&sessions[0], &pool, PERMITS, "bench").await?;
    let started = Instant::now();
    let until = started + time;
    let contenders: Vec<_> = (0..)
        .zip(&sessions)
        .map(|(number, session)| {
            tokio::spawn(contend(session.clone(), pool.clone(), request(format!("c{number}")), until))
        })
        .collect();
    let mut cycles = 0;
    for contender in contenders {
        cycles += contender.await.context("a contender failed")??;
    }
    let rate = f64::from(cycles) / started.elapsed().as_secs_f64();
    for session in sessions {
        session.close().await;
    }
    Ok(rate)
}

async fn contend(session: Session, pool: Name, request: Request, until: Instant) -> Result<u32> {
    let mut cycles = 0;
    while Instant::now() < until {
        acquire(&session, &pool, &request, |_| {}).await?.release().await?;
        cycles += 1;
    }
    Ok(cycles)
}

/// A request of this process.
pub fn request(holder: String) -> Request {
    Request {
        holder,
        priority: 0,
        ephemeral: false,
        who: None,
        reason: None,
        command: Vec::new(),
        local: identity::local(),
        process: Some(identity::this_process()),
        guard: None,
    }
}
