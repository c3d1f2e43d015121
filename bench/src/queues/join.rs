//! A tenth worker joins nine: how long until assignments settle, and whether partitions that stay pause.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use menagerie_journal::NewMessage;
use menagerie_kernel::recipes::settle::Rule;
use menagerie_kernel::{Config, Session};
use menagerie_queues::admin::{self, Destination, Putter, show};
use menagerie_queues::metrics::Metrics;
use menagerie_queues::task::{Outcome, Work};
use menagerie_queues::worker::{self, Deps, Options, Order};
use menagerie_queues::{Journals, Origin};
use menagerie_znodes::Name;
use menagerie_znodes::queues::{PartitionName, QueueName};
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;

use super::PATIENCE;
use crate::stats::Spread;

const WORKERS: usize = 9;
const PARTITIONS: u16 = 40;
const SETTLE: Duration = Duration::from_secs(3);
/// Interval between two messages of each partition: a much longer pause would show.
const BEAT: Duration = Duration::from_millis(20);

/// By partition: which worker handled a message, and when.
type Log = Arc<Mutex<BTreeMap<PartitionName, Vec<(usize, Instant)>>>>;

pub async fn measure(keeper: SocketAddr, journals: &Journals, rounds: usize) -> Result<()> {
    let (mut beyond, mut gaps) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let (late, gap) = once(keeper, journals, &format!("join-{round}").parse()?).await?;
        beyond.push(late);
        gaps.push(gap);
    }
    let show = |values: &[f64]| {
        Spread::of(values.iter().copied())
            .map_or("-".to_owned(), |s| format!("{:.3} s ({:.3}–{:.3})", s.median, s.min, s.max))
    };
    println!(
        "\na 10th worker joins 9, {PARTITIONS} partitions, a message each {} ms in each",
        BEAT.as_millis()
    );
    println!("settled beyond the settle time of {} s: {}", SETTLE.as_secs(), show(&beyond));
    println!("longest gap in a partition that did not move: {}", show(&gaps));
    Ok(())
}

struct Running(mpsc::Sender<Order>, tokio::task::JoinHandle<()>);

async fn once(keeper: SocketAddr, journals: &Journals, queue: &QueueName) -> Result<(f64, f64)> {
    let namespace = format!("/{queue}");
    let config = || Config::new(keeper.to_string(), namespace.clone());
    let session = Session::connect(config()).await?;
    admin::create(&session, journals, queue, PARTITIONS, "main").await?;
    let log = Log::default();
    let mut workers = Vec::new();
    for number in 0..WORKERS {
        workers.push(start(Session::connect(config()).await?, journals, queue, number, &log)?);
    }
    let shares = |share: usize, many: usize| {
        let session = session.clone();
        async move {
            let deadline = Instant::now() + PATIENCE;
            loop {
                let listed = show::workers(&session).await?;
                let taken: usize = listed.iter().map(|worker| worker.partitions.len()).sum();
                if listed.len() == many
                    && taken == usize::from(PARTITIONS)
                    && listed.iter().all(|worker| worker.partitions.len() <= share)
                {
                    return anyhow::Ok(());
                }
                ensure!(Instant::now() < deadline, "it does not settle: {listed:?}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    };
    shares(5, WORKERS).await?;
    let feed = tokio::spawn(feed(Putter::open(&session, journals, queue, 0, Origin::library()).await?));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let late = Session::connect(config()).await?;
    let began = Instant::now();
    workers.push(start(late, journals, queue, WORKERS, &log)?);
    shares(4, WORKERS + 1).await?;
    let beyond = began.elapsed().as_secs_f64() - SETTLE.as_secs_f64();
    tokio::time::sleep(Duration::from_secs(1)).await;
    feed.abort();
    let gap = longest_gap(&log, began);
    for Running(orders, run) in workers {
        let _ = orders.send(Order::Abort).await;
        let _ = run.await;
    }
    Ok((beyond, gap))
}

fn start(
    session: Session,
    journals: &Journals,
    queue: &QueueName,
    number: usize,
    log: &Log,
) -> Result<Running> {
    let log = log.clone();
    let task = move |work: Work| {
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        log.entry(work.partition).or_default().push((number, Instant::now()));
        let done = vec![Outcome::Done; work.messages.len()];
        async move { done }
    };
    let settle = Rule { quiet: SETTLE, cap: SETTLE * 10 };
    let options = Options { settle, ..Options::new(Name::new(format!("w{number}"))?, vec![queue.clone()]) };
    let metrics = Metrics::new(&mut Registry::default());
    let deps = Deps { session, journals: journals.clone(), task: Arc::new(task), metrics };
    let (orders, received) = mpsc::channel(1);
    let run = tokio::spawn(async move {
        if let Err(error) = worker::run(deps, options, received).await {
            eprintln!("a worker has ended: {error}");
        }
    });
    Ok(Running(orders, run))
}

async fn feed(mut putter: Putter) {
    let mut ticks = tokio::time::interval(BEAT);
    loop {
        ticks.tick().await;
        let messages =
            (1..=PARTITIONS).map(|number| (Destination::Partition(number), NewMessage::new("x"))).collect();
        if putter.put(messages).await.is_err() {
            return;
        }
    }
}

/// The longest pause since then in a partition that stayed with one worker.
fn longest_gap(log: &Log, since: Instant) -> f64 {
    let log = log.lock().unwrap_or_else(PoisonError::into_inner);
    let stayed = log.values().filter(|runs| runs.iter().all(|(worker, _)| *worker == runs[0].0));
    let gaps = stayed.flat_map(|runs| {
        let recent = runs.windows(2).filter(|pair| pair[1].1 > since);
        recent.map(|pair| (pair[1].1 - pair[0].1).as_secs_f64()).collect::<Vec<_>>()
    });
    gaps.fold(0.0, f64::max)
}
