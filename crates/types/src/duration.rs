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
}
