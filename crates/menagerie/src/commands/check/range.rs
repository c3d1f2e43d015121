//! Alert ranges as monitoring plugins write them.

use std::fmt;

/// `[@][START:]END`: alerts outside the range, with `@` inside it; both ends belong to the range. `~` means no lower
/// end, a missing END no upper one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    start: f64,
    end: f64,
    inside: bool,
}

impl Range {
    /// Parses a range; `number` parses its ends.
    pub fn parse(text: &str, number: impl Fn(&str) -> Result<f64, String>) -> Result<Self, String> {
        let (inside, ends) = match text.strip_prefix('@') {
            Some(ends) => (true, ends),
            None => (false, text),
        };
        let (start, end) = match ends.split_once(':') {
            None => (0.0, number(ends)?),
            Some(("~", "")) => (f64::NEG_INFINITY, f64::INFINITY),
            Some(("~", end)) => (f64::NEG_INFINITY, number(end)?),
            Some(("", "")) => return Err(format!("{text:?} is no range: it has no ends")),
            Some(("", end)) => (0.0, number(end)?),
            Some((start, "")) => (number(start)?, f64::INFINITY),
            Some((start, end)) => (number(start)?, number(end)?),
        };
        if start > end {
            return Err(format!("{text:?} is no range: it ends before it starts"));
        }
        Ok(Self { start, end, inside })
    }

    pub fn alerts(self, value: f64) -> bool {
        (self.start..=self.end).contains(&value) == self.inside
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, end, inside } = *self;
        f.write_str(if inside { "@" } else { "" })?;
        match (start, end) {
            (0.0, end) if end.is_finite() => write!(f, "{end}"),
            (start, end) => {
                if start.is_finite() {
                    write!(f, "{start}:")?
                } else {
                    f.write_str("~:")?
                }
                if end.is_finite() { write!(f, "{end}") } else { Ok(()) }
            }
        }
    }
}

/// Parses a plain number.
pub fn number(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(format!("{text:?} is no number")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_alert_as_the_guidelines_of_plugins_say() {
        for (text, quiet, loud) in [
            ("10", vec![0.0, 10.0], vec![-0.1, 10.1]),
            ("10:", vec![10.0, 1e9], vec![9.9, -1.0]),
            ("~:10", vec![-1e9, 10.0], vec![10.1]),
            ("10:20", vec![10.0, 20.0], vec![9.9, 20.1]),
            ("@10:20", vec![9.9, 20.1], vec![10.0, 15.0, 20.0]),
            (":5", vec![0.0, 5.0], vec![-1.0, 6.0]),
            ("-5:-1", vec![-5.0, -1.0], vec![0.0, -6.0]),
            ("@~:", vec![], vec![0.0, -1e9, 1e9]),
        ] {
            let range = Range::parse(text, number).unwrap();
            assert!(quiet.iter().all(|value| !range.alerts(*value)), "{text}");
            assert!(loud.iter().all(|value| range.alerts(*value)), "{text}");
        }
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in ["", "@", ":", "x", "1:x", "20:10", "~", "1:2:3", "inf", "NaN", "10 20", "@@1"] {
            assert!(Range::parse(text, number).is_err(), "{text:?}");
        }
    }

    fn any_range() -> impl Strategy<Value = Range> {
        let end = prop_oneof![Just(None), (-1000_i32..1000).prop_map(|end| Some(f64::from(end) / 4.0))];
        (end.clone(), end, any::<bool>()).prop_map(|(start, end, inside)| {
            let (start, end) = (start.unwrap_or(f64::NEG_INFINITY), end.unwrap_or(f64::INFINITY));
            Range { start: start.min(end), end: end.max(start), inside }
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_as_the_same(range in any_range()) {
            prop_assert_eq!(Range::parse(&range.to_string(), number), Ok(range));
        }

        #[test]
        fn an_at_turns_it_round(range in any_range(), value in -300.0..300.0) {
            let turned = Range { inside: !range.inside, ..range };
            prop_assert_ne!(range.alerts(value), turned.alerts(value));
        }

        #[test]
        fn nothing_makes_it_panic(text in ".*") {
            let _ = Range::parse(&text, number);
        }
    }
}
