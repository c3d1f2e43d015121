//! Message ids: a time, fine enough that every message of a partition has its own.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// From the epoch of UUIDs (15 October 1582) to that of Unix, in ticks.
const UNIX_EPOCH_TICKS: u64 = 0x01B2_1DD2_1381_4000;
const TICKS_PER_SECOND: u64 = 10_000_000;
const NANOS_PER_TICK: u32 = 100;
/// A version 1 UUID has room for 60 bits of time: until the year 5236.
pub(crate) const TICKS_MAX: u64 = (1 << 60) - 1;
/// Clock sequence and node of every id that we assign. The time alone makes an id unique within its partition, so these
/// carry no information; the node has the bit that marks it as no hardware address.
const SUFFIX: u64 = 0x8000_016d_656e_6167;

/// A time, in steps of 100 ns since 15 October 1582, as in UUIDs of version 1.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[schemars(inline)]
pub struct Ticks(pub u64);

/// A message's position in its partition. Ids of one partition rise strictly; two partitions may use the same one.
///
/// Written as a UUID of version 1 (`Display`), or as decimal seconds with seven digits ([`MessageId::seconds`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct MessageId(pub Ticks);

/// The id of a message that is not due yet; it gets its message id when it is. Ordered by due time.
///
/// Written as a UUID of version 8, so that it cannot be mistaken for a message id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct DelayedId {
    /// When it is due.
    pub due: Ticks,
    /// When it was appended, by the journal's clock. Unique among a journal's delayed messages.
    pub put: Ticks,
}

/// The text is no message id.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is not a message id: expected a UUID of version 1, or seconds with at most 7 decimals")]
pub struct IdError(String);

/// The text is no id of a delayed message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is not the id of a delayed message: expected a UUID of version 8")]
pub struct DelayedIdError(String);

impl Ticks {
    /// The time of the wall clock.
    pub fn now() -> Self {
        Self::from(SystemTime::now())
    }

    /// This much later.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let ticks = duration.as_nanos() / u128::from(NANOS_PER_TICK);
        Self(self.0.saturating_add(u64::try_from(ticks).unwrap_or(u64::MAX)).min(TICKS_MAX))
    }

    /// This much earlier.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        let ticks = duration.as_nanos() / u128::from(NANOS_PER_TICK);
        Self(self.0.saturating_sub(u64::try_from(ticks).unwrap_or(u64::MAX)))
    }

    /// The time since `earlier`; zero if that is later.
    pub fn since(self, earlier: Self) -> Duration {
        let ticks = self.0.saturating_sub(earlier.0);
        Duration::new(ticks / TICKS_PER_SECOND, (ticks % TICKS_PER_SECOND) as u32 * NANOS_PER_TICK)
    }
}

impl From<SystemTime> for Ticks {
    /// Clamps times before 1582 and after 5236.
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self(UNIX_EPOCH_TICKS).plus(after),
            Err(before) => Self(UNIX_EPOCH_TICKS).minus(before.duration()),
        }
    }
}

impl From<Ticks> for SystemTime {
    fn from(ticks: Ticks) -> Self {
        match ticks.0.checked_sub(UNIX_EPOCH_TICKS) {
            Some(_) => UNIX_EPOCH + ticks.since(Ticks(UNIX_EPOCH_TICKS)),
            None => UNIX_EPOCH - Ticks(UNIX_EPOCH_TICKS).since(ticks),
        }
    }
}

impl MessageId {
    /// Before every message: where a new reader begins.
    pub const ZERO: Self = Self(Ticks(0));
    /// After every message.
    pub const MAX: Self = Self(Ticks(TICKS_MAX));

    /// The next one up.
    #[must_use]
    pub fn next(self) -> Self {
        Self(Ticks((self.0.0 + 1).min(TICKS_MAX)))
    }

    /// The next one down: reading "after" it is reading "from" this one.
    #[must_use]
    pub fn previous(self) -> Self {
        Self(Ticks(self.0.0.saturating_sub(1)))
    }

    /// When it was assigned, by the journal's clock.
    pub fn time(self) -> SystemTime {
        self.0.into()
    }

    /// As a UUID of version 1.
    pub fn to_uuid(self) -> u128 {
        let ticks = u128::from(self.0.0);
        let (low, mid, high) = (ticks & 0xffff_ffff, ticks >> 32 & 0xffff, ticks >> 48 & 0x0fff);
        low << 96 | mid << 80 | (0x1000 | high) << 64 | u128::from(SUFFIX)
    }

    /// The time in a UUID of version 1; `None` for other versions. Ignores clock sequence and node.
    pub fn from_uuid(uuid: u128) -> Option<Self> {
        let version = uuid >> 76 & 0xf;
        let ticks = uuid >> 96 & 0xffff_ffff | (uuid >> 80 & 0xffff) << 32 | (uuid >> 64 & 0x0fff) << 48;
        (version == 1).then_some(Self(Ticks(ticks as u64)))
    }

    /// The exact id as seconds since 1970, with seven decimals. Anything before 1970 is `0.0000000`.
    pub fn seconds(self) -> String {
        let ticks = self.0.0.saturating_sub(UNIX_EPOCH_TICKS);
        format!("{}.{:07}", ticks / TICKS_PER_SECOND, ticks % TICKS_PER_SECOND)
    }

    /// Parses what [`MessageId::seconds`] writes, also with fewer decimals. Zero is [`MessageId::ZERO`].
    pub fn from_seconds(text: &str) -> Result<Self, IdError> {
        let parse = || {
            let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
            let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            if !digits(whole) || !digits(fraction) || fraction.len() > 7 {
                return None;
            }
            let fraction: u64 = format!("{fraction:0<7}").parse().ok()?;
            let unix = whole.parse::<u64>().ok()?.checked_mul(TICKS_PER_SECOND)?.checked_add(fraction)?;
            let ticks = unix.checked_add(UNIX_EPOCH_TICKS).filter(|ticks| *ticks <= TICKS_MAX)?;
            Some(if unix == 0 { Self::ZERO } else { Self(Ticks(ticks)) })
        };
        parse().ok_or_else(|| IdError(text.to_owned()))
    }
}

impl DelayedId {
    /// Before every delayed message: where a new reader begins.
    pub const ZERO: Self = Self { due: Ticks(0), put: Ticks(0) };

    /// The due time comes first, so that the texts sort in the same order.
    fn to_uuid(self) -> u128 {
        let (due, put) = (u128::from(self.due.0 & TICKS_MAX), u128::from(self.put.0 & TICKS_MAX));
        due >> 12 << 80 | 8 << 76 | (due & 0xfff) << 64 | 0b10 << 62 | put
    }

    fn from_uuid(uuid: u128) -> Option<Self> {
        let due = (uuid >> 80 << 12 | uuid >> 64 & 0xfff) as u64;
        let id = Self { due: Ticks(due), put: Ticks(uuid as u64 & TICKS_MAX) };
        // Any other bits mean that it is not ours.
        (id.to_uuid() == uuid).then_some(id)
    }
}

fn write_uuid(uuid: u128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

/// Any case, with or without dashes.
fn read_uuid(text: &str) -> Option<u128> {
    let hex: String = text.chars().filter(|c| *c != '-').collect();
    let is_one = hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    u128::from_str_radix(&hex, 16).ok().filter(|_| is_one)
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_uuid(self.to_uuid(), f)
    }
}

impl fmt::Display for DelayedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_uuid(self.to_uuid(), f)
    }
}

impl FromStr for DelayedId {
    type Err = DelayedIdError;

    /// Takes a UUID (any case, with or without dashes).
    fn from_str(text: &str) -> Result<Self, DelayedIdError> {
        read_uuid(text).and_then(Self::from_uuid).ok_or_else(|| DelayedIdError(text.to_owned()))
    }
}

impl FromStr for MessageId {
    type Err = IdError;

    /// Takes a UUID (any case, with or without dashes) or seconds.
    fn from_str(text: &str) -> Result<Self, IdError> {
        match read_uuid(text) {
            Some(uuid) => Self::from_uuid(uuid).ok_or_else(|| IdError(text.to_owned())),
            None => Self::from_seconds(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_being_written_as_a_uuid_or_as_seconds() {
        let id = MessageId(Ticks::now());
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string().to_uppercase().replace('-', "").parse(), Ok(id));
        assert_eq!(id.seconds().parse(), Ok(id));
        assert_eq!(MessageId::ZERO.seconds(), "0.0000000");
        assert_eq!("0.0".parse(), Ok(MessageId::ZERO));
        assert_eq!(MessageId::from_seconds("1330365230.03807").unwrap().seconds(), "1330365230.0380700");
        let apart = MessageId::MAX.time().duration_since(UNIX_EPOCH).unwrap();
        assert!(Ticks::from(UNIX_EPOCH + apart) == MessageId::MAX.0);
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for text in [
            "",
            "x",
            "1.12345678",
            "-1",
            "1e9",
            ".5",
            "12345678901234567890123",
            "6ba7b810-9dad-41d1-80b4-00c04fd430c8",
        ] {
            assert!(text.parse::<MessageId>().is_err(), "{text}");
        }
        // A UUID of version 1 made elsewhere keeps its time.
        assert!("6ba7b810-9dad-11d1-80b4-00c04fd430c8".parse::<MessageId>().is_ok());
    }

    #[test]
    fn an_id_of_a_delayed_message_is_in_order_as_text_and_never_taken_for_another() {
        let id = |due, put| DelayedId { due: Ticks(due), put: Ticks(put) };
        let ids = [DelayedId::ZERO, id(0, 1), id(0xfff, TICKS_MAX), id(0x1000, 0), id(TICKS_MAX, TICKS_MAX)];
        assert!(ids.is_sorted() && ids.map(|id| id.to_string()).is_sorted());
        for id in ids {
            let text = id.to_string();
            assert_eq!(text.parse(), Ok(id));
            assert_eq!(text.to_uppercase().replace('-', "").parse(), Ok(id));
            assert!(text.parse::<MessageId>().is_err(), "{text}");
        }
        let message = MessageId(Ticks::now());
        for text in [&message.to_string(), &message.seconds(), "", "6ba7b810-9dad-81d1-30b4-00c04fd430c8"] {
            assert!(text.parse::<DelayedId>().is_err(), "{text}");
        }
    }
}
