//! Reports positions to the journals and asks them for lags. Only for display: the cursor in ZooKeeper is the truth,
//! and a position that a journal does not take is reported again. Along the way, trims what has outlived its retention.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use menagerie_journal::{Commit, Journal, JournalError, MessageId, Move, Remedy, StateWrite, Ticks, Topic};
use menagerie_znodes::queues::{Keep, PartitionName, QueueName};
use tokio::time::timeout;
use tracing::debug;

use super::trim::{Trim, trim};
use crate::coordination::claim::{self, FencedJournal};
use crate::core::machine::{Owned, Progress};
use crate::core::retention::trim_through;
use crate::metrics::Metrics;

/// Skip a journal that takes longer, so that the others do not wait for it.
const JOURNAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Position of a partition, and where to report it.
pub struct Position {
    pub fenced: FencedJournal,
    pub progress: Progress,
}

/// What the journals answered.
#[derive(Default)]
pub struct Report {
    /// Positions that the journals know.
    pub known: Vec<(PartitionName, MessageId)>,
    /// Partitions that another worker has opened since.
    pub lost: Vec<Owned>,
    /// Messages waiting.
    pub lags: Vec<(PartitionName, u64)>,
}

impl Report {
    fn add(&mut self, Self { known, lost, lags }: Self) {
        self.known.extend(known);
        self.lost.extend(lost);
        self.lags.extend(lags);
    }
}

/// What is reported of a partition.
#[derive(Clone)]
struct Item {
    owned: Owned,
    position: MessageId,
    moved: Option<Move>,
    activity: Option<StateWrite>,
}

/// The report to one journal.
struct JournalReport {
    journal: Arc<dyn Journal>,
    items: Vec<Item>,
    queues: BTreeMap<QueueName, Topic>,
    /// Last handled message of each.
    partitions: BTreeMap<PartitionName, MessageId>,
}

/// Reports to all journals concurrently. `keep` gives a queue's retention; without one, nothing is dropped.
pub async fn report(
    positions: Vec<Position>,
    keep: impl Fn(&QueueName) -> Option<Keep>,
    metrics: &Metrics,
) -> Report {
    let mut report = Report::default();
    let mut reports: Vec<JournalReport> = Vec::new();
    for Position { fenced, progress } in positions {
        let Progress { owned, position, handled, is_reported, activity } = progress;
        let partition = owned.partition.clone();
        let found = reports.iter().position(|one| Arc::ptr_eq(&one.journal, &fenced.journal));
        let index = found.unwrap_or(reports.len());
        if found.is_none() {
            reports.push(JournalReport::of(fenced.journal.clone()));
        }
        let one = &mut reports[index];
        one.queues.insert(partition.queue().clone(), fenced.partition.topic.clone());
        one.partitions.insert(partition.clone(), handled);
        let moved = fenced.position(position).filter(|_| !is_reported);
        let activity = activity.map(|activity| fenced.activity(&activity));
        match moved.is_some() || activity.is_some() {
            true => one.items.push(Item { owned, position, moved, activity }),
            false => report.known.push((partition, position)),
        }
    }
    let exchanged = reports.into_iter().map(|one| timeout(JOURNAL_TIMEOUT, one.exchange(&keep, metrics)));
    join_all(exchanged).await.into_iter().flatten().for_each(|exchanged| report.add(exchanged));
    report
}

impl JournalReport {
    fn of(journal: Arc<dyn Journal>) -> Self {
        Self { journal, items: Vec::new(), queues: BTreeMap::new(), partitions: BTreeMap::new() }
    }

    async fn exchange(self, keep: impl Fn(&QueueName) -> Option<Keep>, metrics: &Metrics) -> Report {
        let mut report = report_items(&*self.journal, self.items, metrics).await;
        let mut trims = Vec::new();
        for (queue, topic) in self.queues {
            let (keep, now) = (keep(&queue), Ticks::now());
            for stats in self.journal.stats(&topic).await.unwrap_or_default() {
                let partition = queue.partition(number(&stats));
                let Some(handled) = self.partitions.get(&partition) else { continue };
                let through = keep.and_then(|keep| trim_through(&stats, *handled, keep, now));
                trims.extend(through.map(|through| Trim::of(&topic, &stats, through)));
                report.lags.push((partition, claim::lag(&stats)));
            }
        }
        trim(&*self.journal, trims).await;
        report
    }
}

fn number(stats: &menagerie_journal::PartitionStats) -> u16 {
    u16::try_from(stats.partition).unwrap_or_default()
}

/// Reports positions and what is being done: all in one commit, or each by itself if the journal refuses some of them.
async fn report_items(journal: &dyn Journal, items: Vec<Item>, metrics: &Metrics) -> Report {
    if items.is_empty() {
        return Report::default();
    }
    let commit = async |items: &[Item]| {
        let began = Instant::now();
        let moves = items.iter().filter_map(|item| item.moved.clone()).collect();
        let states = items.iter().filter_map(|item| item.activity.clone()).collect();
        let outcome = journal.commit(Commit { moves, states, ..Commit::default() }).await.map(drop);
        metrics.commit(began.elapsed());
        outcome
    };
    let outcome: Vec<Result<(), JournalError>> = match commit(&items).await {
        Err(error) if matches!(error.remedy(), Remedy::Reacquire | Remedy::Conflict) => {
            join_all(items.chunks(1).map(&commit)).await
        }
        outcome => vec![outcome; items.len()],
    };
    let mut report = Report::default();
    for (Item { owned, position, .. }, outcome) in items.into_iter().zip(outcome) {
        match outcome {
            Ok(()) => report.known.push((owned.partition, position)),
            Err(error) => {
                debug!(partition = %owned.partition, %error, "position not reported to the journal");
                if error.remedy() == Remedy::Reacquire {
                    report.lost.push(owned);
                }
            }
        }
    }
    report
}
