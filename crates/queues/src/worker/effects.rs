//! What the worker's loop starts and is told about later.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use menagerie_journal::{Batch, Commit, JournalError, MessageId, Read};
use menagerie_kernel::{Fence, Session, whole};
use menagerie_znodes::Name;
use menagerie_znodes::queues::PartitionName;
use tokio::sync::watch;
use tracing::{error, info, warn};

use super::ahead::Room;
use super::records::Due;
use super::report::Report;
use crate::coordination::claim::{self, Books, Claim, Claimed, patiently};
use crate::core::failure::Attempts;
use crate::core::ledger::Recorded;
use crate::error::QueueError;
use crate::failed;
use crate::journals::Journals;
use crate::metrics::Metrics;
use crate::task::{Outcome, Task, Work};

/// How long a read waits for the first message before it is asked again: long, so that idle partitions cost nothing.
const READ_WAIT: Duration = Duration::from_secs(300);
/// After reads that failed.
const READ_PAUSE: Duration = Duration::from_millis(100);
const READ_PAUSE_MAX: Duration = Duration::from_secs(5);

/// After a claim that failed.
const CLAIM_PAUSE: Duration = Duration::from_secs(5);

/// After a note that the journal has refused.
const NOTE_PAUSE: Duration = Duration::from_secs(1);
const NOTE_PAUSE_MAX: Duration = Duration::from_secs(60);
/// How long the end of a worker waits for a note.
const NOTE_PATIENCE: Duration = Duration::from_secs(5);

/// Something has ended. The fence tells for which ownership it was begun: what comes late is not for the next one.
pub enum Event {
    /// A partition was taken.
    Claimed(PartitionName, Box<Claimed>),
    /// A partition is another's.
    Lost(PartitionName, Fence),
    /// Whatever is held in this term may be another's.
    Lapsed(Option<u64>),
    /// Messages have been read.
    Fetched(PartitionName, Fence, Result<Batch, JournalError>),
    /// A task has ended; or it was not begun, because the partition is another's.
    Ran(PartitionName, Fence, Result<Vec<Outcome>, JournalError>),
    /// Something had to be said about a failure.
    Noted(PartitionName, Fence, Noted),
    /// Records have come back.
    Recorded(Vec<(Due, Recorded)>),
    /// So have those of messages that begin only then.
    RecordedFirst(Vec<(Due, Recorded)>),
    /// A partition was given back.
    Released(PartitionName, Result<(), QueueError>),
    /// Journals were told how far we have come, and what waits was asked.
    Reported(Report),
}

/// What came of a note about a failure.
pub enum Noted {
    /// It is in the journal.
    Stored,
    /// The partition is another's.
    Refused(JournalError),
    /// The journal did not take it, and we are not to wait any longer.
    Left,
}

/// Takes a partition, however often it takes: what is missing, a journal say, may come. So may the partition itself: a
/// queue that is deleted and made again before anybody has assigned anew stays assigned as it was, and nobody would say so.
/// Whoever is not to have it any more drops this.
pub async fn claim(
    session: &Session,
    journals: &Journals,
    worker: &Name,
    partition: &PartitionName,
    window: u32,
    metrics: &Metrics,
) -> Box<Claimed> {
    loop {
        match claim::claim(session, journals, worker, partition, window, metrics).await {
            Ok(Claim::Ours(claimed)) => return claimed,
            Ok(Claim::Gone) => {
                info!(%partition, "partition does not exist any more");
                claim::made(session, partition).await;
            }
            Err(error) => {
                error!(%partition, error = %whole(&error), "partition cannot be taken; trying again");
                tokio::time::sleep(CLAIM_PAUSE).await;
            }
        }
    }
}

/// Reads what follows; the first time without waiting, so that it is known soon whether there is anything. After so many
/// failures one after the other it waits first, so that nobody spins.
pub async fn fetch(
    books: Books,
    after: MessageId,
    room: Room,
    looked: bool,
    failures: u32,
) -> Result<Batch, JournalError> {
    if failures > 0 {
        tokio::time::sleep((READ_PAUSE * (1 << failures.min(6))).min(READ_PAUSE_MAX)).await;
    }
    let wait = if looked { READ_WAIT } else { Duration::ZERO };
    let read = Read::after(books.partition.clone(), after).limit(room.messages).wait(wait);
    books.read(Read { bytes_max: room.bytes, ..read }).await
}

/// Runs a task to its end, or until nobody may go on. What is to be stored before it begins is stored: who is refused that
/// has lost the partition, and begins nothing.
pub async fn run(
    task: &dyn Task,
    books: Books,
    work: Work,
    store: Option<Attempts>,
    patience: Duration,
    lapsed: impl Future<Output = ()>,
    ending: watch::Receiver<bool>,
) -> Result<Vec<Outcome>, JournalError> {
    let (partition, lease) = (work.partition.clone(), work.lease.clone());
    let run = async {
        if let Some(attempts) = store {
            let forms = [Commit { states: vec![books.attempts(&attempts)], ..Commit::default() }];
            tokio::select! {
                stored = insist(&partition, &books, &forms) => stored?,
                // Nothing has begun, and a journal that is away may stay so.
                () = lease.stopped() => return Ok(Vec::new()),
                () = raised(ending) => return Ok(Vec::new()),
            }
        }
        // Storing may have taken long, and the machine may have been suspended since the last check.
        if lease.is_over() {
            return Ok(Vec::new());
        }
        let messages = work.messages.len();
        match AssertUnwindSafe(task.run(work)).catch_unwind().await {
            Ok(outcomes) => Ok(outcomes),
            // Nobody knows how far it had come; the first is as good as any.
            Err(_) => Ok(vec![Outcome::retry("the task panicked")].into_iter().take(messages).collect()),
        }
    };
    tokio::select! {
        // Before the task is polled for the first time, too: who was frozen must not begin what is another's by now.
        biased;
        () = lapsed => Ok(Vec::new()),
        outcomes = run => outcomes,
        () = async { lease.stopped().await; tokio::time::sleep(patience).await }, if !task.ends_itself() => {
            Ok(Vec::new())
        }
    }
}

/// Waits until somebody says so, or is gone.
async fn raised(mut flag: watch::Receiver<bool>) {
    let _ = flag.wait_for(|raised| *raised).await;
}

/// Says something about a failure: the first of these that the journal has room for. When the worker ends, or is to stop,
/// it waits a little longer and no more: what was not said is a failure that nobody has counted.
pub async fn note(
    partition: PartitionName,
    books: Books,
    forms: Vec<Commit>,
    stop: watch::Receiver<bool>,
    ending: watch::Receiver<bool>,
) -> Noted {
    let given_up = async {
        tokio::select! {
            () = raised(stop) => {}
            () = raised(ending) => {}
        }
        tokio::time::sleep(NOTE_PATIENCE).await;
    };
    tokio::select! {
        said = insist(&partition, &books, &forms) => said.map_or_else(Noted::Refused, |()| Noted::Stored),
        () = given_up => {
            warn!(%partition, "a failure could not be noted in the journal before the end");
            Noted::Left
        }
    }
}

/// Says something in the journal until it is there, in the first form that it has room for. Refused is only who owns the
/// partition no more: whatever else is wrong would be so for the next owner, too, and taking it again would mend nothing.
async fn insist(partition: &PartitionName, books: &Books, forms: &[Commit]) -> Result<(), JournalError> {
    let (mut form, mut pause) = (0, NOTE_PAUSE);
    while let Some(commit) = forms.get(form) {
        match patiently(partition, || failed::commit(books, commit.clone())).await {
            Ok(()) => break,
            Err(
                error @ (JournalError::Fenced { .. }
                | JournalError::NotOpen { .. }
                | JournalError::NoTopic { .. }
                | JournalError::NoPartition { .. }),
            ) => return Err(error),
            Err(JournalError::TooLarge { .. }) if form + 1 < forms.len() => form += 1,
            Err(error) => {
                error!(%partition, %error, "the journal refuses a note; its partition waits");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(NOTE_PAUSE_MAX);
            }
        }
    }
    Ok(())
}
