//! One atomic batch, and its outcome.

use std::time::Duration;

use bytes::Bytes;

use crate::Fence;
use crate::error::JournalError;
use crate::id::{DelayedId, MessageId, Ticks};
use crate::read::Message;
use crate::topic::{Consumer, PartitionId};

/// Longest dedup id and longest key of a state record.
pub const KEY_BYTES_MAX: usize = 255;
/// Longest value of a state record: it is for counters and watermarks, not for data.
pub const STATE_BYTES_MAX: usize = 64 << 10;
/// Most parts of all kinds in one commit: everybody else waits while it is decided.
pub const COMMIT_PARTS_MAX: usize = 100_000;
/// Most edits among these: each needs a look-up, perhaps on disk.
pub const COMMIT_EDITS_MAX: usize = 10_000;
/// Most bytes of state records, keys included, of one consumer in a partition: every snapshot holds all of them.
pub const CONSUMER_BYTES_MAX: usize = 1 << 20;
/// Most consumers that a partition may have.
pub const CONSUMERS_MAX: usize = 1000;

/// An atomic batch. All topics in it must belong to one group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commit {
    /// New messages, in this order.
    pub appends: Vec<Append>,
    /// Consumers' positions. Each needs the fence that its consumer opened the partition with.
    pub moves: Vec<Move>,
    /// Consumers' state. Each needs the fence, too.
    pub states: Vec<StateWrite>,
    /// Changes to existing messages.
    pub edits: Vec<Edit>,
}

/// A new message for a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    /// The partition to append to.
    pub partition: PartitionId,
    /// The message to append.
    pub message: NewMessage,
}

/// A message that has no id yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewMessage {
    /// An engine's metadata about the message; opaque to the journal.
    pub meta: Bytes,
    /// The message. May be empty.
    pub body: Bytes,
    /// Time to live, counted from when it becomes visible; `None`: the topic's `ttl`.
    pub ttl: Option<Duration>,
    /// Not visible before this time. It gets its id when it is due, so it follows everything that was visible before.
    pub due: Option<Ticks>,
    /// Of appends to the topic with the same id, only the first counts, within the topic's window.
    pub dedup: Option<Bytes>,
}

/// Advances a consumer's position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// The partition.
    pub partition: PartitionId,
    /// The consumer that moves.
    pub consumer: Consumer,
    /// The fence with which it opened the partition.
    pub fence: Fence,
    /// Where the consumer must stand, or the commit is refused ([`JournalError::Moved`]). So a commit that is repeated
    /// after a lost reply happens once, even if the first is still on its way; and of several in flight none happens
    /// without those before it. `None`: wherever it stands.
    pub from: Option<MessageId>,
    /// The last message that is done. Positions only move forward, and not beyond the newest message or the present;
    /// repeating one is fine.
    pub position: MessageId,
}

/// Writes a small record that belongs to a consumer of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateWrite {
    /// The partition.
    pub partition: PartitionId,
    /// The consumer that owns the record.
    pub consumer: Consumer,
    /// The fence with which it opened the partition.
    pub fence: Fence,
    /// The key of the record.
    pub key: Bytes,
    /// The new value; `None` removes the record.
    pub value: Option<Bytes>,
}

/// A change to an existing message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Stores a message under this id, replacing an existing one. `due` and `dedup` are ignored; `ttl` counts from the
    /// id's time. An id more than a second in the future is refused: clocks may differ by that much.
    Replace {
        /// The partition.
        partition: PartitionId,
        /// The message.
        id: MessageId,
        /// The new content.
        message: NewMessage,
    },
    /// Removes a message, without a gap. In a commit that also appends, the message must exist, or nothing happens
    /// ([`JournalError::NoMessage`]): so a message that is moved exists exactly once, even when two callers move it
    /// concurrently.
    Remove {
        /// The partition.
        partition: PartitionId,
        /// The message.
        id: MessageId,
    },
    /// Cancels a message that is not visible yet. Its dedup id stays used.
    Cancel {
        /// The partition that it was appended to.
        partition: PartitionId,
        /// The message.
        id: DelayedId,
    },
}

/// The outcome of a commit, in the order of its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Committed {
    /// One for each append.
    pub appends: Vec<Appended>,
    /// One for each edit.
    pub edits: Vec<Edited>,
}

/// The outcome of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// The message was appended with this id.
    At(MessageId),
    /// It becomes a message when it is due; until then it has this id.
    Delayed(DelayedId),
    /// Its dedup id was used before: by this message, or by a delayed one (`None`). Nothing was appended.
    Duplicate(Option<MessageId>),
}

impl Appended {
    /// The id of the message, if it has one already.
    pub fn id(self) -> Option<MessageId> {
        match self {
            Self::At(id) => Some(id),
            Self::Delayed(_) => None,
            Self::Duplicate(id) => id,
        }
    }
}

/// The outcome of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edited {
    /// A message was replaced, removed or cancelled.
    Changed,
    /// There was no such message, and it was inserted.
    Inserted,
    /// There was no such message to remove or to cancel; or its id is within the trimmed range.
    Missing,
}

/// What a consumer has stored in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The current fence.
    pub fence: Fence,
    /// Its position; [`MessageId::ZERO`] if it has never moved.
    pub position: MessageId,
    /// Its state records, by key.
    pub state: Vec<(Bytes, Bytes)>,
}

impl Commit {
    /// A commit of one append.
    pub fn append(partition: PartitionId, message: NewMessage) -> Self {
        Self { appends: vec![Append { partition, message }], ..Self::default() }
    }

    /// Whether it has no parts.
    pub fn is_empty(&self) -> bool {
        self.parts() == 0
    }

    /// Number of parts.
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
    /// A message with this body, without metadata.
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
