//! The result of a check: a state, one line for the pager, and performance data.

use std::fmt;
use std::fmt::Write as _;

use super::range::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Ok,
    /// Somebody should look.
    Warning,
    /// Somebody must look.
    Critical,
    /// The check could not find out.
    Unknown,
}

impl State {
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Warning => 1,
            Self::Critical => 2,
            Self::Unknown => 3,
        }
    }

    /// Parses a state's name or exit code.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.to_ascii_uppercase().as_str() {
            "OK" | "0" => Ok(Self::Ok),
            "WARNING" | "1" => Ok(Self::Warning),
            "CRITICAL" | "2" => Ok(Self::Critical),
            "UNKNOWN" | "3" => Ok(Self::Unknown),
            _ => Err(format!("{text:?} is no state: say OK, WARNING, CRITICAL or UNKNOWN")),
        }
    }

    /// The state to report of two: a known problem (CRITICAL) outranks UNKNOWN, which outranks WARNING.
    pub fn worse(self, other: Self) -> Self {
        let rank = |state| match state {
            Self::Ok => 0,
            Self::Warning => 1,
            Self::Unknown => 2,
            Self::Critical => 3,
        };
        if rank(other) > rank(self) { other } else { self }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "OK",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
            Self::Unknown => "UNKNOWN",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Thresholds {
    pub warning: Option<Range>,
    pub critical: Option<Range>,
}

impl Thresholds {
    /// Judges a number; `critical` first.
    pub fn judge(self, value: f64) -> State {
        let alerts = |range: Option<Range>| range.is_some_and(|range| range.alerts(value));
        match (alerts(self.critical), alerts(self.warning)) {
            (true, _) => State::Critical,
            (false, true) => State::Warning,
            (false, false) => State::Ok,
        }
    }
}

/// One value of performance data.
#[derive(Debug, Clone, PartialEq)]
pub struct Perf {
    /// Unique in its first 19 characters.
    pub label: String,
    /// `None` if it is unknown.
    pub value: Option<f64>,
    /// `s`, `B` or empty.
    pub unit: &'static str,
    pub thresholds: Thresholds,
    /// Largest possible value.
    pub max: Option<f64>,
}

impl Perf {
    /// A value without thresholds.
    pub fn new(label: impl Into<String>, value: Option<f64>, unit: &'static str) -> Self {
        Self { label: label.into(), value, unit, thresholds: Thresholds::default(), max: None }
    }
}

impl fmt::Display for Perf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value.map_or("U".to_owned(), |value| format!("{value}{}", self.unit));
        let range = |range: Option<Range>| range.map_or(String::new(), |range| range.to_string());
        let max = self.max.map_or(String::new(), |max| max.to_string());
        let Thresholds { warning, critical } = self.thresholds;
        // None of our values can be negative.
        let text = format!("{value};{};{};0;{max}", range(warning), range(critical));
        write!(f, "'{}'={}", plain(&self.label).replace('\'', "''"), text.trim_end_matches(';'))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// What was checked, in capitals.
    pub service: &'static str,
    pub state: State,
    /// Why, in a few words.
    pub text: String,
    /// Performance data.
    pub perf: Vec<Perf>,
    /// Extra lines, each with the `-v` count that shows it.
    pub details: Vec<(u8, String)>,
}

impl Report {
    /// A report without performance data and details.
    pub fn new(service: &'static str, state: State, text: impl Into<String>) -> Self {
        Self { service, state, text: text.into(), perf: Vec::new(), details: Vec::new() }
    }

    pub fn unknown(service: &'static str, text: impl Into<String>) -> Self {
        Self::new(service, State::Unknown, text)
    }

    /// Adds a line shown from this many `-v` on.
    pub fn detail(&mut self, verbosity: u8, line: impl Into<String>) {
        self.details.push((verbosity, line.into()));
    }

    /// The plugin output.
    pub fn render(&self, verbosity: u8) -> String {
        let mut out = format!("{} {} - {}", self.service, self.state, plain(&self.text));
        for (at, perf) in self.perf.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = write!(out, "{}{perf}", if at == 0 { " | " } else { " " });
        }
        out.push('\n');
        for (_, line) in self.details.iter().filter(|(level, _)| *level <= verbosity) {
            let _ = writeln!(out, "{}", plain(line));
        }
        out
    }
}

/// One line, safe for terminals, that cannot be mistaken for performance data.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '|' => '/',
            c if c.is_control() => ' ',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::range::number;
    use super::*;

    fn range(text: &str) -> Option<Range> {
        Some(Range::parse(text, number).unwrap())
    }

    #[test]
    fn line_numbers_and_details_look_as_plugins_should() {
        let mut report = Report::new("SLOTS", State::Critical, "host7 holds decom/2 for 4d 2h");
        let thresholds = Thresholds { warning: range("172800"), critical: range("345600") };
        report.perf.push(Perf { max: Some(3.0), ..Perf::new("decom.used", Some(3.0), "") });
        report.perf.push(Perf { thresholds, ..Perf::new("decom.oldest", Some(353_100.0), "s") });
        report.perf.push(Perf::new("it's = odd", None, "s"));
        report.detail(1, "more");
        report.detail(3, "all");
        let line = "SLOTS CRITICAL - host7 holds decom/2 for 4d 2h | 'decom.used'=3;;;0;3 \
                    'decom.oldest'=353100s;172800;345600;0 'it''s = odd'=U;;;0\n";
        assert_eq!(report.render(0), line);
        assert_eq!(report.render(2), format!("{line}more\n"));
        assert_eq!(report.render(9), format!("{line}more\nall\n"));
    }

    #[test]
    fn critical_is_judged_first_and_comes_before_what_nobody_can_tell() {
        let thresholds = Thresholds { warning: range("5"), critical: range("10") };
        for (value, state) in [(5.0, State::Ok), (6.0, State::Warning), (11.0, State::Critical)] {
            assert_eq!(thresholds.judge(value), state);
        }
        assert_eq!(Thresholds::default().judge(1e9), State::Ok);
        assert_eq!(State::Warning.worse(State::Unknown), State::Unknown);
        assert_eq!(State::Critical.worse(State::Unknown), State::Critical);
        assert_eq!(State::Ok.worse(State::Warning), State::Warning);
    }

    proptest! {
        #[test]
        fn whatever_is_said_the_first_line_is_one_with_one_bar(
            text in any::<String>(), label in any::<String>(), value in proptest::option::of(-1e6..1e6),
        ) {
            let mut report = Report::unknown("NODE", text);
            report.perf.push(Perf::new(label, value, "s"));
            report.detail(0, "a|b\nc");
            let out = report.render(0);
            prop_assert_eq!(out.lines().count(), 2, "{}", out);
            prop_assert_eq!(out.matches('|').count(), 1);
            prop_assert!(!out.chars().any(|c| c.is_control() && c != '\n'));
            prop_assert!(out.ends_with('\n'));
        }
    }
}
