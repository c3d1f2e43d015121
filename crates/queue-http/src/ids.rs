//! Lists of message ids in a path: `[partition:]hex32`, separated by commas.

use menagerie_journal::MessageId;

/// Digits of a partition's number, which is at most 200.
const PARTITION_DIGITS_MAX: usize = 3;

/// A message named by partition and UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageRef {
    /// 1 if the list does not name it.
    pub partition: u16,
    /// The UUID's timestamp; `None` unless it is a version 1 UUID. No message has another version.
    pub id: Option<MessageId>,
    /// The whole UUID, with clock sequence and node, which the journal's ids lack.
    pub uuid: u128,
}

impl MessageRef {
    /// The UUID without dashes, if a client chose it: its clock sequence and node are not ours.
    pub fn foreign(&self) -> Option<String> {
        let ours = self.id.is_some_and(|id| id.to_uuid() == self.uuid);
        (!ours).then(|| format!("{:032x}", self.uuid))
    }
}

/// Most ids in one request: each costs a read from the journal.
pub const IDS_MAX: usize = 1_000;

/// `None` if any id is malformed, or there are too many.
pub fn parse_list(text: &str) -> Option<Vec<MessageRef>> {
    if text.split(',').count() > IDS_MAX {
        return None;
    }
    text.split(',').map(str::trim).map(parse_ref).collect()
}

fn parse_ref(text: &str) -> Option<MessageRef> {
    let (partition, hex) = match text.split_once(':') {
        Some((partition, hex)) => (number(partition)?, hex),
        None => (1, text),
    };
    let hex: String = hex.chars().filter(|c| *c != '-').collect();
    let written = hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let uuid = written.then(|| u128::from_str_radix(&hex, 16).ok())??;
    Some(MessageRef { partition, id: MessageId::from_uuid(uuid), uuid })
}

fn number(digits: &str) -> Option<u16> {
    let written = (1..=PARTITION_DIGITS_MAX).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit());
    written.then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "6ba7b8109dad11d180b400c04fd430c8";

    #[test]
    fn partitions_have_up_to_three_digits() {
        let list = parse_list(&format!("{ID},10:{ID}, 200:6BA7B810-9DAD-11D1-80B4-00C04FD430C8")).unwrap();
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
            assert_eq!(parse_list(text), None, "{text}");
            assert_eq!(parse_list(&format!("{text},2:{ID}")), None, "{text}");
        }
    }

    #[test]
    fn ids_chosen_by_clients_differ_from_ours() {
        let foreign = parse_list(ID).unwrap()[0];
        assert_eq!(foreign.foreign().as_deref(), Some(ID));
        let ours = format!("{:032x}", foreign.id.unwrap().to_uuid());
        assert_eq!(parse_list(&ours).unwrap()[0].foreign(), None);
        let many = [ID; IDS_MAX + 1].join(",");
        assert!(parse_list(&many).is_none());
    }

    #[test]
    fn a_uuid_of_another_version_has_no_message_id() {
        assert_eq!(parse_list("00000000000000000000000000000000").unwrap()[0].id, None);
    }
}
