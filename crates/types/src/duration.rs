//! Durations as people write them: bare seconds, or `90s 5m 2h 3d`.

use std::time::Duration;

/// Whole seconds, or a number with a unit: `90s`, `5m`, `2h`, `3d`.
pub fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let (number, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => text.split_at(at),
        None => (text, "s"),
    };
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return Err(format!("{text:?} is not a duration: write seconds, or 90s, 5m, 2h, 3d")),
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(seconds))
        .map(Duration::from_secs)
        .ok_or_else(|| format!("{text:?} is not a duration: write seconds, or 90s, 5m, 2h, 3d"))
}

/// The same, and `100ms`: where fractions of a second matter.
pub fn parse_fine(text: &str) -> Result<Duration, String> {
    match text.trim().strip_suffix("ms").map(str::parse) {
        Some(Ok(ms)) => Ok(Duration::from_millis(ms)),
        Some(Err(_)) => Err(format!("{text:?} is not a duration: write seconds, or 100ms, 90s, 5m, 2h, 3d")),
        None => parse(text),
    }
}

/// Formats a duration so that [`parse`] reads it back: in the largest unit that divides it.
pub fn show(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let units = [(24 * 60 * 60, "d"), (60 * 60, "h"), (60, "m")];
    match units.into_iter().find(|(unit, _)| seconds > 0 && seconds.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", seconds / unit),
        None => format!("{seconds}s"),
    }
}

/// Formats a duration so that [`parse_fine`] reads it back.
pub fn show_fine(duration: Duration) -> String {
    match duration.subsec_millis() {
        0 => show(duration),
        _ => format!("{}ms", duration.as_millis()),
    }
}

/// A rough age: `12s`, `3m`, `5h`, `9d`.
pub fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// An age in two units: `12s`, `3m 5s`, `5h 2m`, `9d 3h`.
pub fn precise(age: Duration) -> String {
    let seconds = age.as_secs();
    let (large, small) = match seconds {
        0..60 => return format!("{seconds}s"),
        60..3600 => ((60, "m"), (1, "s")),
        3600..86_400 => ((3600, "h"), (60, "m")),
        _ => ((86_400, "d"), (3600, "h")),
    };
    let rest = seconds % large.0 / small.0;
    let rest = if rest == 0 { String::new() } else { format!(" {rest}{}", small.1) };
    format!("{}{}{rest}", seconds / large.0, large.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read() {
        for (text, seconds) in [("20", 20), ("90s", 90), ("5m", 300), ("2h", 7200), ("3d", 259_200)] {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "s", "-1", "1.5s", "5 m", "5x", "99999999999999999999", "9999999999999999999d"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn milliseconds_are_read_where_they_matter() {
        assert_eq!(parse_fine("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_fine("3"), Ok(Duration::from_secs(3)));
        assert!(parse_fine("ms").is_err() && parse_fine("-1ms").is_err() && parse("250ms").is_err());
    }

    #[test]
    fn what_was_read_is_written() {
        for (text, seconds, shown) in [
            ("20", 20, "20s"),
            ("90s", 90, "90s"),
            ("5m", 300, "5m"),
            ("2h", 7200, "2h"),
            ("3d", 259_200, "3d"),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
            assert_eq!(show(Duration::from_secs(seconds)), shown);
        }
    }

    #[test]
    fn ages_are_rough() {
        for (seconds, shown) in [(0, "0s"), (119, "119s"), (125, "2m"), (7300, "2h"), (200_000, "2d")] {
            assert_eq!(age(Duration::from_secs(seconds)), shown);
        }
        for (seconds, shown) in
            [(0, "0s"), (59, "59s"), (60, "1m"), (125, "2m 5s"), (7300, "2h 1m"), (353_100, "4d 2h")]
        {
            assert_eq!(precise(Duration::from_secs(seconds)), shown);
        }
    }
}
