//! What was counted, as a value.

use menagerie_journal::Message;
use serde::{Deserialize, Serialize};

/// What a partition, or all of them, held so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Messages.
    pub messages: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
}

impl Tally {
    /// With these, too.
    pub fn with(self, messages: &[Message]) -> Self {
        let bytes: usize = messages.iter().map(|message| message.body.len()).sum();
        Self { messages: self.messages + messages.len() as u64, bytes: self.bytes + bytes as u64 }
    }

    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self { messages: self.messages + other.messages, bytes: self.bytes + other.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_of_partitions_add_up() {
        let one = Tally { messages: 2, bytes: 10 };
        assert_eq!(one.plus(Tally { messages: 1, bytes: 5 }), Tally { messages: 3, bytes: 15 });
        assert_eq!(one.plus(Tally::default()).with(&[]), one);
    }
}
