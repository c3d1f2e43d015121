//! One atomic batch, and what came of it.

use std::time::Duration;

use bytes::Bytes;

use crate::Fence;
use crate::error::JournalError;
use crate::id::{DelayedId, MessageId, Ticks};
use crate::read::Message;
use crate::topic::{Consumer, PartitionId};

/// Longest dedup id and longest key of a state record.
pub const KEY_BYTES_MAX: usize = 255;
/// Longest value of a state record: it is for counters and marks, not for data.
pub const STATE_BYTES_MAX: usize = 64 << 10;
/// One commit has at most so many parts of all kinds: while it is decided, everybody else waits.
pub const COMMIT_PARTS_MAX: usize = 100_000;
/// Of these, at most so many are edits: each message is looked for, perhaps on disk.
pub const COMMIT_EDITS_MAX: usize = 10_000;
/// Most that a consumer may have of state records in a partition, their keys included: every snapshot holds all of them.
pub const CONSUMER_BYTES_MAX: usize = 1 << 20;
/// Most consumers that a partition may have.
pub const CONSUMERS_MAX: usize = 1000;

/// Everything that is to happen together. All topics named in it must be of one group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commit {
    /// New messages, in this order.
    pub appends: Vec<Append>,
    /// Consumers' positions. Each needs the fence that its consumer opened the partition with.
    pub moves: Vec<Move>,
    /// Consumers' state. Each needs the fence, too.
    pub states: Vec<StateWrite>,
    /// Changes of messages that are there.
    pub edits: Vec<Edit>,
}

/// A new message for a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    /// Where to.
    pub partition: PartitionId,
    /// What.
    pub message: NewMessage,
}

/// A message that has no id yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewMessage {
    /// What an engine wants to say about the message; the journal does not look at it.
    pub meta: Bytes,
    /// The message. May be empty.
    pub body: Bytes,
    /// How long it lives, counted from when it becomes visible; the topic's `ttl` if this is not given.
    pub ttl: Option<Duration>,
    /// Not visible before. It gets its id when it is due, so it comes behind everything that was visible before.
    pub due: Option<Ticks>,
    /// Of appends to the topic with the same one, only the first counts, within the topic's window.
    pub dedup: Option<Bytes>,
}

/// A consumer has come so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// Where.
    pub partition: PartitionId,
    /// Who.
    pub consumer: Consumer,
    /// The fence with which it opened the partition.
    pub fence: Fence,
    /// The last message that is done. Positions only move forward, not beyond now; the same again is fine.
    pub position: MessageId,
}

/// A small record that belongs to a consumer of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateWrite {
    /// Where.
    pub partition: PartitionId,
    /// Whose.
    pub consumer: Consumer,
    /// The fence with which it opened the partition.
    pub fence: Fence,
    /// Which record.
    pub key: Bytes,
    /// What it is from now on; nothing removes it.
    pub value: Option<Bytes>,
}

/// A change of what is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Puts a message under this id, in place of the one that is there, if there is one. `due` and `dedup` have no
    /// meaning here; `ttl` counts from the id's time. An id later than now is refused, but for a second, as clocks differ.
    Replace {
        /// Where.
        partition: PartitionId,
        /// Which one.
        id: MessageId,
        /// What it is from now on.
        message: NewMessage,
    },
    /// Removes a message; it is no gap. In a commit that also appends, the message must be there, or nothing happens
    /// ([`JournalError::NoMessage`]): what is sent elsewhere exists in one place, also when two do something with it at once.
    Remove {
        /// Where.
        partition: PartitionId,
        /// Which one.
        id: MessageId,
    },
    /// Takes a message back that is not visible yet: it never will be. Its dedup id stays used.
    Cancel {
        /// Where it was to go.
        partition: PartitionId,
        /// Which one.
        id: DelayedId,
    },
}

/// What came of a commit, in the order of its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Committed {
    /// One for each append.
    pub appends: Vec<Appended>,
    /// One for each edit.
    pub edits: Vec<Edited>,
}

/// What became of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// It is a message with this id.
    At(MessageId),
    /// It will be one when it is due; until then this is how it is called.
    Delayed(DelayedId),
    /// Its dedup id was used before: by this message, or by a delayed one (`None`). Nothing was added.
    Duplicate(Option<MessageId>),
}

impl Appended {
    /// The id of the message, where there is one already.
    pub fn id(self) -> Option<MessageId> {
        match self {
            Self::At(id) => Some(id),
            Self::Delayed(_) => None,
            Self::Duplicate(id) => id,
        }
    }
}

/// What became of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edited {
    /// A message was replaced, removed or cancelled.
    Changed,
    /// There was no such message, and now there is.
    Inserted,
    /// There was no such message: nothing to remove or to cancel; or it is behind what was trimmed, and stays so.
    Missing,
}

/// What a consumer has stored in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The fence that counts now.
    pub fence: Fence,
    /// How far it has come; [`MessageId::ZERO`] when it has never said.
    pub position: MessageId,
    /// Its state records, by key.
    pub state: Vec<(Bytes, Bytes)>,
}

impl Commit {
    /// A commit of one append.
    pub fn append(partition: PartitionId, message: NewMessage) -> Self {
        Self { appends: vec![Append { partition, message }], ..Self::default() }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.parts() == 0
    }

    /// How many things are to happen.
    pub fn parts(&self) -> usize {
        self.appends.len() + self.moves.len() + self.states.len() + self.edits.len()
    }
}

/// Refuses a commit of too many parts.
pub(crate) fn check_parts(parts: usize, edits: usize) -> Result<(), JournalError> {
    let limits = [
        ("a number of parts of a commit", parts, COMMIT_PARTS_MAX),
        ("a number of edits of a commit", edits, COMMIT_EDITS_MAX),
    ];
    match limits.into_iter().find(|(_, size, max)| size > max) {
        Some((what, size, max)) => {
            Err(JournalError::TooLarge { what: what.into(), size: size as u64, max: max as u64 })
        }
        None => Ok(()),
    }
}

impl NewMessage {
    /// A message with this body, and nothing else.
    pub fn new(body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), ..Self::default() }
    }
}

impl From<Message> for NewMessage {
    /// The same content, as a new message.
    fn from(message: Message) -> Self {
        Self { meta: message.meta, body: message.body, ..Self::default() }
    }
}
