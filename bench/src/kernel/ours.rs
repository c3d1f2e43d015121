//! Our own recipes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::future::try_join_all;
use menagerie_kernel::recipes::lock::Lock;
use menagerie_kernel::recipes::semaphore::Semaphore;
use menagerie_kernel::{Config, Session};
use menagerie_znodes::{Dir, Kind, Znode};
use tokio::task::JoinSet;

use super::rows::{PERMITS, Recipe, Row};

pub async fn cycles_per_s(address: SocketAddr, path: &str, row: Row, time: Duration) -> Result<f64> {
    let config = Config::new(address.to_string(), "/bench");
    let sessions = try_join_all((0..row.contenders).map(|_| Session::connect(config.clone()))).await?;
    let started = Instant::now();
    let until = started + time;
    let mut contenders = JoinSet::new();
    for session in &sessions {
        contenders.spawn(contend(session.clone(), path.to_owned(), row.recipe, until));
    }
    let mut cycles = 0;
    while let Some(contended) = contenders.join_next().await {
        cycles += contended??;
    }
    let rate = cycles as f64 / started.elapsed().as_secs_f64();
    for session in sessions {
        session.close().await;
    }
    Ok(rate)
}

async fn contend(session: Session, path: String, recipe: Recipe, until: Instant) -> Result<u64> {
    let dir: Znode<Dir> = Znode::foreign(path, Kind::Persistent);
    let mut cycles = 0;
    match recipe {
        Recipe::Lock => {
            let lock = Lock::new(&session, dir);
            while Instant::now() < until {
                lock.acquire().await?.release().await?;
                cycles += 1;
            }
        }
        Recipe::Semaphore => {
            let semaphore = Semaphore::new(&session, dir, PERMITS);
            while Instant::now() < until {
                semaphore.acquire().await?.release().await?;
                cycles += 1;
            }
        }
    }
    Ok(cycles)
}
