//! The cursor: how far a partition was processed.

use std::fmt;

use crate::payload::{Payload, PayloadError};

/// 100 ns each, as in version 1 UUIDs.
pub const TICKS_PER_SECOND: u64 = 10_000_000;

/// Decimals of a second that represent a tick.
const DIGITS: usize = 7;

/// Half the distance of two doubles at today's seconds is 1.2 ticks. The double can be that much above its message, and
/// the shortest text for this double that much again.
const DOUBLE_ERROR_TICKS: u64 = 3;

/// The time of the last processed message, in ticks since 1970; messages up to and including it are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Cursor(pub u64);

impl Cursor {
    /// Parses the cursor of a Python program, which kept time as a double: the message that it stands for may be a
    /// little earlier, and others a little later looked the same. So it becomes the earliest tick that it can mean: a
    /// message is repeated rather than skipped.
    pub fn of_double(text: &str) -> Option<Self> {
        let (ticks, digits) = ticks(text.trim())?;
        let rounded = (0..DIGITS.saturating_sub(digits)).fold(1, |unit, _| unit * 10) / 2;
        let earliest = ticks.saturating_sub(rounded + DOUBLE_ERROR_TICKS);
        // Nothing was processed yet.
        Some(Self(if ticks == 0 { 0 } else { earliest }))
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:0DIGITS$}", self.0 / TICKS_PER_SECOND, self.0 % TICKS_PER_SECOND)
    }
}

impl Payload for Cursor {
    fn encode(&self) -> Vec<u8> {
        self.to_string().into_bytes()
    }

    fn decode(data: &[u8]) -> Result<Self, PayloadError> {
        let text = std::str::from_utf8(data).unwrap_or_default().trim();
        parse(text).ok_or_else(|| PayloadError {
            expected: "a cursor",
            source: "it is seconds since 1970 with digits behind the point, such as `1330365230.0380700`"
                .into(),
        })
    }
}

/// With exactly seven decimals it is one of ours, and exact; anything else was a double.
fn parse(text: &str) -> Option<Cursor> {
    let (ticks, digits) = ticks(text)?;
    if digits == DIGITS { Some(Cursor(ticks)) } else { Cursor::of_double(text) }
}

/// The ticks of a text, and the number of its decimals; those beyond a tick are cut.
fn ticks(text: &str) -> Option<(u64, usize)> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let decimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !decimal(seconds) || !decimal(fraction) {
        return None;
    }
    let known = &fraction[..fraction.len().min(DIGITS)];
    let whole = seconds.parse::<u64>().ok()?.checked_mul(TICKS_PER_SECOND)?;
    let part = format!("{known:0<DIGITS$}").parse::<u64>().ok()?;
    Some((whole.checked_add(part)?, fraction.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(text: &str) -> Option<u64> {
        Cursor::decode(text.as_bytes()).ok().map(|cursor| cursor.0)
    }

    #[test]
    fn a_new_one_has_seven_digits_too() {
        assert_eq!(Cursor::default().to_string(), "0.0000000");
        assert_eq!(decoded("0.0"), Some(0));
    }

    #[test]
    fn ours_are_exact_and_old_ones_repeat_rather_than_skip() {
        assert_eq!(decoded("1330365230.0380700"), Some(13_303_652_300_380_700));
        assert_eq!(decoded("1330365230.03807"), Some(13_303_652_300_380_700 - 50 - 3));
        assert_eq!(decoded("1330365230"), Some(13_303_652_300_000_000 - 5_000_000 - 3));
        assert_eq!(decoded("1330365230.038070123"), Some(13_303_652_300_380_701 - 3));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "x", "-1.0", "1.2.3", "1e9", "1.x", "99999999999999999999.0"] {
            assert_eq!(decoded(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_tick_survives(ticks in 0..u64::MAX / 2) {
            prop_assert_eq!(decoded(&Cursor(ticks).to_string()), Some(ticks));
        }

        /// What qdo wrote was `str` or `repr` of a double.
        #[test]
        fn old_cursor_is_never_behind_which_it_was_written_for(ticks in 10_000_000_000_000_000_u64..21_000_000_000_000_000) {
            let double = ticks as f64 / 1e7;
            for text in [format!("{double}"), format!("{double:.5}"), format!("{double:.2}")] {
                prop_assert!(Cursor::of_double(&text).unwrap().0 <= ticks, "{} for {}", text, ticks);
            }
        }
    }
}
