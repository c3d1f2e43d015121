//! Drives one row against one server and measures it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use serde::Serialize;
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions};

use super::lock::{self, Turn};
use super::rows::{Op, Row};
use crate::procfs;
use crate::servers::{Kind, Server};
use crate::stats::percentile;

/// The data of every znode.
pub const VALUE: [u8; 128] = [42; 128];

/// A plain znode, open to everybody.
pub const PERSISTENT: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());

/// Long enough that no session expires on a busy machine, and within what Apache grants by default.
const SESSION_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Under load, but not measured.
    pub warm_up: Duration,
    pub measured: Duration,
}

/// The result of one run.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Sample {
    pub ops_per_s: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    /// CPU time of the server per operation.
    pub server_cpu_us: f64,
    /// CPU time of this process per operation; where it fills a core, the client is the limit.
    pub client_cpu_us: f64,
    /// Cores kept busy by everything else on the machine: the noise.
    pub other_cores: f64,
}

/// Resources used up to one moment.
struct Usage {
    server: Duration,
    client: Duration,
    machine: Duration,
    at: Instant,
}

impl Usage {
    fn read(server: &Server) -> Result<Self> {
        Ok(Self {
            server: procfs::cpu_time(server.pid())?,
            client: procfs::cpu_time(std::process::id())?,
            machine: procfs::machine_cpu_time()?,
            at: Instant::now(),
        })
    }

    fn since(&self, before: &Self) -> Used {
        let [server, client, machine] = [
            self.server - before.server,
            self.client - before.client,
            self.machine.saturating_sub(before.machine),
        ];
        let others = machine.saturating_sub(server + client);
        Used { server, client, others, elapsed: self.at - before.at }
    }
}

/// Resources used between two moments.
struct Used {
    server: Duration,
    client: Duration,
    others: Duration,
    elapsed: Duration,
}

/// A session with a connection of its own.
pub async fn connect(server: &Server) -> Result<Client> {
    Client::connector()
        .with_session_timeout(SESSION_TIMEOUT)
        .connect(&server.address.to_string())
        .await
        .with_context(|| format!("cannot connect to {} at {}", server.kind.name(), server.address))
}

/// Shared by all clients of a run.
struct Run {
    row: Row,
    /// A directory that only this run uses.
    directory: String,
    turn: Turn,
    start: Instant,
    end: Instant,
}

pub async fn run(server: &Server, row: Row, timing: Timing) -> Result<Sample> {
    let clients = try_join_all((0..row.clients).map(|_| connect(server))).await?;
    let directory = prepare(&clients, row).await.context("cannot prepare the run")?;
    let turn = match server.kind {
        Kind::Apache | Kind::Keeper => Turn::Watched,
        Kind::Null => Turn::Replayed(tokio::sync::Mutex::new(())),
    };
    let start = Instant::now() + timing.warm_up;
    let run = Arc::new(Run { row, directory, turn, start, end: start + timing.measured });
    let tasks: Vec<_> = clients
        .into_iter()
        .enumerate()
        .map(|(number, client)| tokio::spawn(drive(client, number, Arc::clone(&run))))
        .collect();

    tokio::time::sleep_until(run.start.into()).await;
    let before = Usage::read(server)?;
    tokio::time::sleep_until(run.end.into()).await;
    let used = Usage::read(server)?.since(&before);

    let mut latencies_ns = Vec::new();
    for task in tasks {
        latencies_ns.extend(task.await.context("a client panicked")??);
    }
    ensure!(!latencies_ns.is_empty(), "no operation ended within {} ms", timing.measured.as_millis());
    latencies_ns.sort_unstable();
    // The timer may wake us late: CPU clocks were read over that longer time, operations counted over the exact one.
    let ops_per_s = latencies_ns.len() as f64 / timing.measured.as_secs_f64();
    let ops = ops_per_s * used.elapsed.as_secs_f64();
    let per_op_us = |used: Duration| used.as_secs_f64() * 1e6 / ops;
    Ok(Sample {
        ops_per_s,
        p50_us: f64::from(percentile(&latencies_ns, 0.5)) / 1e3,
        p99_us: f64::from(percentile(&latencies_ns, 0.99)) / 1e3,
        server_cpu_us: per_op_us(used.server),
        client_cpu_us: per_op_us(used.client),
        other_cores: used.others.as_secs_f64() / used.elapsed.as_secs_f64(),
    })
}

/// Creates the directory of a run, and what the row expects in it.
async fn prepare(clients: &[Client], row: Row) -> Result<String> {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let directory = format!("/run-{}", RUNS.fetch_add(1, Ordering::Relaxed));
    let first = clients.first().context("a row has clients")?;
    first.create(&directory, &[], &PERSISTENT).await?;
    match row.op {
        Op::Get | Op::Set => {
            for number in 0..clients.len() {
                first.create(&own_znode(&directory, number), &VALUE, &PERSISTENT).await?;
            }
        }
        Op::Create | Op::Lock => {}
    }
    Ok(directory)
}

fn own_znode(directory: &str, client: usize) -> String {
    format!("{directory}/client-{client}")
}

/// One client: several lanes on one session, each with one operation in flight. All lanes share a task, because
/// hundreds of tasks would cost more than the client itself.
async fn drive(client: Client, number: usize, run: Arc<Run>) -> Result<Vec<u32>> {
    let lanes = (0..run.row.in_flight).map(|lane| drive_lane(&client, number, lane, &run));
    Ok(try_join_all(lanes).await?.concat())
}

/// Latencies, in nanoseconds, of the operations that ended during the measurement.
async fn drive_lane(client: &Client, number: usize, lane: usize, run: &Run) -> Result<Vec<u32>> {
    let own = own_znode(&run.directory, number);
    let mut latencies_ns = Vec::new();
    for n in 0u64.. {
        let began = Instant::now();
        match run.row.op {
            Op::Get => drop(client.get_data(&own).await.context("get failed")?),
            Op::Set => drop(client.set_data(&own, &VALUE, None).await.context("set failed")?),
            Op::Create => {
                let path = format!("{}/{number}-{lane}-{n}", run.directory);
                client.create(&path, &VALUE, &PERSISTENT).await.context("create failed")?;
            }
            Op::Lock => lock::cycle(client, &run.directory, &run.turn).await?,
        }
        let ended = Instant::now();
        if ended >= run.end {
            break;
        }
        if ended >= run.start {
            latencies_ns.push(u32::try_from((ended - began).as_nanos()).unwrap_or(u32::MAX));
        }
    }
    Ok(latencies_ns)
}
