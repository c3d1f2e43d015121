//! What users can do about errors of queues.

use std::borrow::Cow;

use menagerie_journal::JournalError;
use menagerie_types::{Explain, exit_code};

use crate::error::QueueError;

impl Explain for QueueError {
    fn help(&self) -> Cow<'static, str> {
        match self {
        Self::NoQueue { queue } if queue.failures_of().is_some() => {
            let of = queue.failures_of().map_or(String::new(), |queue| queue.to_string());
            format!("`menagerie queue failed {of}` shows the messages of {of} that were given up")
        }
        Self::NoQueue { queue } => format!(
            "`menagerie queue list` shows those that there are; `menagerie queue create {queue} --partitions N` makes it"
        ),
        Self::Exists { queue, .. } => {
            format!(
                "`menagerie queue show {queue}` shows it; keys would go elsewhere if their number changed"
            )
        }
        Self::InOtherJournal { queue, journal } => format!(
            "`menagerie queue show {queue}` shows it; its messages stay in {journal}, so leave --journal out, or choose another name"
        ),
        Self::Narrow { queue, wide, .. } => format!(
            "create it with --partitions {wide}; if nobody wants these messages, `menagerie queue delete {queue} --force` afterwards"
        ),
        Self::Ahead { partition, .. } => format!(
            "take it away with `menagerie zk rm` ({} in the namespace), and the queue begins with all that is there; or write to it \
             how far it was handled, in seconds since 1970",
            menagerie_znodes::queues::cursor(partition).path()
        ),
        Self::Waiting { queue, .. } => format!(
            "wait until workers have handled them (`menagerie queue show {queue}`), drop them with `menagerie queue purge {queue}`, \
             or create another queue with this order"
        ),
        Self::Reserved { .. } => "choose a name that does not end in .failed".to_owned(),
        Self::NoWorker { .. } => "`menagerie queue workers` shows those that there are".to_owned(),
        Self::NoPartition { .. } => "partitions count from 1".to_owned(),
        Self::Partitions { .. } => {
            "each partition is handled by one worker; some 8 do for most".to_owned()
        }
        Self::NoJournal { .. } => "see which journals run with `menagerie status`".to_owned(),
        Self::Key(_) => "`menagerie queue key list` shows them".to_owned(),
        Self::Schedule(error) => error.help().into_owned(),
        Self::LongKey { .. } => "give a shorter one: a hash of it orders messages just as well".to_owned(),
        Self::Topic { .. } => "choose a shorter name, of letters, digits, dots and dashes".to_owned(),
        Self::Journal(error) => match error {
            JournalError::Unreachable { .. } => {
                "see whether it runs with `menagerie status`; start one with `menagerie journal`".to_owned()
            }
            error => error.help().to_owned(),
        },
        Self::Call(error) => error.help().into_owned(),
        Self::Transaction(_)
        | Self::Lock(_)
        | Self::Presence(_)
        | Self::Settle(_)
        | Self::Cache(_) => "see how ZooKeeper is with `menagerie doctor`, and try again".to_owned(),
    }
        .into()
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::NoQueue { .. }
            | Self::NoWorker { .. }
            | Self::NoPartition { .. }
            | Self::Partitions { .. }
            | Self::Reserved { .. }
            | Self::Topic { .. }
            | Self::Key(_)
            | Self::LongKey { .. } => exit_code::USAGE,
            Self::Journal(error) => Explain::exit_code(error),
            Self::Schedule(error) => error.exit_code(),
            Self::Call(error) => error.exit_code(),
            Self::Exists { .. }
            | Self::InOtherJournal { .. }
            | Self::Narrow { .. }
            | Self::Ahead { .. }
            | Self::Waiting { .. }
            | Self::NoJournal { .. }
            | Self::Transaction(_)
            | Self::Lock(_)
            | Self::Presence(_)
            | Self::Settle(_)
            | Self::Cache(_) => exit_code::FAILED,
        }
    }
}
