//! Our journal under load.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use menagerie_journal::client::Address;
use menagerie_journal::token::Token;
use menagerie_journal::{
    Append, Client, Commit, Config, Journal, MessageId, Metrics, NewMessage, PartitionId, Read, Store, Topic,
    TopicConfig,
};

use super::{BATCH, BATCHES, BODY, SINGLES};
use crate::procfs;

pub struct Ours<'a> {
    pub menagerie: &'a Path,
    pub folder: &'a Path,
    pub seconds: f64,
}

/// A running server; dropping it kills it.
struct Running {
    child: Child,
    address: Address,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn topic() -> Topic {
    Topic::new("bench").expect("a name")
}

fn spot(number: u32) -> PartitionId {
    PartitionId::new(topic(), number)
}

/// Messages that compress about as well as JSON does.
fn batch(partition: &PartitionId, size: usize, from: u64) -> Commit {
    let message = |n: u64| {
        let mut body =
            format!("{{\"id\":{n},\"user\":\"user-{}\",\"text\":\"", n.wrapping_mul(0x9e37_79b9) % 100_000)
                .into_bytes();
        let mut noise = n.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1;
        while body.len() < BODY {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            body.push(b'a' + (noise % 26) as u8);
        }
        NewMessage::new(body)
    };
    let appends =
        (0..size as u64).map(|n| Append { partition: partition.clone(), message: message(from + n) });
    Commit { appends: appends.collect(), ..Commit::default() }
}

impl Ours<'_> {
    fn start(&self, name: &str) -> Result<(Running, Duration)> {
        let begun = Instant::now();
        let data = self.folder.join(name);
        let mut child = Command::new(self.menagerie)
            .args(["--log-level", "warn", "journal", "--listen", "127.0.0.1:0", "--unregistered", "--data"])
            .arg(&data)
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", self.menagerie.display()))?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("its output is piped")?).read_line(&mut line)?;
        let address =
            line.trim().strip_prefix("journal ready on ").context("it says where it is")?.to_owned();
        let token = Token::read(&data.join("journal/token"))?;
        Ok((Running { child, address: Address::plain(address, token) }, begun.elapsed()))
    }

    pub async fn rows(&self) -> Result<()> {
        let (running, _) = self.start("ours")?;
        let client = Client::new(running.address.clone());
        client.create_topic(&topic(), TopicConfig::partitions(8)).await?;
        let rate = self.appends(&client, BATCH, BATCHES).await?;
        println!(
            "appends over the socket, {BATCHES} batches of {BATCH} in flight on one connection: {rate:.0}/s"
        );
        let rate = self.appends(&client, 1, SINGLES).await?;
        println!("appends over the socket, {SINGLES} single ones in flight on one connection: {rate:.0}/s");
        let rate = self.singles(&running).await?;
        println!("appends over the socket, single, 16 connections: {rate:.0}/s");
        let rate = self.reads(&client).await?;
        println!("reads over the socket: {rate:.0}/s");
        let (p50, p99) = self.delivery(&client, &running).await?;
        println!("append to delivery for a waiting reader: p50 {p50:.2} ms, p99 {p99:.2} ms");
        drop(running);
        let config = Config::new(self.folder.join("inside"));
        let store = Store::open(config, Metrics::new(&mut prometheus_client::registry::Registry::default()))?;
        store.create_topic(&topic(), TopicConfig::partitions(8)).await?;
        let rate = self.appends(&store, BATCH, BATCHES).await?;
        println!("appends in process, batches of {BATCH}: {rate:.0}/s");
        store.close()?;
        Ok(())
    }

    async fn appends(&self, journal: &dyn Journal, size: usize, in_flight: usize) -> Result<f64> {
        let made: Vec<Commit> =
            (0..16).map(|n| batch(&spot(n % 8 + 1), size, u64::from(n) * size as u64)).collect();
        let mut flight = FuturesUnordered::new();
        let (mut done, mut sent) = (0, 0);
        let begun = Instant::now();
        while begun.elapsed().as_secs_f64() < self.seconds || !flight.is_empty() {
            while flight.len() < in_flight && begun.elapsed().as_secs_f64() < self.seconds {
                flight.push(journal.commit(made[sent % made.len()].clone()));
                sent += 1;
            }
            if let Some(committed) = flight.next().await {
                done += committed?.appends.len();
            }
        }
        Ok(done as f64 / begun.elapsed().as_secs_f64())
    }

    async fn singles(&self, running: &Running) -> Result<f64> {
        let begun = Instant::now();
        let seconds = self.seconds;
        let loops = (0..16u32).map(|n| {
            let client = Client::new(running.address.clone());
            async move {
                let one = batch(&spot(n % 8 + 1), 1, u64::from(n));
                let mut done = 0u64;
                while begun.elapsed().as_secs_f64() < seconds {
                    client.commit(one.clone()).await?;
                    done += 1;
                }
                anyhow::Ok(done)
            }
        });
        let done = futures_util::future::try_join_all(loops).await?;
        Ok(done.iter().sum::<u64>() as f64 / begun.elapsed().as_secs_f64())
    }

    async fn reads(&self, client: &Client) -> Result<f64> {
        let begun = Instant::now();
        let seconds = self.seconds;
        let loops = (1..=4u32).map(|n| async move {
            let (mut after, mut done) = (MessageId::ZERO, 0u64);
            while begun.elapsed().as_secs_f64() < seconds {
                let found = client.read(Read::after(spot(n), after).limit(2000)).await?;
                done += found.messages.len() as u64;
                after = found.messages.last().map_or(MessageId::ZERO, |last| last.id);
            }
            anyhow::Ok(done)
        });
        let done = futures_util::future::try_join_all(loops).await?;
        Ok(done.iter().sum::<u64>() as f64 / begun.elapsed().as_secs_f64())
    }

    async fn delivery(&self, client: &Client, running: &Running) -> Result<(f64, f64)> {
        let reader = Client::new(running.address.clone());
        let mut after = reader.read(Read::after(spot(1), MessageId::ZERO).limit(1)).await?.last;
        let one = batch(&spot(1), 1, 1);
        let mut times = Vec::new();
        for _ in 0..500 {
            let waiting = reader.read(Read::after(spot(1), after).wait(Duration::from_secs(10)));
            let write = async {
                // By then the reader waits.
                tokio::time::sleep(Duration::from_millis(2)).await;
                let begun = Instant::now();
                let _written = client.commit(one.clone()).await;
                begun
            };
            let read = async {
                let batch = waiting.await;
                (Instant::now(), batch)
            };
            let (begun, (ended, batch)) = futures_util::future::join(write, read).await;
            after = batch?.messages.last().map_or(after, |last| last.id);
            times.push((ended - begun).as_secs_f64() * 1000.0);
        }
        times.sort_by(f64::total_cmp);
        Ok((times[times.len() / 2], times[times.len() * 99 / 100]))
    }

    /// Memory with many messages, and the time to reopen them.
    pub async fn stored(&self, messages: u64) -> Result<()> {
        let (running, _) = self.start("stored")?;
        let client = Client::new(running.address.clone());
        client.create_topic(&topic(), TopicConfig::partitions(8)).await?;
        let mut flight = FuturesUnordered::new();
        let mut sent = 0;
        while sent < messages || !flight.is_empty() {
            while flight.len() < BATCHES && sent < messages {
                flight.push(client.commit(batch(&spot((sent / BATCH as u64 % 8) as u32 + 1), BATCH, sent)));
                sent += BATCH as u64;
            }
            if let Some(committed) = flight.next().await {
                committed?;
            }
        }
        let resident = procfs::resident_kib(running.child.id())? / 1024;
        println!("memory with {messages} messages stored: {resident} MiB");
        drop(flight);
        drop(running);
        let (running, took) = self.start("stored")?;
        let resident = procfs::resident_kib(running.child.id())? / 1024;
        println!("reopened after kill -9 within {:.2} s, {resident} MiB", took.as_secs_f64());
        let usage = Client::new(running.address.clone()).usage().await?;
        anyhow::ensure!(
            usage.messages == sent,
            "{} messages are there, {sent} were acknowledged",
            usage.messages
        );
        Ok(())
    }
}
