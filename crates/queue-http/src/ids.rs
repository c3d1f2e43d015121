//! Lists of message ids in a path: `[partition:]hex32`, separated by commas.

use menagerie_queues::MessageUuid;
use menagerie_znodes::queues::{PartitionName, QueueName};

/// Digits of a partition's number, which is at most 200.
const PARTITION_DIGITS_MAX: usize = 3;

/// A message named by partition and UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessageRef {
    /// If the list does not name it, the one that the id is of; 1 if the id does not say.
    pub partition: u16,
    /// `None` unless it is a version 1 UUID. No message has another version.
    pub id: Option<MessageUuid>,
    /// The whole UUID.
    pub uuid: u128,
}

/// Most ids in one request: each costs a read from the journal.
pub const IDS_MAX: usize = 1_000;

/// Ids of messages of a queue with this many partitions. `None` if any id is malformed, or there are too many.
pub fn parse_list(text: &str, queue: &QueueName, partitions: u16) -> Option<Vec<MessageRef>> {
    if text.split(',').count() > IDS_MAX {
        return None;
    }
    let partitions: Vec<_> = (1..=partitions).map(|number| queue.partition(number)).collect();
    text.split(',').map(str::trim).map(|one| parse_ref(one, &partitions)).collect()
}

fn parse_ref(text: &str, partitions: &[PartitionName]) -> Option<MessageRef> {
    let (partition, hex) = match text.split_once(':') {
        Some((partition, hex)) => (Some(number(partition)?), hex),
        None => (None, text),
    };
    let hex: String = hex.chars().filter(|c| *c != '-').collect();
    let written = hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let uuid = written.then(|| u128::from_str_radix(&hex, 16).ok())??;
    let id = MessageUuid::from_u128(uuid);
    let partition = partition.or_else(|| Some(own_partition(id?, partitions)?.number())).unwrap_or(1);
    Some(MessageRef { partition, id, uuid })
}

/// The partition that an id is of, if it says so.
fn own_partition(id: MessageUuid, partitions: &[PartitionName]) -> Option<&PartitionName> {
    let is_of = |one: &&PartitionName| id.position_in(one).is_some() || id.may_be_chosen_for(one);
    partitions.iter().find(is_of)
}

fn number(digits: &str) -> Option<u16> {
    let written = (1..=PARTITION_DIGITS_MAX).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit());
    written.then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use menagerie_journal::{MessageId, Ticks};

    use super::*;

    const ID: &str = "6ba7b8109dad11d180b400c04fd430c8";

    fn parse(text: &str) -> Option<Vec<MessageRef>> {
        parse_list(text, &"notes:mail".parse().unwrap(), 10)
    }

    #[test]
    fn partitions_have_up_to_three_digits() {
        let list = parse(&format!("{ID},10:{ID}, 200:6BA7B810-9DAD-11D1-80B4-00C04FD430C8")).unwrap();
        assert_eq!(list.iter().map(|message| message.partition).collect::<Vec<_>>(), [1, 10, 200]);
        assert!(list.iter().all(|message| message.id == list[0].id && message.id.is_some()));
    }

    /// Queuey crashed on most of these.
    #[test]
    fn malformed_ids_are_refused() {
        for text in [
            "",
            "x",
            &format!("{ID}0"),
            &"z".repeat(32),
            &format!("{ID},"),
            &format!(":{ID}"),
            &format!("1000:{ID}"),
        ] {
            assert_eq!(parse(text), None, "{text}");
            assert_eq!(parse(&format!("{text},2:{ID}")), None, "{text}");
        }
        let many = [ID; IDS_MAX + 1].join(",");
        assert!(parse(&many).is_none());
    }

    #[test]
    fn ids_of_ours_name_their_partition() {
        let queue: QueueName = "notes:mail".parse().unwrap();
        let partition = queue.partition(7);
        let derived = MessageUuid::derived(&partition, MessageId(Ticks(77)));
        for id in [derived, MessageUuid::chosen(&partition, Ticks(7_000_000))] {
            assert_eq!(parse(&id.hex()).unwrap()[0].partition, 7);
            assert_eq!(parse(&format!("2:{id}")).unwrap()[0].partition, 2, "if nobody says otherwise");
        }
    }

    #[test]
    fn a_uuid_of_another_version_has_no_message_id() {
        assert_eq!(parse("00000000000000000000000000000000").unwrap()[0].id, None);
    }
}
