//! How long a queue keeps handled messages, as people write it.

use menagerie_znodes::queues::Keep;

use crate::durations;

pub fn parse(text: &str) -> Result<Keep, String> {
    match text.trim() {
        "forever" => Ok(Keep::Forever),
        text => durations::parse(text)
            .map(Keep::For)
            .map_err(|_| format!("{text:?} is no time: write 90s, 5m, 2h, 7d, or forever")),
    }
}

/// Formats it so that [`parse`] reads it back.
pub fn show(keep: Keep) -> String {
    match keep {
        Keep::For(time) => durations::show(time),
        Keep::Forever => "forever".to_owned(),
    }
}

/// The same as part of a sentence.
pub fn kept(keep: Keep) -> String {
    match keep {
        Keep::For(_) => format!("for {}", show(keep)),
        Keep::Forever => show(keep),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_read_and_written() {
        for text in ["10s", "5m", "7d", "0s", "forever"] {
            assert_eq!(parse(text).map(show), Ok(text.to_owned()));
        }
        assert_eq!(parse("60"), Ok(Keep::For(Duration::from_secs(60))));
        assert_eq!((kept(Keep::default()).as_str(), kept(Keep::Forever).as_str()), ("for 7d", "forever"));
        for text in ["", "ever", "-1d", "1w"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
