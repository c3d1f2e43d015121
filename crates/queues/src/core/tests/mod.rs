mod assignment;
mod failure;
mod machine;

mod lane;
mod ledger;

mod sim;
mod tally;
mod turn;
mod window;

use std::num::NonZeroU32;

use menagerie_journal::{Message, MessageId, Ticks};

use super::ledger::Commit;

fn id(ticks: u64) -> MessageId {
    MessageId(Ticks(ticks))
}

use bytes::Bytes;

use crate::meta::Meta;

/// Metadata of a message with this key and priority.
fn meta(key: Option<&str>, priority: i8) -> Bytes {
    Meta { key: key.map(str::to_owned), priority, ..Meta::default() }.encode()
}

/// A message without a body that never expires.
fn message(ticks: u64, key: Option<&str>, priority: i8) -> Message {
    Message { id: id(ticks), meta: meta(key, priority), body: bytes::Bytes::new(), expires: None }
}

/// A record after this many messages.
fn count(count: u32) -> Commit {
    Commit::Count(NonZeroU32::new(count).expect("not zero"))
}
