//! Errors of journals.

#![allow(missing_docs, reason = "the fields of errors name themselves")]

use std::borrow::Cow;

use menagerie_types::fence::FenceNumbers;
use menagerie_types::{Fence, Remedy};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::id::MessageId;
use crate::topic::{Consumer, Group, PartitionId, Topic};

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum JournalError {
    /// There is no such topic.
    #[error("there is no topic {topic}")]
    NoTopic { topic: Topic },
    /// The topic has fewer partitions; they count from 1.
    #[error("topic {} has partitions 1 to {partitions}, not {}", partition.topic, partition.number)]
    NoPartition { partition: PartitionId, partitions: u32 },
    /// Somebody has opened the partition with a newer fence. Nothing of the commit has happened.
    #[error("{consumer} of {partition} has fence {current}, and {fence} is older")]
    Fenced {
        partition: PartitionId,
        consumer: Consumer,
        #[serde(with = "FenceNumbers")]
        fence: Fence,
        /// The current fence.
        #[serde(with = "FenceNumbers")]
        current: Fence,
    },
    /// The partition was not opened with this fence.
    #[error("{consumer} has not opened {partition} with fence {fence}")]
    NotOpen {
        partition: PartitionId,
        consumer: Consumer,
        #[serde(with = "FenceNumbers")]
        fence: Fence,
    },
    /// A position may only move forward.
    #[error("{consumer} of {partition} stands at {}, and cannot go back to {}", position.seconds(), wanted.seconds())]
    Backwards { partition: PartitionId, consumer: Consumer, position: MessageId, wanted: MessageId },
    /// The consumer does not stand where the commit begins ([`Move::from`](crate::Move::from)): this commit, or another,
    /// has happened already, or one before it has not. Nothing of this one has happened now.
    #[error("{consumer} of {partition} stands at {}, and the commit begins at {}", position.seconds(), from.seconds())]
    Moved { partition: PartitionId, consumer: Consumer, position: MessageId, from: MessageId },
    /// The commit names topics of two groups.
    #[error("topic {topic} is of group {group}, and the commit is of group {other}")]
    Groups {
        /// The first topic of another group.
        topic: Topic,
        group: Group,
        /// The group of the topics before it.
        other: Group,
    },
    /// The id is in the future: no message is stored there, and no position moves there.
    #[error("id {id} is later than now")]
    Ahead { id: MessageId },
    /// A commit that also appends should remove a message that does not exist. Nothing of the commit has happened.
    #[error("there is no message {id} in {partition}")]
    NoMessage { partition: PartitionId, id: MessageId },
    /// A limit is exceeded.
    #[error("{what} of {size} is more than the maximum of {max}")]
    TooLarge { what: Cow<'static, str>, size: u64, max: u64 },
    /// An invalid setting, or an impossible change.
    #[error("{0}")]
    Invalid(String),
    /// The quota is used up. Reading, removing, trimming and moving positions still work.
    #[error("the journal has used {used} bytes of a quota of {quota}")]
    Quota {
        /// Bytes on disk.
        used: u64,
        quota: u64,
    },
    /// The disk is full. Reads still work.
    #[error("the journal's disk is full")]
    DiskFull,
    /// The limit of open files is reached, of the journal's process or its machine.
    #[error("the journal cannot open another file: too many are open")]
    OutOfFiles,
    /// Data on disk is damaged. Other messages can still be read.
    #[error("the journal is damaged: {0}")]
    Damaged(String),
    /// The server cannot be reached. Nothing has happened.
    #[error("cannot reach the journal at {address}: {why}")]
    Unreachable { address: String, why: String },
    /// The connection broke: it may or may not have happened.
    #[error("the connection to the journal broke, and the outcome is unknown: {0}")]
    Unknown(String),
    /// The server rejects our token.
    #[error("the journal refused us: {0}")]
    Denied(String),
    /// The journal is stopping or has failed.
    #[error("the journal is closed")]
    Closed,
    /// The peer violated the protocol.
    #[error("the journal's protocol was broken: {0}")]
    Protocol(String),
}

impl JournalError {
    /// What the caller may do.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Fenced { .. } | Self::NotOpen { .. } => Remedy::Reacquire,
            Self::NoTopic { .. }
            | Self::NoPartition { .. }
            | Self::NoMessage { .. }
            | Self::Backwards { .. }
            | Self::Moved { .. }
            | Self::Ahead { .. } => Remedy::Conflict,
            Self::Quota { .. }
            | Self::DiskFull
            | Self::OutOfFiles
            | Self::Unreachable { .. }
            | Self::Closed => Remedy::Retry,
            Self::TooLarge { .. }
            | Self::Invalid(_)
            | Self::Damaged(_)
            | Self::Unknown(_)
            | Self::Denied(_) => Remedy::TellUser,
            Self::Groups { .. } | Self::Protocol(_) => Remedy::Bug,
        }
    }

    /// What an operator can try.
    pub fn help(&self) -> &'static str {
        match self {
            Self::NoTopic { .. } => "create it first, or look at `menagerie journal topics`",
            Self::NoPartition { .. } => "partitions count from 1; `menagerie journal stat` shows them",
            Self::Fenced { .. } | Self::NotOpen { .. } => {
                "somebody else owns the partition now; nothing was changed"
            }
            Self::Backwards { .. } | Self::Moved { .. } => "read the position again and go on from there",
            Self::Groups { .. } => "make one commit for each group, or create the topics in one group",
            Self::Ahead { .. } => "use an id that the journal assigned, or one in the past",
            Self::NoMessage { .. } => "somebody else was faster; nothing was changed",
            Self::TooLarge { .. } => "send less at once, or raise the limit of the journal",
            Self::Invalid(_) => "correct the setting; nothing was changed",
            Self::Quota { .. } => {
                "`menagerie queue purge NAME --handled` drops what was handled, `menagerie queue alter NAME --keep TIME` \
                 keeps it for a shorter time; or raise --quota"
            }
            Self::DiskFull => {
                "free space on the journal's file system, or drop what was handled with `menagerie queue purge NAME \
                 --handled`; nothing that was acknowledged is lost"
            }
            Self::OutOfFiles => {
                "raise the journal's limit of open files (ulimit -n), or see which processes have them open; nothing that was \
                 acknowledged is lost"
            }
            Self::Damaged(_) => {
                "look at the disk; `menagerie journal verify` lists all damage, and reading continues after the last \
                 id in the error"
            }
            Self::Unreachable { .. } => "see whether `menagerie journal` runs there",
            Self::Unknown(_) => "check whether it happened before you repeat it, or use dedup ids",
            Self::Denied(_) => {
                "name a copy of the journal's token file, journal/token in its data folder, with --journal-token-file \
                 (--token-file for `menagerie journal` commands)"
            }
            Self::Closed => "start the journal again; its log says why it stopped",
            Self::Protocol(_) => "use the same version of menagerie on both sides",
        }
    }
}
