//! Durations as people write them: bare seconds, or `90s 5m 2h 3d`.

use std::time::Duration;

pub use menagerie_types::duration::{parse, parse_fine};

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
    fn units_are_read_and_written() {
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
