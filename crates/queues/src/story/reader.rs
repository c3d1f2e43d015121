//! Reads partitions of stories. Nothing written yet is no error, and a damaged stretch is a gap: a story with a hole says
//! more than none.

use menagerie_journal::{Journal, JournalError, Message, MessageId, Order, Read};

/// What a read gave.
#[derive(Debug, Default)]
pub(crate) struct Stretch {
    pub messages: Vec<Message>,
    /// Everything up to here has been dropped, and was asked for.
    pub trimmed: Option<MessageId>,
    /// Some of it cannot be read, and was left out.
    pub is_damaged: bool,
}

/// Reads as the journal does, and goes on behind what is damaged.
pub(crate) async fn read(journal: &dyn Journal, mut read: Read) -> Result<Stretch, JournalError> {
    let mut is_damaged = false;
    loop {
        match journal.read(read.clone()).await {
            Err(JournalError::NoTopic { .. } | JournalError::NoPartition { .. }) => {
                return Ok(Stretch { is_damaged, ..Stretch::default() });
            }
            Err(JournalError::Damaged(why)) => {
                match (read.order, damaged(&why)) {
                    (Order::Ascending, Some((_, last))) if last > read.after => read.after = last,
                    (Order::Descending, Some((first, _))) if first < read.before => read.before = first,
                    (Order::Ascending | Order::Descending, _) => return Err(JournalError::Damaged(why)),
                }
                is_damaged = true;
            }
            batch => {
                let batch = batch?;
                return Ok(Stretch { messages: batch.messages, trimmed: batch.gap, is_damaged });
            }
        }
    }
}

/// From which message to which the journal could not read: its error names them last.
fn damaged(why: &str) -> Option<(MessageId, MessageId)> {
    let mut ids = why.split_whitespace().filter_map(|word| word.parse().ok());
    let last = ids.next_back()?;
    Some((ids.next_back()?, last))
}

#[cfg(test)]
mod tests {
    use menagerie_journal::Ticks;

    use super::*;

    #[test]
    fn the_journal_says_where_damage_begins_and_ends() {
        let [one, other] = [7, 9].map(|ticks| MessageId(Ticks(ticks)));
        let why = format!("bad checksum in segment 3; messages {one} to {other} cannot be read");
        assert_eq!(damaged(&why), Some((one, other)));
        assert_eq!(damaged("bad checksum"), None);
    }
}
