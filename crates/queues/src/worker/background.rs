//! Background work: each ends as an [`Event`].

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use menagerie_journal::{Commit, JournalError, Read};
use menagerie_kernel::{Session, whole};
use menagerie_znodes::queues::PartitionName;
use tokio::sync::watch;
use tracing::{error, info, warn};

use super::records::PendingRecord;
use super::report::Report;
use crate::coordination::claim::{self, Claim, Claimed, FencedJournal, retry_journal};
use crate::coordination::instructions::{Listener, News};
use crate::core::ledger::Recorded;
use crate::core::machine::{Fact, Fetch, Fetched, Note, Noted, Owned, Urgency};
use crate::core::options::Options;
use crate::core::tally::Attempts;
use crate::core::window::RunId;
use crate::error::QueueError;
use crate::failed;
use crate::journals::Journals;
use crate::metrics::Metrics;
use crate::task::{Outcome, Task, Work};

/// Long-poll time of a read: long, so that idle partitions cost nothing.
const READ_WAIT: Duration = Duration::from_secs(300);
/// Back-off after failed reads.
const READ_PAUSE: Duration = Duration::from_millis(100);
const READ_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Pause after a failed claim.
const CLAIM_PAUSE: Duration = Duration::from_secs(5);

/// Back-off after notes that the journal refused.
const NOTE_PAUSE: Duration = Duration::from_secs(1);
const NOTE_PAUSE_MAX: Duration = Duration::from_secs(60);
/// How long a stopping worker waits for a note.
const NOTE_PATIENCE: Duration = Duration::from_secs(5);

/// Background work has ended.
pub enum Event {
    /// With a fact.
    Fact(Box<Fact>),
    /// A task has begun, or has ended before.
    Begun(Owned, RunId, bool),
    /// There are new instructions.
    Told(News, Listener),
    /// We own a partition.
    Claimed(Box<Claimed>),
    /// The lease of this term has lapsed; `None` if the session is closed.
    Lapsed(Option<u64>),
    /// Records were written or not.
    Recorded(Urgency, Vec<(PendingRecord, Recorded)>),
    /// A partition was released.
    Released(PartitionName, Result<(), QueueError>),
    /// A report to the journals has ended.
    Reported(Report),
}

/// Claims a partition, and retries until it succeeds: what is missing, a journal for instance, may appear. So may the
/// partition: a queue that is deleted and recreated between two assignments stays assigned, and nobody tells us. To
/// give up the claim, drop the future.
pub async fn claim(
    session: &Session,
    journals: &Journals,
    partition: &PartitionName,
    options: &Options,
    metrics: &Metrics,
) -> Box<Claimed> {
    loop {
        match claim::claim(session, journals, partition, options, metrics).await {
            Ok(Claim::Ours(claimed)) => return claimed,
            Ok(Claim::Gone) => {
                info!(%partition, "partition does not exist any more");
                claim::wait_until_created(session, partition).await;
            }
            Err(error) => {
                error!(%partition, error = %whole(&error), "partition cannot be taken; trying again");
                tokio::time::sleep(CLAIM_PAUSE).await;
            }
        }
    }
}

/// Reads messages. Backs off by the number of consecutive failures.
pub async fn fetch(fenced: FencedJournal, fetch: Fetch) -> Fetched {
    let Fetch { after, only, budget, waits, failures } = fetch;
    if failures > 0 {
        tokio::time::sleep((READ_PAUSE * (1 << failures.min(6))).min(READ_PAUSE_MAX)).await;
    }
    let partition = fenced.partition.clone();
    let read = match only {
        // The machine skips what has expired, and says so in its story.
        Some(id) => Read::one(partition, id).with_expired(),
        None => {
            let wait = if waits { READ_WAIT } else { Duration::ZERO };
            let read = Read::after(partition, after).with_expired().limit(budget.messages).wait(wait);
            Read { bytes_max: budget.bytes, ..read }
        }
    };
    let read = fenced.read(read).await.map(|batch| (batch.messages, batch.gap.filter(|_| only.is_none())));
    Fetched { asked: only, read }
}

/// Runs a task to its end, or until it must stop. Stores the attempts first, if there are any: if the journal refuses,
/// we have lost the partition, and the task does not begin.
pub async fn run(
    task: &dyn Task,
    fenced: FencedJournal,
    work: Work,
    store: Option<Attempts>,
    patience: Duration,
    lapsed: impl Future<Output = ()>,
    stopping: watch::Receiver<bool>,
) -> Result<Vec<Outcome>, JournalError> {
    let (partition, lease) = (work.partition.clone(), work.lease.clone());
    let run = async {
        if let Some(attempts) = store {
            let first = work.messages.first().map(|message| message.id).unwrap_or_default();
            let states = vec![fenced.attempts(first, Some(&attempts))];
            let variants = [Commit { states, ..Commit::default() }];
            tokio::select! {
                stored = write_until_stored(&partition, &fenced, &variants) => stored?,
                // Nothing has begun, so do not wait for a journal that may stay down.
                () = lease.stopped() => return Ok(Vec::new()),
                () = wait_until_set(stopping) => return Ok(Vec::new()),
            }
        }
        // Storing may have taken long, and the machine may have been suspended since the last check.
        if lease.is_over() {
            return Ok(Vec::new());
        }
        let messages = work.messages.len();
        match AssertUnwindSafe(task.run(work)).catch_unwind().await {
            Ok(outcomes) => Ok(outcomes),
            // Nobody knows which message it was; blame the first.
            Err(_) => Ok(vec![Outcome::retry("the task panicked")].into_iter().take(messages).collect()),
        }
    };
    tokio::select! {
        // Checked even before the first poll of the task: after a freeze, it must not begin a message that another
        // worker owns.
        biased;
        () = lapsed => Ok(Vec::new()),
        outcomes = run => outcomes,
        () = async { lease.stopped().await; tokio::time::sleep(patience).await }, if !task.ends_itself() => {
            Ok(Vec::new())
        }
    }
}

/// Waits until the flag is set or its sender dropped.
async fn wait_until_set(mut flag: watch::Receiver<bool>) {
    let _ = flag.wait_for(|is_set| *is_set).await;
}

/// Stores a note about a failure, in the first variant that fits. Once the worker must stop or the partition is lost,
/// waits only a little longer: without the note, the failure is not counted.
pub async fn note(
    partition: &PartitionName,
    fenced: &FencedJournal,
    note: Note,
    is_lost: watch::Receiver<bool>,
    stopping: watch::Receiver<bool>,
) -> Noted {
    let variants = failed::note(fenced, partition, &note);
    let given_up = async {
        tokio::select! {
            () = wait_until_set(is_lost) => {}
            () = wait_until_set(stopping) => {}
        }
        tokio::time::sleep(NOTE_PATIENCE).await;
    };
    tokio::select! {
        stored = write_until_stored(partition, fenced, &variants) => {
            stored.map_or_else(Noted::Refused, |()| Noted::Stored)
        }
        () = given_up => {
            warn!(%partition, "stopping before a failure could be noted in the journal");
            Noted::Abandoned
        }
    }
}

/// Retries until the journal has stored one of the variants, the first that fits. Fails only if we have lost the
/// partition: any other error would hit the next owner, too, so releasing the partition would not help.
async fn write_until_stored(
    partition: &PartitionName,
    fenced: &FencedJournal,
    variants: &[Commit],
) -> Result<(), JournalError> {
    let (mut variant, mut pause) = (0, NOTE_PAUSE);
    while let Some(commit) = variants.get(variant) {
        match retry_journal(partition, || failed::commit(fenced, commit.clone())).await {
            Ok(()) => break,
            Err(
                error @ (JournalError::Fenced { .. }
                | JournalError::NotOpen { .. }
                | JournalError::NoTopic { .. }
                | JournalError::NoPartition { .. }),
            ) => return Err(error),
            Err(JournalError::TooLarge { .. }) if variant + 1 < variants.len() => variant += 1,
            Err(error) => {
                error!(%partition, %error, "journal refuses a note; the partition waits");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(NOTE_PAUSE_MAX);
            }
        }
    }
    Ok(())
}
