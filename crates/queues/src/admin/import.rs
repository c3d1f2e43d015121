//! Importing qdo's cursors.

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

/// Directories below qdo's root that hold cursors: in its design notes, and in the version people used.
const FOLDERS: [&str; 2] = ["queues", "partitions"];
/// Queues for qdo's own use.
const QDO_QUEUES: [&str; 2] = ["qdo_error", "qdo_status"];

/// A cursor of qdo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldCursor {
    /// Path of its znode.
    pub znode: String,
    /// The partition; `None` if the znode's name is not a partition's.
    pub partition: Option<PartitionName>,
    /// Contents of the znode.
    pub text: String,
    /// The contents as a cursor, at or before the last message qdo processed; `None` if they are not a cursor.
    pub cursor: Option<Cursor>,
}

/// For each cursor, where to import it, or why to skip it.
fn plan(old: &[OldCursor], now: MessageId) -> Vec<Result<(&PartitionName, Cursor), &'static str>> {
    let mut taken = BTreeSet::new();
    let mut plan = Vec::with_capacity(old.len());
    for old in old {
        plan.push(match (&old.partition, old.cursor) {
            (None, _) => Err("its name is no partition's"),
            (Some(partition), _) if QDO_QUEUES.contains(&partition.queue().name()) => {
                Err("qdo keeps it for itself")
            }
            (Some(partition), _) if partition.queue().failures_of().is_some() => {
                Err("a queue of that name cannot be made: the messages of another that failed are there")
            }
            (Some(_), None) => Err("what it says is no cursor"),
            // Workers would handle nothing before that time.
            (Some(_), Some(cursor)) if to_message(cursor) > now => Err("it lies in the future"),
            (Some(partition), Some(_)) if !taken.insert(partition) => Err("qdo has this partition twice"),
            (Some(partition), Some(cursor)) => Ok((partition, cursor)),
        });
    }
    plan
}

/// The outcome of one cursor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Path of qdo's znode.
    pub from: String,
    /// The partition it was imported to.
    pub partition: Option<PartitionName>,
    /// qdo's cursor.
    pub old: String,
    /// Our cursor now.
    pub new: Option<String>,
    /// What happened, for people.
    pub what: String,
}

/// Finds qdo's cursors below its root. The term must see the ensemble's own root, not our namespace.
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
            found.push(parse(znode, &name, &data));
        }
    }
    Ok(found)
}

fn parse(znode: String, name: &str, data: &[u8]) -> OldCursor {
    let text = String::from_utf8_lossy(data).trim().to_owned();
    // qdo did not quote names; we do.
    let partition = PartitionName::of_znode(name).or_else(|| name.parse().ok());
    // qdo creates cursors empty, which means the beginning.
    let cursor = if text.is_empty() { Some(Cursor::default()) } else { Cursor::of_double(&text) };
    OldCursor { znode, partition, text, cursor }
}

/// What an import would do.
pub async fn preview(session: &Session, old: &[OldCursor]) -> Result<Vec<Imported>, QueueError> {
    let term = session.term();
    let mut shown = Vec::with_capacity(old.len());
    for (old, planned) in old.iter().zip(plan(old, now())) {
        shown.push(match planned {
            Ok((partition, cursor)) => {
                let there = read_cursor(&term, partition).await?.map(|(stored, _)| stored);
                match check_target(there, cursor) {
                    Target::Free => outcome(old, Some(cursor), "to be imported".to_owned()),
                    Target::Taken(stored, what) => outcome(old, Some(stored), what.to_owned()),
                }
            }
            Err(why) => skipped(old, why),
        });
    }
    Ok(shown)
}

/// Whether a cursor can be imported to its partition.
enum Target {
    Free,
    Taken(Cursor, &'static str),
}

fn check_target(there: Option<Cursor>, cursor: Cursor) -> Target {
    match there {
        Some(stored) if stored == cursor => Target::Taken(stored, "was there already"),
        Some(stored) if stored != Cursor::default() => {
            Target::Taken(stored, "left alone: it has moved since")
        }
        Some(_) | None => Target::Free,
    }
}

/// Our cursor of a partition and its version.
async fn read_cursor(term: &Term, partition: &PartitionName) -> Result<Option<(Cursor, i32)>, CallError> {
    let found = term.read(&queues::cursor(partition).maybe_damaged()).await?;
    Ok(found.map(|Versioned { value, stat }| (value.sound().unwrap_or_default(), stat.version)))
}

fn now() -> MessageId {
    MessageId(Ticks::now())
}

fn skipped(old: &OldCursor, why: &str) -> Imported {
    outcome(old, None, format!("passed over: {why}"))
}

/// Creates the queues, with as many partitions as in qdo, and sets their cursors unless they have moved already.
/// Idempotent.
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
                done.push(skipped(old, why));
                continue;
            }
        };
        let number = highest.entry(partition.queue()).or_default();
        *number = partition.number().max(*number);
        // Before the queue exists, so that no worker starts at the beginning.
        let (stored, what) = write_cursor(&term, partition, cursor).await?;
        done.push(outcome(old, Some(stored), what.to_owned()));
    }
    for (queue, partitions) in highest {
        match create_queue(session, journals, queue, partitions, journal).await {
            // Create the other queues all the same.
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

/// Creates a queue with at least this many partitions, or widens an existing one.
async fn create_queue(
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
        // Somebody created it by hand, with more partitions or in another journal.
        Err(QueueError::Exists { .. }) => Ok(()),
        // Use all partitions of the journal, so that none of its messages is hidden.
        Err(QueueError::Narrow { wide, .. }) => {
            let wide = u16::try_from(wide).unwrap_or(PARTITIONS_MAX);
            create::create(session, journals, queue, wide, journal).await.map(drop)
        }
        created => created.map(drop),
    }
}

async fn write_cursor(
    term: &Term,
    partition: &PartitionName,
    cursor: Cursor,
) -> Result<(Cursor, &'static str), QueueError> {
    let znode = queues::cursor(partition);
    let fresh = term.stat(znode.path()).await?.is_none();
    retry::ensure(term, znode.path(), &cursor.encode()).await?;
    let there = read_cursor(term, partition).await?;
    match (check_target(there.map(|(stored, _)| stored), cursor), there) {
        (Target::Taken(stored, _), _) if fresh && stored == cursor => Ok((stored, "imported")),
        (Target::Taken(stored, what), _) => Ok((stored, what)),
        (Target::Free, Some((stored, version))) => {
            match term.set(znode.path(), &cursor.encode(), Some(version)).await {
                Ok(_) => Ok((cursor, "imported")),
                Err(CallError::BadVersion { .. }) => Ok((stored, "left alone: it has moved since")),
                Err(error) => Err(error.into()),
            }
        }
        // Somebody is deleting the queue right now.
        (Target::Free, None) => Err(CallError::NoZnode { path: znode.path().to_owned() }.into()),
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
    fn qdo_cursors_are_parsed_and_its_own_queues_skipped() {
        let old = parse("/q/queues/mail-out-2".to_owned(), "mail-out-2", b"1330365230.03807");
        assert_eq!(old.partition, Some("mail-out-2".parse().unwrap()));
        // At or before the message it stands for.
        assert_eq!(old.cursor.unwrap().to_string(), "1330365230.0380647");
        assert_eq!(parse(String::new(), "a-1", b"0.0").cursor, Some(Cursor::default()));
        assert_eq!(parse(String::new(), "a-1", b"").cursor, Some(Cursor::default()));
        assert_eq!(parse(String::new(), "a-1", b"soon").cursor, None);
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
        let found = found.map(|(name, text)| parse(String::new(), name, text.as_bytes()));
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
