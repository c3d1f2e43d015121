//! The id of a message, for life: a UUID of version 1, whichever partition, list or queue of failures it is in.
//!
//! Its time comes first, so ids sort by time. What follows says where the id comes from, in 64 bits:
//!
//! | bits | derived | chosen at the put |
//! |---|---|---|
//! | 63–62 | `10`, the variant of UUIDs | `10` |
//! | 61 | 0 | 1 |
//! | 60–41 | partition's hash | random |
//! | 40 | 1: the node is no hardware address | 1 |
//! | 39–16 | partition's hash | the same bits of the partition's hash |
//! | 15–0 | partition's hash | random |
//!
//! - *Derived*: the time is the message's position, so position and partition give the id, and nothing is stored.
//!   Unique, because positions are unique within a partition.
//! - *Chosen at the put*: of a delayed message, which has no position yet. The time is shortly before it is due, so the
//!   message is found near it, and ids sort like positions. Below a tenth of a second the time is a counter.
//! - *Foreign*: all others. A client chose it over HTTP; or an older version assigned it, and it is the position with a
//!   suffix that all partitions share ([`MessageUuid::old`]).

use std::fmt::{self, Write as _};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use menagerie_journal::{Message, MessageId, Ticks};
use menagerie_znodes::queues::PartitionName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::meta::Naming;

/// A version 1 UUID has room for 60 bits of time.
const TIME_MAX: u64 = (1 << 60) - 1;
/// The variant of UUIDs, and the node's multicast bit: it is no hardware address.
const FIXED: u64 = 0b10 << 62 | 1 << 40;
/// Set if the id was chosen at the put.
const CHOSEN: u64 = 1 << 61;
/// What tells partitions apart in a derived id.
const HASH: u64 = !(0b11 << 62 | CHOSEN | 1 << 40);
/// The part of it that an id chosen at the put has, too.
const HASH_PART: u64 = 0xff_ffff << 16;
/// How exactly an id chosen at the put says when its message is due, in ticks: a tenth of a second.
const DUE_STEP: u64 = 1_000_000;

/// The id of a message, for life. Ordered by time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, extend("format" = "uuid"))]
pub struct MessageUuid(u128);

/// The text is no message's id.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{0:?} is not a message's id: expected a UUID of version 1, as in 3f9c1b52-7a64-11f0-8d96-bb488460f550, with or without dashes"
)]
pub struct MessageUuidError(String);

impl MessageUuid {
    /// The id of a message in this partition: the one stored with it, or else the one that follows from its position.
    /// Messages that an older version put keep the id that they had there.
    pub fn of(partition: &PartitionName, message: &Message) -> Self {
        let naming = Naming::of(message);
        match naming.id {
            Some(id) => id,
            None if naming.via.is_some() => Self::derived(partition, message.id),
            None => Self::old(message.id),
        }
    }

    /// The id that follows from a position.
    pub fn derived(partition: &PartitionName, position: MessageId) -> Self {
        Self::new(position.0, FIXED | hash(partition) & HASH)
    }

    /// A new id for a message that is due at this time. A process counts, so a million messages that are due together
    /// have different times; other processes count from elsewhere, and draw other random bits.
    pub fn chosen(partition: &PartitionName, due: Ticks) -> Self {
        static COUNTER: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(random()));
        let begin = (due.0.min(TIME_MAX) / DUE_STEP).saturating_sub(1) * DUE_STEP;
        let time = Ticks(begin + COUNTER.fetch_add(1, Ordering::Relaxed) % DUE_STEP);
        let random = random() & HASH & !HASH_PART;
        Self::new(time, FIXED | CHOSEN | hash(partition) & HASH_PART | random)
    }

    /// The id that older versions gave to the message at a position, in whatever partition.
    pub fn old(position: MessageId) -> Self {
        Self(position.to_uuid())
    }

    /// `None` unless it is of version 1.
    pub fn from_u128(uuid: u128) -> Option<Self> {
        MessageId::from_uuid(uuid).map(|_| Self(uuid))
    }

    /// All its bits.
    pub fn to_u128(self) -> u128 {
        self.0
    }

    /// Without dashes, as Queuey writes it.
    pub fn hex(self) -> String {
        format!("{:032x}", self.0)
    }

    /// Its time: the position for derived and old ids; for those chosen at the put, shortly before the message is due.
    pub fn time(self) -> Ticks {
        MessageId::from_uuid(self.0).unwrap_or_default().0
    }

    /// Between which times the message is due, if its id was chosen at the put.
    pub fn due(self) -> RangeInclusive<Ticks> {
        let begin = (self.time().0 / DUE_STEP + 1) * DUE_STEP;
        Ticks(begin)..=Ticks(begin + DUE_STEP - 1)
    }

    /// The position that it is derived from in this partition; `None` if it is not derived, or from another one.
    pub fn position_in(self, partition: &PartitionName) -> Option<MessageId> {
        let position = MessageId(self.time());
        (self == Self::derived(partition, position)).then_some(position)
    }

    /// Whether it looks chosen at a put into this partition. A few others do, too: 24 bits are not many.
    pub fn may_be_chosen_for(self, partition: &PartitionName) -> bool {
        let bits = FIXED | CHOSEN | HASH_PART;
        self.suffix() & bits == FIXED | CHOSEN | hash(partition) & HASH_PART
    }

    /// Whether it looks chosen at a put.
    pub fn is_chosen(self) -> bool {
        self.suffix() & (FIXED | CHOSEN) == FIXED | CHOSEN
    }

    /// Whether it is a position, as older versions wrote it.
    pub fn is_old(self) -> bool {
        self == Self::old(MessageId(self.time()))
    }

    fn new(Ticks(time): Ticks, suffix: u64) -> Self {
        let uuid = MessageId(Ticks(time & TIME_MAX)).to_uuid();
        Self(uuid >> 64 << 64 | u128::from(suffix))
    }

    fn suffix(self) -> u64 {
        self.0 as u64
    }
}

/// Random bits. Without any, the clock and the counter still tell ids apart.
fn random() -> u64 {
    let mut random = [0; 8];
    match getrandom::fill(&mut random) {
        Ok(()) => u64::from_le_bytes(random),
        Err(_) => Ticks::now().0,
    }
}

/// FNV-1a of the partition's name as in `notes:mail-3`, then the finaliser of MurmurHash3, which spreads it over all
/// bits. It is part of ids: it must never change.
fn hash(partition: &PartitionName) -> u64 {
    struct Fnv(u64);
    impl fmt::Write for Fnv {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            for byte in text.bytes() {
                self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
            Ok(())
        }
    }
    let mut fnv = Fnv(0xcbf2_9ce4_8422_2325);
    let _ = write!(fnv, "{partition}");
    let mut mixed = fnv.0;
    mixed = (mixed ^ mixed >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed = (mixed ^ mixed >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ mixed >> 33
}

impl Ord for MessageUuid {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time(), self.0).cmp(&(other.time(), other.0))
    }
}

impl PartialOrd for MessageUuid {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for MessageUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uuid = self.0;
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            uuid >> 96,
            uuid >> 80 & 0xffff,
            uuid >> 64 & 0xffff,
            uuid >> 48 & 0xffff,
            uuid & 0xffff_ffff_ffff
        )
    }
}

impl fmt::Debug for MessageUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for MessageUuid {
    type Err = MessageUuidError;

    /// Any case, with or without dashes.
    fn from_str(text: &str) -> Result<Self, MessageUuidError> {
        let parse = || {
            let mut uuid: u128 = 0;
            let mut digits = 0;
            for digit in text.chars().filter(|c| *c != '-') {
                uuid = uuid << 4 | u128::from(digit.to_digit(16)?);
                digits += 1;
                if digits > 32 {
                    return None;
                }
            }
            Self::from_u128(uuid).filter(|_| digits == 32)
        };
        parse().ok_or_else(|| MessageUuidError(text.chars().take(100).collect()))
    }
}

impl TryFrom<String> for MessageUuid {
    type Error = MessageUuidError;

    fn try_from(text: String) -> Result<Self, MessageUuidError> {
        text.parse()
    }
}

impl From<MessageUuid> for String {
    fn from(id: MessageUuid) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> PartitionName {
        text.parse().unwrap()
    }

    fn message(position: u64, meta: &str) -> Message {
        let meta = Bytes::from(meta.to_owned());
        Message { id: MessageId(Ticks(position)), meta, body: Bytes::new(), expires: None }
    }

    /// Ids are for life: if this fails, all stored messages would get other ids.
    #[test]
    fn derived_ids_never_change() {
        let id = |partition: &str| {
            MessageUuid::derived(&name(partition), MessageId(Ticks(0x01f0_7a64_3f9c_1b52))).to_string()
        };
        assert_eq!(id("mail-1"), "3f9c1b52-7a64-11f0-8d96-bb488460f550");
        assert_eq!(id("mail-2"), "3f9c1b52-7a64-11f0-9bc4-a7945ee3e0f3");
        assert_eq!(id("notes:mail-1"), "3f9c1b52-7a64-11f0-8531-4556bbf93006");
    }

    #[test]
    fn an_id_is_the_stored_one_or_follows_from_the_position() {
        let (mail, position) = (name("mail-1"), MessageId(Ticks(77)));
        let of = |meta: &str| MessageUuid::of(&mail, &message(77, meta));
        assert_eq!(of(r#"{"via":"cli"}"#), MessageUuid::derived(&mail, position));
        assert_eq!(of(r#"{"via":"pigeon"}"#), MessageUuid::derived(&mail, position), "of a newer version");
        for old in ["", "{}", r#"{"retries":1}"#, "other", "[1]", r#"{"via":"cli","id":"x"}"#] {
            assert_eq!(of(old).to_string(), position.to_string(), "{old}");
        }
        let own = "6ba7b8109dad11d180b400c04fd430c8";
        assert_eq!(of(&format!(r#"{{"id":"{own}"}}"#)).hex(), own);
        assert_eq!(of(&format!(r#"{{"id":"{own}","via":"http"}}"#)).hex(), own);
    }

    #[test]
    fn ids_chosen_at_the_put_know_their_partition_and_when_they_are_due() {
        let (mail, other, due) = (name("mail-1"), name("mail-2"), Ticks::now());
        let ids: Vec<_> = (0..10_000).map(|_| MessageUuid::chosen(&mail, due)).collect();
        let times: HashSet<_> = ids.iter().map(|id| id.time()).collect();
        assert_eq!(times.len(), ids.len(), "the time alone tells them apart");
        assert!(ids.iter().all(|id| id.due().contains(&due) && id.time() < due));
        let next = MessageUuid::chosen(&mail, due.plus(Duration::from_millis(200)));
        assert!(ids.iter().all(|id| *id < next), "they sort by when they are due");
        assert!(ids.iter().all(|id| id.may_be_chosen_for(&mail) && !id.may_be_chosen_for(&other)));
        assert!(ids.iter().all(|id| id.position_in(&mail).is_none() && !id.is_old()));
        let random: HashSet<_> = ids.iter().map(|id| id.suffix()).collect();
        assert!(random.len() > 9_900, "36 bits are random");
    }

    #[test]
    fn what_is_no_id_is_refused() {
        let id = MessageUuid::derived(&name("mail-1"), MessageId(Ticks(77)));
        for text in [
            "",
            "x",
            "1330365230.0380700",
            "6ba7b810-9dad-41d1-80b4-00c04fd430c8",
            &format!("{id}0"),
            &id.to_string()[1..],
            &format!("+{}", &id.hex()[1..]),
            &"1".repeat(100_000),
        ] {
            let error = text.parse::<MessageUuid>().unwrap_err().to_string();
            assert!(error.contains("UUID of version 1") && error.len() < 400, "{error}");
        }
    }

    proptest! {
        #[test]
        fn ids_survive_being_written(position in 0..=TIME_MAX, partition in 1_u16..=200, queue in "[a-z]{1,9}") {
            let partition = name(&format!("{queue}-{partition}"));
            let position = MessageId(Ticks(position));
            let all = [
                MessageUuid::derived(&partition, position),
                MessageUuid::old(position),
                MessageUuid::chosen(&partition, position.0),
            ];
            for id in all {
                let (text, json) = (id.to_string(), serde_json::to_string(&id).unwrap());
                prop_assert_eq!(text.parse(), Ok(id));
                prop_assert_eq!(id.hex().to_uppercase().parse(), Ok(id));
                prop_assert_eq!(serde_json::from_str::<MessageUuid>(&json).unwrap(), id);
                prop_assert_eq!(MessageUuid::from_u128(id.to_u128()), Some(id));
                prop_assert_eq!(text.as_bytes()[14], b'1');
                prop_assert!(matches!(text.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "the variant of {}", text);
                prop_assert_eq!(id.to_u128() >> 40 & 1, 1, "multicast");
            }
            prop_assert_eq!(all[0].position_in(&partition), Some(position));
            prop_assert!(all[1].is_old() && !all[0].is_old() && !all[0].may_be_chosen_for(&partition));
        }

        #[test]
        fn ids_sort_by_time_and_partitions_tell_them_apart(one in 0..=TIME_MAX, other in 0..=TIME_MAX, number in 2_u16..=200) {
            let (mail, partition) = (name("mail-1"), name(&format!("mail-{number}")));
            let id = |partition: &PartitionName, position| MessageUuid::derived(partition, MessageId(Ticks(position)));
            prop_assert_eq!(id(&mail, one).cmp(&id(&mail, other)), one.cmp(&other));
            prop_assert_ne!(id(&mail, one), id(&partition, one));
            prop_assert_eq!(id(&mail, one).position_in(&partition), None);
        }

        #[test]
        fn no_text_is_too_strange(text: String) {
            let _ = text.parse::<MessageUuid>();
        }
    }
}
