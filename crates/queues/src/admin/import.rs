//! How far qdo had come, taken over.

use std::collections::{BTreeMap, BTreeSet};

use menagerie_journal::{MessageId, Ticks};
use menagerie_kernel::{CallError, Session, Term, retry};
use menagerie_znodes::Payload as _;
use menagerie_znodes::queues::{self, Cursor, PARTITIONS_MAX, PartitionName, QueueName};
use serde::Serialize;

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
    let partition = PartitionName::of_znode(name);
    // What qdo had made and never written to is at its beginning.
    let cursor = if text.is_empty() { Some(Cursor::default()) } else { Cursor::of_double(&text) };
    OldCursor { znode, partition, text, cursor }
}

/// What would become of them.
pub fn preview(old: &[OldCursor]) -> Vec<Imported> {
    let one = |(old, planned): (&OldCursor, Result<(_, Cursor), _>)| match planned {
        Ok((_, cursor)) => outcome(old, Some(cursor), "to be imported".to_owned()),
        Err(why) => passed_over(old, why),
    };
    old.iter().zip(plan(old, now())).map(one).collect()
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
        match create::create(session, journals, queue, partitions.min(PARTITIONS_MAX), journal).await {
            // It was made by hand, with as many as somebody wanted.
            Ok(_) | Err(QueueError::Exists { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

async fn set(
    term: &Term,
    partition: &PartitionName,
    cursor: Cursor,
) -> Result<(Cursor, &'static str), QueueError> {
    let znode = queues::cursor(partition);
    let fresh = term.stat(znode.path()).await?.is_none();
    retry::ensure(term, znode.path(), &cursor.encode()).await?;
    let (data, stat) = term.get(znode.path()).await?;
    let stored = Cursor::decode(&data).unwrap_or_default();
    if stored == cursor {
        return Ok((stored, if fresh { "imported" } else { "was there already" }));
    }
    if stored != Cursor::default() {
        return Ok((stored, "left alone: it has moved since"));
    }
    match term.set(znode.path(), &cursor.encode(), Some(stat.version)).await {
        Ok(_) => Ok((cursor, "imported")),
        Err(CallError::BadVersion { .. }) => Ok((stored, "left alone: it has moved since")),
        Err(error) => Err(error.into()),
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
        assert_eq!(why[4..], [None, Some("qdo has this partition twice")]);
    }
}
