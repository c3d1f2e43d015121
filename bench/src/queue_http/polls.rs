//! Waiting readers: what they cost while nothing happens.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::client::{Client, request};
use super::servers::Ours;
use super::{PARTITIONS, row};
use crate::procfs;

/// Concurrently waiting readers.
const READERS: usize = 1_000;
/// By then all of them wait.
const SETTLED: Duration = Duration::from_secs(2);

/// Lets a thousand readers wait, and measures their cost in memory and CPU time, and how long all of them take to
/// receive a message.
pub async fn measure(ours: &Ours, time: Duration) -> Result<()> {
    sleep(SETTLED).await;
    let (resident, idle) = (procfs::resident_kib(ours.pid())?, busy(ours, time).await?);
    let mut readers = JoinSet::new();
    for number in 0..READERS {
        let path = format!("/v1/bench/load?partitions={}&wait=60", number % PARTITIONS + 1);
        let (address, ask) = (ours.address, request("GET", &path, &ours.key, ""));
        readers.spawn(async move {
            let mut client = Client::open(address).await?;
            client.ask(&ask, b"200").await.map(drop)
        });
    }
    sleep(SETTLED).await;
    println!("{READERS} wait= readers at once, before all else");
    let grown = procfs::resident_kib(ours.pid())?.saturating_sub(resident);
    row("resident memory for each", grown as f64 / READERS as f64, " KiB");
    row("CPU while they wait", busy(ours, time).await? * 100.0, " % of a core");
    row("  without them", idle * 100.0, " % of a core");
    let (mut poster, begun) = (Client::open(ours.address).await?, Instant::now());
    let message = String::from_utf8(request("POST", "/v1/bench/load", &ours.key, "x"))?;
    for partition in 1..=PARTITIONS {
        let message = message.replacen("\r\n", &format!("\r\nX-Partition: {partition}\r\n"), 1);
        poster.ask(message.as_bytes(), b"201").await?;
    }
    while let Some(one) = readers.join_next().await {
        one?.context("a reader that waited")?;
    }
    row("a message in each partition: all have theirs after", begun.elapsed().as_secs_f64() * 1_000.0, " ms");
    Ok(())
}

/// Busy processors during this time.
async fn busy(ours: &Ours, time: Duration) -> Result<f64> {
    let (before, begun) = (procfs::cpu_time(ours.pid())?, Instant::now());
    sleep(time).await;
    Ok((procfs::cpu_time(ours.pid())? - before).as_secs_f64() / begun.elapsed().as_secs_f64())
}
