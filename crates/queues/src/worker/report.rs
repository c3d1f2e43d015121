//! Journals are told how far partitions have come, and asked how many messages wait there. It is for who looks: the cursor is
//! the truth, and what a journal does not take is told the next time. What was kept for long enough is dropped by the way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use menagerie_journal::{Commit, Fence, Journal, JournalError, MessageId, Move, Remedy, Ticks, Topic};
use menagerie_znodes::queues::{Keep, PartitionName, QueueName};
use tokio::time::timeout;
use tracing::debug;

use super::trim::{Trim, trim};
use crate::coordination::claim::{self, Books};
use crate::core::keeping::outlived;
use crate::metrics::Metrics;

/// A journal that takes longer is left out: the others wait for it no longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// How far a partition has come; told to its journal if that does not know.
pub struct Position {
    pub partition: PartitionName,
    pub books: Books,
    pub position: MessageId,
    /// All up to here is done, too.
    pub handled: MessageId,
    pub told: bool,
}

/// What journals know of partitions.
#[derive(Default)]
pub struct Report {
    /// How far they have come.
    pub known: Vec<(PartitionName, MessageId)>,
    /// Another has opened them since we did; the fence is ours.
    pub lost: Vec<(PartitionName, Fence)>,
    /// How many messages wait.
    pub lags: Vec<(PartitionName, u64)>,
}

impl Report {
    fn add(&mut self, Self { known, lost, lags }: Self) {
        self.known.extend(known);
        self.lost.extend(lost);
        self.lags.extend(lags);
    }
}

/// What is to be said of partitions.
type Moves = Vec<(PartitionName, Move)>;

/// What one journal is told and asked.
struct Account {
    journal: Arc<dyn Journal>,
    moves: Moves,
    queues: BTreeMap<QueueName, Topic>,
    /// With what is handled in each.
    partitions: BTreeMap<PartitionName, MessageId>,
}

/// Tells and asks all journals at once. For how long a queue keeps messages, `keep` says; nothing goes where it says nothing.
pub async fn report(
    positions: Vec<Position>,
    keep: impl Fn(&QueueName) -> Option<Keep>,
    metrics: &Metrics,
) -> Report {
    let mut report = Report::default();
    let mut accounts: Vec<Account> = Vec::new();
    for Position { partition, books, position, handled, told } in positions {
        let found = accounts.iter().position(|account| Arc::ptr_eq(&account.journal, &books.journal));
        let place = found.unwrap_or(accounts.len());
        if found.is_none() {
            accounts.push(Account::of(books.journal.clone()));
        }
        let account = &mut accounts[place];
        account.queues.insert(partition.queue().clone(), books.partition.topic.clone());
        account.partitions.insert(partition.clone(), handled);
        match books.position(position).filter(|_| !told) {
            Some(moved) => account.moves.push((partition, moved)),
            None => report.known.push((partition, position)),
        }
    }
    let settled = accounts.into_iter().map(|account| timeout(PATIENCE, account.settle(&keep, metrics)));
    join_all(settled).await.into_iter().flatten().for_each(|settled| report.add(settled));
    report
}

impl Account {
    fn of(journal: Arc<dyn Journal>) -> Self {
        Self { journal, moves: Vec::new(), queues: BTreeMap::new(), partitions: BTreeMap::new() }
    }

    async fn settle(self, keep: impl Fn(&QueueName) -> Option<Keep>, metrics: &Metrics) -> Report {
        let mut report = tell(&*self.journal, self.moves, metrics).await;
        let mut trims = Vec::new();
        for (queue, topic) in self.queues {
            let (keep, now) = (keep(&queue), Ticks::now());
            for stats in self.journal.stats(&topic).await.unwrap_or_default() {
                let partition = queue.partition(number(&stats));
                let Some(handled) = self.partitions.get(&partition) else { continue };
                let through = keep.and_then(|keep| outlived(&stats, *handled, keep, now));
                trims.extend(through.map(|through| Trim::of(&topic, &stats, through)));
                report.lags.push((partition, claim::behind(&stats)));
            }
        }
        trim(&*self.journal, trims).await;
        report
    }
}

fn number(stats: &menagerie_journal::PartitionStats) -> u16 {
    u16::try_from(stats.partition).unwrap_or_default()
}

/// Says how far partitions have come: all in one commit, and if that is refused because of some of them, each by itself.
async fn tell(journal: &dyn Journal, moves: Moves, metrics: &Metrics) -> Report {
    if moves.is_empty() {
        return Report::default();
    }
    let commit = async |moves: &[(PartitionName, Move)]| {
        let began = Instant::now();
        let moves = moves.iter().map(|(_, moved)| moved.clone()).collect();
        let told = journal.commit(Commit { moves, ..Commit::default() }).await.map(drop);
        metrics.commit(began.elapsed());
        told
    };
    let told: Vec<Result<(), JournalError>> = match commit(&moves).await {
        Err(error) if matches!(error.remedy(), Remedy::Reacquire | Remedy::Conflict) => {
            join_all(moves.chunks(1).map(&commit)).await
        }
        told => vec![told; moves.len()],
    };
    let mut report = Report::default();
    for ((partition, moved), told) in moves.into_iter().zip(told) {
        match told {
            Ok(()) => report.known.push((partition, moved.position)),
            Err(error) => {
                debug!(%partition, %error, "position not told to the journal");
                if error.remedy() == Remedy::Reacquire {
                    report.lost.push((partition, moved.fence));
                }
            }
        }
    }
    report
}
