//! How far qdo had come, taken over.

use std::collections::{BTreeMap, BTreeSet};

use menagerie_journal::{MessageId, Ticks};
use menagerie_kernel::{CallError, Session, Term, Versioned, retry};
use menagerie_znodes::Payload as _;
use menagerie_znodes::queues::{self, Cursor, PARTITIONS_MAX, PartitionName, QueueName};
use serde::Serialize;

use super::change::{Change, change};
use super::create;
use crate::coordination::cursor::to_message;
use crate::error::QueueError;
use crate::journals::Journals;

/// Folders below qdo's root that hold its cursors: of the design notes, and of the version that was used.
const FOLDERS: [&str; 2] = ["queues", "partitions"];
/// Queues that qdo keeps for itself.
const OWN: [&str; 2] = ["qdo_error", "qdo_status"];

/// A partition of qdo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldCursor {
    /// What its znode is called.
    pub znode: String,
    /// Which partition that is; nothing if it is none.
    pub partition: Option<PartitionName>,
    /// What it says.
    pub text: String,
    /// What that means: at or before what was processed last. Nothing, if it means nothing.
    pub cursor: Option<Cursor>,
}

/// What can be taken over, in the order of what was found; or why it is passed over.
fn plan(old: &[OldCursor], now: MessageId) -> Vec<Result<(&PartitionName, Cursor), &'static str>> {
    let mut taken = BTreeSet::new();
    let mut plan = Vec::with_capacity(old.len());
    for old in old {
        plan.push(match (&old.partition, old.cursor) {
            (None, _) => Err("its name is no partition's"),
            (Some(partition), _) if OWN.contains(&partition.queue().name()) => Err("qdo keeps it for itself"),
            (Some(partition), _) if partition.queue().failures_of().is_some() => {
                Err("a queue of that name cannot be made: the messages of another that failed are there")
            }
            (Some(_), None) => Err("what it says is no cursor"),
            // Nothing would be handled before that time has come.
            (Some(_), Some(cursor)) if to_message(cursor) > now => Err("it lies in the future"),
            (Some(partition), Some(_)) if !taken.insert(partition) => Err("qdo has this partition twice"),
            (Some(partition), Some(cursor)) => Ok((partition, cursor)),
        });
    }
    plan
}

/// What became of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Where it was.
    pub from: String,
    /// Where it is now.
    pub partition: Option<PartitionName>,
    /// What qdo had written.
    pub old: String,
    /// What stands there now.
    pub new: Option<String>,
    /// In a few words.
    pub what: String,
}

/// Finds qdo's cursors below its root, in a term that sees the ensemble from its own.
pub async fn find(term: &Term, root: &str) -> Result<Vec<OldCursor>, CallError> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        let folder = format!("{}/{folder}", root.trim_end_matches('/'));
        let mut names = match term.children(&folder).await {
            Err(CallError::NoZnode { .. }) => continue,
            names => names?,
        };
        names.sort();
        for name in names {
            let znode = format!("{folder}/{name}");
            let Ok((data, _)) = term.get(&znode).await else { continue };
            found.push(read(znode, &name, &data));
        }
    }
    Ok(found)
}

fn read(znode: String, name: &str, data: &[u8]) -> OldCursor {
    let text = String::from_utf8_lossy(data).trim().to_owned();
    // qdo wrote names as they are; ours are quoted.
    let partition = PartitionName::of_znode(name).or_else(|| name.parse().ok());
    // What qdo had made and never written to is at its beginning.
    let cursor = if text.is_empty() { Some(Cursor::default()) } else { Cursor::of_double(&text) };
    OldCursor { znode, partition, text, cursor }
}

/// What would become of them.
pub async fn preview(session: &Session, old: &[OldCursor]) -> Result<Vec<Imported>, QueueError> {
    let term = session.term();
    let mut shown = Vec::with_capacity(old.len());
    for (old, planned) in old.iter().zip(plan(old, now())) {
        shown.push(match planned {
            Ok((partition, cursor)) => {
                let there = there(&term, partition).await?.map(|(stored, _)| stored);
                match found(there, cursor) {
                    Found::Free => outcome(old, Some(cursor), "to be imported".to_owned()),
                    Found::Other(stored, what) => outcome(old, Some(stored), what.to_owned()),
                }
            }
            Err(why) => passed_over(old, why),
        });
    }
    Ok(shown)
}

/// What is in the way of a cursor.
enum Found {
    Free,
    Other(Cursor, &'static str),
}

fn found(there: Option<Cursor>, cursor: Cursor) -> Found {
    match there {
        Some(stored) if stored == cursor => Found::Other(stored, "was there already"),
        Some(stored) if stored != Cursor::default() => Found::Other(stored, "left alone: it has moved since"),
        Some(_) | None => Found::Free,
    }
}

/// What stands there now, and in which version.
async fn there(term: &Term, partition: &PartitionName) -> Result<Option<(Cursor, i32)>, CallError> {
    let found = term.read(&queues::cursor(partition).maybe_damaged()).await?;
    Ok(found.map(|Versioned { value, stat }| (value.sound().unwrap_or_default(), stat.version)))
}

fn now() -> MessageId {
    MessageId(Ticks::now())
}

fn passed_over(old: &OldCursor, why: &str) -> Imported {
    outcome(old, None, format!("passed over: {why}"))
}

/// Makes the queues, each with as many partitions as qdo had, and sets their cursors, unless they have moved already.
/// Doing it again changes nothing.
pub async fn import(
    session: &Session,
    journals: &Journals,
    journal: &str,
    old: &[OldCursor],
) -> Result<Vec<Imported>, QueueError> {
    let term = session.term();
    let mut done = Vec::new();
    let mut highest: BTreeMap<&QueueName, u16> = BTreeMap::new();
    for (old, planned) in old.iter().zip(plan(old, now())) {
        let (partition, cursor) = match planned {
            Ok(planned) => planned,
            Err(why) => {
                done.push(passed_over(old, why));
                continue;
            }
        };
        let number = highest.entry(partition.queue()).or_default();
        *number = partition.number().max(*number);
        // Before the queue is there, so that nobody begins from the start.
        let (stored, what) = set(&term, partition, cursor).await?;
        done.push(outcome(old, Some(stored), what.to_owned()));
    }
    for (queue, partitions) in highest {
        match make(session, journals, queue, partitions, journal).await {
            // The others are made all the same.
            Err(error @ QueueError::Ahead { .. }) => {
                let of_queue = |row: &&mut Imported| {
                    row.partition.as_ref().is_some_and(|partition| partition.queue() == queue)
                };
                done.iter_mut()
                    .filter(of_queue)
                    .for_each(|row| row.what = format!("queue not made: {error}"));
            }
            made => made?,
        }
    }
    Ok(done)
}

/// Makes a queue with at least so many partitions; one that is there gets those that it does not have yet.
async fn make(
    session: &Session,
    journals: &Journals,
    queue: &QueueName,
    partitions: u16,
    journal: &str,
) -> Result<(), QueueError> {
    match create::create(session, journals, queue, partitions, journal).await {
        Err(QueueError::Exists { partitions: found, .. }) if found < partitions => {
            let wider = Change { partitions: Some(partitions), ..Change::default() };
            change(session, journals, queue, &wider).await.map(drop)
        }
        // It was made by hand, with as many as somebody wanted, or in another journal.
        Err(QueueError::Exists { .. }) => Ok(()),
        // Nothing that the journal has is hidden.
        Err(QueueError::Narrow { wide, .. }) => {
            let wide = u16::try_from(wide).unwrap_or(PARTITIONS_MAX);
            create::create(session, journals, queue, wide, journal).await.map(drop)
        }
        created => created.map(drop),
    }
}

async fn set(
    term: &Term,
    partition: &PartitionName,
    cursor: Cursor,
) -> Result<(Cursor, &'static str), QueueError> {
    let znode = queues::cursor(partition);
    let fresh = term.stat(znode.path()).await?.is_none();
    retry::ensure(term, znode.path(), &cursor.encode()).await?;
    let there = there(term, partition).await?;
    match (found(there.map(|(stored, _)| stored), cursor), there) {
        (Found::Other(stored, _), _) if fresh && stored == cursor => Ok((stored, "imported")),
        (Found::Other(stored, what), _) => Ok((stored, what)),
        (Found::Free, Some((stored, version))) => {
            match term.set(znode.path(), &cursor.encode(), Some(version)).await {
                Ok(_) => Ok((cursor, "imported")),
                Err(CallError::BadVersion { .. }) => Ok((stored, "left alone: it has moved since")),
                Err(error) => Err(error.into()),
            }
        }
        // Somebody takes the queue away right now.
        (Found::Free, None) => Err(CallError::NoZnode { path: znode.path().to_owned() }.into()),
    }
}

fn outcome(old: &OldCursor, stored: Option<Cursor>, what: String) -> Imported {
    Imported {
        from: old.znode.clone(),
        partition: stored.and(old.partition.clone()),
        old: old.text.clone(),
        new: stored.map(|stored| stored.to_string()),
        what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_of_qdo_are_understood_and_its_own_queues_are_not_ours() {
        let old = read("/q/queues/mail-out-2".to_owned(), "mail-out-2", b"1330365230.03807");
        assert_eq!(old.partition, Some("mail-out-2".parse().unwrap()));
        // At or before the message that it stands for.
        assert_eq!(old.cursor.unwrap().to_string(), "1330365230.0380647");
        assert_eq!(read(String::new(), "a-1", b"0.0").cursor, Some(Cursor::default()));
        assert_eq!(read(String::new(), "a-1", b"").cursor, Some(Cursor::default()));
        assert_eq!(read(String::new(), "a-1", b"soon").cursor, None);
        let found = [
            ("qdo_status-3", "1.0"),
            ("nothing", "1.0"),
            ("a-1", "soon"),
            ("a-1", "4102444800"),
            ("a-1", "1"),
            ("a-1", "2"),
            ("a.failed-1", "1"),
            ("größe-1", "1"),
        ];
        let found = found.map(|(name, text)| read(String::new(), name, text.as_bytes()));
        let why: Vec<_> = plan(&found, now()).into_iter().map(Result::err).collect();
        let all = [
            "qdo keeps it for itself",
            "its name is no partition's",
            "what it says is no cursor",
            "it lies in the future",
        ];
        assert_eq!(why[..4], all.map(Some));
        assert_eq!(why[4..6], [None, Some("qdo has this partition twice")]);
        assert!(why[6].is_some_and(|why| why.contains("failed")), "{why:?}");
        assert_eq!(why[7], None);
    }
}
