//! `-w` and `-c` on the command line.

use clap::Args;

use super::range::{self, Range};
use super::report::Thresholds;
use crate::durations;

/// How old is too old.
#[derive(Debug, Clone, Copy, Args)]
pub struct AgeArgs {
    /// Warn when the age is outside this range: `2d` allows up to two days, `1h:` at least an hour, `@0:5m` alerts
    /// inside it.
    #[arg(short, long, value_name = "AGE", value_parser = age)]
    warning: Option<Range>,
    /// Critical when the age is outside this range.
    #[arg(short, long, value_name = "AGE", value_parser = age)]
    critical: Option<Range>,
}

impl AgeArgs {
    pub fn thresholds(self) -> Thresholds {
        Thresholds { warning: self.warning, critical: self.critical }
    }
}

/// How many may wait.
#[derive(Debug, Clone, Copy, Args)]
pub struct WaitingArgs {
    /// Warn when the number waiting is outside this range.
    #[arg(long, value_name = "RANGE", value_parser = count)]
    waiting_warning: Option<Range>,
    /// Critical when the number waiting is outside this range.
    #[arg(long, value_name = "RANGE", value_parser = count)]
    waiting_critical: Option<Range>,
}

impl WaitingArgs {
    pub fn thresholds(self) -> Thresholds {
        Thresholds { warning: self.waiting_warning, critical: self.waiting_critical }
    }
}

/// Parses a range of plain numbers.
pub fn count(text: &str) -> Result<Range, String> {
    Range::parse(text, range::number)
}

/// Parses a range of ages: bare seconds, or `90s 5m 2h 3d`.
fn age(text: &str) -> Result<Range, String> {
    Range::parse(text, |end| durations::parse(end).map(|age| age.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_units() {
        for (text, shown) in
            [("2d", "172800"), ("90", "90"), ("1h:", "3600:"), ("@0:5m", "@300"), ("~:2m", "~:120")]
        {
            assert_eq!(age(text).unwrap().to_string(), shown);
        }
        for text in ["", "2 days", "-1", "5m:1m", "1.5h"] {
            assert!(age(text).is_err(), "{text}");
        }
    }
}
