//! Lists of message ids in a path: `[partition:]hex32`, with commas between.

use menagerie_journal::MessageId;

/// Digits of a partition's number: there are at most 200.
const PARTITION_DIGITS_MAX: usize = 3;

/// One message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The partition; 1 unless it is named.
    pub partition: u16,
    /// Its time; nothing for a UUID that is not of version 1, which no message has.
    pub id: Option<MessageId>,
    /// All of it, with the clock sequence and the node, which a journal does not keep.
    pub uuid: u128,
}

impl Place {
    /// Written without dashes, if its clock sequence and node are another's than ours.
    pub fn foreign(&self) -> Option<String> {
        let ours = self.id.is_some_and(|id| id.to_uuid() == self.uuid);
        (!ours).then(|| format!("{:032x}", self.uuid))
    }
}

/// So many in one request; each is looked for.
pub const PLACES_MAX: usize = 1_000;

/// Nothing if any of them is not written as an id is, or if there are too many.
pub fn places(text: &str) -> Option<Vec<Place>> {
    if text.split(',').count() > PLACES_MAX {
        return None;
    }
    text.split(',').map(str::trim).map(place).collect()
}

fn place(text: &str) -> Option<Place> {
    let (partition, hex) = match text.split_once(':') {
        Some((partition, hex)) => (number(partition)?, hex),
        None => (1, text),
    };
    let hex: String = hex.chars().filter(|c| *c != '-').collect();
    let written = hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let uuid = written.then(|| u128::from_str_radix(&hex, 16).ok())??;
    Some(Place { partition, id: MessageId::from_uuid(uuid), uuid })
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
        let list = places(&format!("{ID},10:{ID}, 200:6BA7B810-9DAD-11D1-80B4-00C04FD430C8")).unwrap();
        assert_eq!(list.iter().map(|place| place.partition).collect::<Vec<_>>(), [1, 10, 200]);
        assert!(list.iter().all(|place| place.id == list[0].id && place.id.is_some()));
    }

    /// The original crashed on most of these.
    #[test]
    fn what_is_not_written_like_an_id_is_refused() {
        for text in [
            "",
            "x",
            &format!("{ID}0"),
            &"z".repeat(32),
            &format!("{ID},"),
            &format!(":{ID}"),
            &format!("1000:{ID}"),
        ] {
            assert_eq!(places(text), None, "{text}");
            assert_eq!(places(&format!("{text},2:{ID}")), None, "{text}");
        }
    }

    #[test]
    fn ids_of_others_are_told_from_ours() {
        let foreign = places(ID).unwrap()[0];
        assert_eq!(foreign.foreign().as_deref(), Some(ID));
        let ours = format!("{:032x}", foreign.id.unwrap().to_uuid());
        assert_eq!(places(&ours).unwrap()[0].foreign(), None);
        let many = [ID; PLACES_MAX + 1].join(",");
        assert!(places(&many).is_none());
    }

    #[test]
    fn a_uuid_of_another_version_is_an_id_that_no_message_has() {
        assert_eq!(places("00000000000000000000000000000000").unwrap()[0].id, None);
    }
}
