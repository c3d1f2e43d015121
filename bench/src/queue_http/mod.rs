//! `bench queue-http`: queues over HTTP, beside nginx with an empty response.
//!
//! # Layout
//! - `client.rs`: the load. `polls.rs`: waiting readers. `servers.rs`: `menagerie up` and nginx, each with a folder
//!   of its own.

mod client;
mod polls;
mod servers;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use self::client::{Client, request};
use crate::procfs;

/// Concurrent connections.
const CONNECTIONS: usize = 16;
/// Bytes of a message.
const BODY: usize = 100;
/// Messages of one GET.
const BATCH: usize = 100;
/// Partitions of the queue.
const PARTITIONS: usize = 8;
/// Messages in the latency measurement of a waiting reader.
const WAITS: usize = 300;

/// Measure queues over HTTP.
#[derive(clap::Args)]
pub struct QueueHttp {
    /// Measured seconds of each row
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// How often each row is measured
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The `menagerie` binary; beside this one unless given
    #[arg(long)]
    menagerie: Option<PathBuf>,
    /// The `nginx` binary; left out unless given
    #[arg(long, env = "NGINX_SERVER")]
    nginx: Option<PathBuf>,
    /// A folder on the disk under test; not on a file system in memory
    #[arg(long, default_value = "/var/tmp")]
    folder: PathBuf,
}

impl QueueHttp {
    pub fn run(self) -> Result<()> {
        println!("{}", procfs::machine());
        let beside = std::env::current_exe()?.with_file_name("menagerie");
        let menagerie = self.menagerie.unwrap_or(beside);
        let folder = tempfile::tempdir_in(&self.folder).context("cannot make a folder")?;
        let ours = servers::Ours::start(&menagerie, folder.path())?;
        let nginx =
            self.nginx.as_ref().map(|nginx| servers::Nginx::start(nginx, folder.path())).transpose()?;
        let time = Duration::from_secs_f64(self.seconds);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            fill(&ours).await?;
            // First: memory left behind by other loads would hide what they take.
            polls::measure(&ours, time).await?;
            for round in 1..=self.rounds {
                println!("round {round}");
                let body = "x".repeat(BODY);
                let post = |at: usize| {
                    let partition = at % PARTITIONS + 1;
                    let text = String::from_utf8_lossy(&request("POST", "/v1/bench/load", &ours.key, &body))
                        .into_owned();
                    text.replacen("\r\n", &format!("\r\nX-Partition: {partition}\r\n"), 1).into_bytes()
                };
                let posted = rate(ours.address, time, b"201", post).await?;
                row("POST 100 bytes, durable, 16 connections", posted, "/s");
                if let Some(nginx) = &nginx {
                    let empty = rate(nginx.address, time, b"200", post).await?;
                    row("  nginx, the same to an empty 200", empty, "/s");
                    row("  ratio", posted / empty, "");
                }
                let path = format!("/v1/bench/full?limit={BATCH}");
                let get = |_| request("GET", &path, &ours.key, "");
                row(
                    "GET of 100 messages, 16 connections",
                    rate(ours.address, time, b"200", get).await?,
                    "/s",
                );
                let mut late = waits(&ours).await?;
                late.sort_by(f64::total_cmp);
                row("wait= reader has it after the POST was answered, p50", late[late.len() / 2], " ms");
                row("  p99", late[late.len() * 99 / 100], " ms");
            }
            println!("menagerie up: {} MiB resident", procfs::resident_kib(ours.pid())? / 1024);
            Ok(())
        })
    }
}

fn row(what: &str, value: f64, unit: &str) {
    println!("  {what:<56}{value:>12.2}{unit}");
}

/// Creates queues, and messages to read.
async fn fill(ours: &servers::Ours) -> Result<()> {
    let mut client = Client::open(ours.address).await?;
    for form in [
        format!("queue_name=load&partitions={PARTITIONS}"),
        "queue_name=full".into(),
        "queue_name=tail".into(),
    ] {
        client.ask(&request("POST", "/v1/bench", &ours.key, &form), b"201").await?;
    }
    let message = request("POST", "/v1/bench/full", &ours.key, &"x".repeat(BODY));
    for _ in 0..BATCH {
        client.ask(&message, b"201").await?;
    }
    Ok(())
}

/// Requests per second: each connection sends the next request as soon as it has its response.
async fn rate(
    address: SocketAddr,
    time: Duration,
    code: &'static [u8; 3],
    message: impl Fn(usize) -> Vec<u8>,
) -> Result<f64> {
    let mut connections = tokio::task::JoinSet::new();
    let begun = Instant::now();
    for at in 0..CONNECTIONS {
        let message = message(at);
        connections.spawn(async move {
            let mut client = Client::open(address).await?;
            let mut answered = 0_u32;
            while begun.elapsed() < time {
                client.ask(&message, code).await?;
                answered += 1;
            }
            anyhow::Ok(answered)
        });
    }
    let mut answered = 0;
    while let Some(one) = connections.join_next().await {
        answered += one??;
    }
    Ok(f64::from(answered) / begun.elapsed().as_secs_f64())
}

/// Time from the response to a POST until a waiting reader has the message, in milliseconds; negative if the reader
/// is first.
async fn waits(ours: &servers::Ours) -> Result<Vec<f64>> {
    let mut poster = Client::open(ours.address).await?;
    let mut reader = Client::open(ours.address).await?;
    let message = request("POST", "/v1/bench/tail", &ours.key, &"x".repeat(BODY));
    // Start at the newest id: the reader must not wait for what earlier rounds left.
    let newest = request("GET", "/v1/bench/tail?order=descending&limit=1", &ours.key, "");
    let mut last = newest_id(reader.ask(&newest, b"200").await?)?.unwrap_or_else(|| "0.0".to_owned());
    let mut late = Vec::with_capacity(WAITS);
    for _ in 0..WAITS {
        let read =
            request("GET", &format!("/v1/bench/tail?after={last}&order=ascending&wait=10"), &ours.key, "");
        let waiting = async {
            let body = reader.ask(&read, b"200").await?;
            let at = Instant::now();
            anyhow::Ok((at, newest_id(body)?.context("it is there")?))
        };
        let posting = async {
            // By then the reader waits.
            tokio::time::sleep(Duration::from_millis(3)).await;
            poster.ask(&message, b"201").await?;
            anyhow::Ok(Instant::now())
        };
        let ((at, id), answered) = tokio::try_join!(waiting, posting)?;
        last = id;
        let signed = at.saturating_duration_since(answered).as_secs_f64()
            - answered.saturating_duration_since(at).as_secs_f64();
        late.push(signed * 1_000.0);
    }
    Ok(late)
}

/// The id of the last message in a response.
fn newest_id(body: &[u8]) -> Result<Option<String>> {
    let json: serde_json::Value = serde_json::from_slice(body)?;
    let messages = json["messages"].as_array().context("a list")?;
    let id = messages.last().and_then(|message| message["message_id"].as_str());
    Ok(id.map(str::to_owned))
}
