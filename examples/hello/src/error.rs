//! What can go wrong.

use std::borrow::Cow;

use menagerie_journal::JournalError;
use menagerie_kernel::recipes::lock::LockError;
use menagerie_types::{Explain, exit_code};
use thiserror::Error;

/// Why a topic was not counted, or not shown.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "fields of errors name themselves")]
pub enum HelloError {
    /// Nobody can stand for election any more.
    #[error("cannot stand for election")]
    Election(#[from] LockError),
    /// The journal refused, or does not answer.
    #[error("the journal did not do it")]
    Journal(#[from] JournalError),
    /// What was stored is not ours.
    #[error("partition {partition} of {topic} holds a tally that cannot be read")]
    Damaged { topic: String, partition: u32, source: serde_json::Error },
}

impl Explain for HelloError {
    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Election(_) => "see how ZooKeeper is with `menagerie doctor`, and try again".into(),
            Self::Journal(error) => Explain::help(error),
            Self::Damaged { .. } => "count under another name with --consumer".into(),
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Election(_) => exit_code::UNAVAILABLE,
            Self::Journal(error) => error.exit_code(),
            Self::Damaged { .. } => exit_code::DATA,
        }
    }
}
