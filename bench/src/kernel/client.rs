//! The lock of the ZooKeeper client. It has no semaphore. It releases in the background when it is dropped, so we
//! send the delete ourselves and await it: the benchmark measures a completed release.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures_util::future::try_join_all;
use tokio::task::JoinSet;
use zookeeper_client::{Acls, Client, CreateMode, LockOptions, LockPrefix};

use super::rows::{Recipe, Row};

/// Long enough that no session expires on a busy machine.
const SESSION_TIMEOUT: Duration = Duration::from_secs(30);

pub async fn cycles_per_s(address: SocketAddr, path: &str, row: Row, time: Duration) -> Result<Option<f64>> {
    if row.recipe != Recipe::Lock {
        return Ok(None);
    }
    let connect = (0..row.contenders).map(|_| async {
        Client::connector().with_session_timeout(SESSION_TIMEOUT).connect(&address.to_string()).await
    });
    let clients = try_join_all(connect).await.context("cannot connect")?;
    let started = Instant::now();
    let mut contenders = JoinSet::new();
    for client in &clients {
        contenders.spawn(contend(client.clone(), path.to_owned(), started + time));
    }
    let mut cycles = 0;
    while let Some(contended) = contenders.join_next().await {
        cycles += contended??;
    }
    Ok(Some(cycles as f64 / started.elapsed().as_secs_f64()))
}

async fn contend(client: Client, path: String, until: Instant) -> Result<u64> {
    let mut cycles = 0;
    while Instant::now() < until {
        let prefix = LockPrefix::new_curator(&path, "lock-")?;
        let options = LockOptions::new(Acls::anyone_all())
            .with_ancestor_options(CreateMode::Persistent.with_acls(Acls::anyone_all()))?;
        let lock = client.lock(prefix, b"", options).await.context("cannot acquire")?;
        client.delete(lock.lock_path(), None).await.context("cannot release")?;
        // Dropping it would delete a second time, at its expense.
        std::mem::forget(lock);
        cycles += 1;
    }
    Ok(cycles)
}
