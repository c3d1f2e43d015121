//! Logs and metrics of what happens to partitions and messages.

use menagerie_journal::JournalError;
use menagerie_znodes::Name;
use tracing::{debug, error, info, warn};

use crate::core::machine::{Ending, Happening, How};
use crate::core::view::Stats;
use crate::message_uuid::MessageUuid;
use crate::metrics::{MessageOutcome, Metrics};

/// Logs and counts what has happened.
pub fn tell(worker: &Name, happening: &Happening, metrics: &Metrics) {
    match happening {
        Happening::Taken(owned) => info!(
            partition = %owned.partition, fence = %owned.fence, cursor = owned.cursor.seconds(),
            predecessor = ?owned.predecessor, "partition taken"
        ),
        Happening::Lost { owned, why } => {
            warn!(partition = %owned.partition, fence = %owned.fence, why, "partition lost");
        }
        Happening::ReadFailed { partition, error, is_news: false } => {
            debug!(%partition, %error, "cannot read messages");
        }
        Happening::ReadFailed { partition, error: error @ JournalError::Damaged(_), .. } => {
            let (queue, number) = (partition.queue(), partition.number());
            error!(
                %partition, %error,
                "damaged messages hold their partition; `menagerie queue skip {queue} --partition {number} --through ID`, \
                 with the last id that is named, passes them over"
            );
        }
        Happening::ReadFailed { partition, error, .. } => {
            warn!(%partition, %error, "cannot read messages; waiting for the journal");
        }
        Happening::Gap { partition, through } => {
            warn!(%partition, through = through.seconds(), "messages were dropped before they were handled");
        }
        Happening::Ended(ending) => ended(ending, metrics),
        Happening::Stopping(reason) => info!(%worker, reason, "worker stopping"),
        Happening::Paused(paused) => info!(%worker, paused, "worker paused or resumed"),
    }
}

/// Logs what came of messages since the last time, if anything did.
pub fn summarise(before: &mut Stats, now: Stats) {
    let since = |of: fn(&Stats) -> u64| of(&now) - of(before);
    let (done, retried, given_up) =
        (since(|stats| stats.done), since(|stats| stats.retried), since(|stats| stats.given_up));
    let (expired, stopped) = (since(|stats| stats.expired), since(|stats| stats.stopped));
    *before = now;
    if done + retried + given_up + expired + stopped > 0 {
        info!(done, retried, given_up, expired, stopped, "messages within the last minute");
    }
}

fn ended(ending: &Ending, metrics: &Metrics) {
    let Ending { partition, message, attempt, took, how } = ending;
    // Found out only for lines that are logged.
    let id = || MessageUuid::of(partition, message);
    let outcome = match how {
        How::Done => {
            debug!(%partition, id = %id(), attempt, took_ms = took.map(|took| took.as_millis()), "message done");
            MessageOutcome::Done
        }
        How::Retry(why, pause) => {
            let next_in_ms = pause.as_millis();
            warn!(%partition, id = %id(), attempt, error = why.error, next_in_ms, "attempt failed; trying again");
            MessageOutcome::Retried
        }
        How::GivenUp(why, on_failure) => {
            warn!(
                %partition, id = %id(), attempts = attempt, error = why.error,
                // As text it is escaped, so that a task's output cannot forge our log lines.
                output = &*String::from_utf8_lossy(&why.output), ?on_failure, "message given up"
            );
            MessageOutcome::GivenUp
        }
        How::Orphaned => {
            warn!(%partition, id = %id(), "a worker died that may have begun this message");
            return;
        }
        How::Stopped => {
            debug!(%partition, id = %id(), attempt, "attempt stopped");
            MessageOutcome::Stopped
        }
        How::Expired => {
            debug!(%partition, id = %id(), "message expired before its turn; skipped");
            MessageOutcome::Expired
        }
        How::Skipped => {
            debug!(%partition, id = %id(), "message was given up before; skipped");
            return;
        }
    };
    metrics.count(partition.queue(), outcome, 1);
}
