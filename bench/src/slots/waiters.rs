//! Many waiters hand on one slot.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures_util::future::try_join_all;
use menagerie_kernel::{Config, Session};
use menagerie_slots::{acquire, admin, view};
use menagerie_znodes::Name;

use super::cycles::{NAMESPACE, request};

/// Waiters per session: a host has few.
const PER_SESSION: usize = 10;

/// Time from a release until the next waiter holds; and how often each waiter read the pool.
pub struct HandOver {
    times: Vec<Duration>,
    looks: f64,
}

impl fmt::Display for HandOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |percent: usize| {
            let index = (self.times.len() * percent / 100).min(self.times.len().saturating_sub(1));
            self.times.get(index).map_or(0.0, |time| time.as_secs_f64() * 1e3)
        };
        write!(
            f,
            "hand-over p50 {:.1} ms, p99 {:.1} ms, most {:.1} ms; {:.2} wake-ups each",
            at(50),
            at(99),
            at(100),
            self.looks
        )
    }
}

#[derive(Default)]
struct Shared {
    released: Option<Instant>,
    times: Vec<Duration>,
    looks: usize,
}

pub async fn measure(address: SocketAddr, waiters: usize) -> Result<HandOver> {
    let config = Config::new(address.to_string(), NAMESPACE);
    let pool = Name::new("waiters")?;
    let count = waiters.div_ceil(PER_SESSION).max(1);
    let sessions = try_join_all((0..count).map(|_| Session::connect(config.clone()))).await?;
    admin::create(&sessions[0], &pool, 1, "bench").await?;
    let shared = Arc::new(Mutex::new(Shared::default()));
    let first = acquire(&sessions[0], &pool, &request("first".to_owned()), |_| {}).await?;
    let tasks: Vec<_> = (0..waiters)
        .map(|number| {
            let (session, pool, shared) =
                (sessions[number % count].clone(), pool.clone(), Arc::clone(&shared));
            tokio::spawn(async move { wait(&session, &pool, number, &shared).await })
        })
        .collect();
    // All of them wait, and are idle, before the first hand-over.
    while view::show(&sessions[0], &pool, 0).await?.waiters.len() < waiters {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    locked(&shared).looks = 0;
    locked(&shared).released = Some(Instant::now());
    first.release().await?;
    for task in tasks {
        task.await.context("a waiter failed")??;
    }
    let mut shared = std::mem::take(&mut *locked(&shared));
    shared.times.sort_unstable();
    for session in sessions {
        session.close().await;
    }
    // Each read that led to more waiting, and the one that led in.
    let looks = (shared.looks + waiters) as f64 / waiters.max(1) as f64;
    Ok(HandOver { times: shared.times, looks })
}

async fn wait(session: &Session, pool: &Name, number: usize, shared: &Mutex<Shared>) -> Result<()> {
    let request = request(format!("w{number}"));
    let held = acquire(session, pool, &request, |_| locked(shared).looks += 1).await?;
    let now = Instant::now();
    {
        let mut shared = locked(shared);
        if let Some(released) = shared.released {
            shared.times.push(now.saturating_duration_since(released));
        }
        shared.released = Some(Instant::now());
    }
    Ok(held.release().await?)
}

fn locked(shared: &Mutex<Shared>) -> std::sync::MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
