//! Points in time, as people write them.

use std::time::SystemTime;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use menagerie_journal::Ticks;

/// Parses a time with an offset, or in local time without one; or seconds since 1970.
pub fn moment(text: &str) -> Result<Ticks, String> {
    let wrong = || format!("{text:?} is no time: write 2026-11-15T12:00:00Z, or seconds since 1970");
    if let Ok(seconds) = text.parse::<i64>() {
        return Timestamp::from_second(seconds).map(ticks).map_err(|_| wrong());
    }
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Ok(ticks(timestamp));
    }
    let local: DateTime = text.parse().map_err(|_| wrong())?;
    local.to_zoned(TimeZone::system()).map(|zoned| ticks(zoned.timestamp())).map_err(|_| wrong())
}

/// The same where nobody knows whose local time is meant: an offset is required.
pub fn moment_with_offset(text: &str) -> Result<Ticks, String> {
    let is_absolute = text.parse::<i64>().is_ok() || text.parse::<Timestamp>().is_ok();
    match is_absolute || text.parse::<DateTime>().is_err() {
        true => moment(text),
        false => {
            Err(format!("{text:?} has no offset: write 2026-11-15T12:00:00Z, or 2026-11-15T13:00:00+01:00"))
        }
    }
}

fn ticks(timestamp: Timestamp) -> Ticks {
    SystemTime::from(timestamp).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_with_and_without_an_offset() {
        let noon = moment("2026-11-15T12:00:00Z").unwrap();
        assert_eq!(moment("2026-11-15T13:00:00+01:00"), Ok(noon));
        assert_eq!(moment("1794744000"), Ok(noon));
        assert!(moment("2026-11-15T12:00:00").is_ok());
        for text in ["2026-11-15T12:00:00Z", "2026-11-15T13:00:00+01:00", "1794744000"] {
            assert_eq!(moment_with_offset(text), Ok(noon));
        }
        for text in ["2026-11-15T12:00:00", "2026-11-15 12:00:00", "2026-11-15"] {
            assert!(moment_with_offset(text).unwrap_err().contains("no offset"), "{text}");
        }
        assert!(moment_with_offset("noon").unwrap_err().contains("no time"));
        for text in ["", "noon", "2026-13-01T00:00:00Z"] {
            assert!(moment(text).is_err(), "{text}");
        }
    }
}
