//! The result of all suites: every test's verdict, the flaky ones by name, and whether the run is good. Pure.

use std::fmt::Write as _;

use super::events::first_message;

/// More flaky tests than this in one run are no coincidence.
const FLAKY_MAX: usize = 3;
/// Show this many of the slowest tests.
const SLOWEST: usize = 10;

/// Show at most this much of a failed test's output at the end.
const OUTPUT_CHARS_MAX: usize = 10_000;
const MESSAGE_CHARS_MAX: usize = 200;

#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    Passed,
    /// It failed among the others and passed alone.
    Flaky {
        /// Its output when it failed.
        output: String,
    },
    /// It failed among the others and alone, or could not be retried.
    Failed {
        /// Its last output.
        output: String,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub suite: String,
    pub test: String,
    pub seconds: f64,
    pub verdict: Verdict,
}

/// The findings of one run of `cargo xtask test`.
#[derive(Debug, Default)]
pub struct Report {
    outcomes: Vec<Outcome>,
    /// Tests that are only counted, because their individual outcomes are unknown: those in documentation.
    counted: usize,
    /// Failed steps that are no tests, such as lints, with the reason.
    steps: Vec<(String, String)>,
}

impl Report {
    pub fn add(&mut self, outcomes: impl IntoIterator<Item = Outcome>) {
        self.outcomes.extend(outcomes);
    }

    /// Adds passed tests without individual outcomes.
    pub fn count(&mut self, passed: usize) {
        self.counted += passed;
    }

    /// Records a failed step that is not a test.
    pub fn step_failed(&mut self, step: &str, why: &str) {
        self.steps.push((step.to_owned(), why.to_owned()));
    }

    fn flaky(&self) -> impl Iterator<Item = (&Outcome, &str)> {
        self.outcomes.iter().filter_map(|outcome| match &outcome.verdict {
            Verdict::Flaky { output } => Some((outcome, output.as_str())),
            Verdict::Passed | Verdict::Failed { .. } => None,
        })
    }

    fn failures(&self) -> impl Iterator<Item = (&Outcome, &str)> {
        self.outcomes.iter().filter_map(|outcome| match &outcome.verdict {
            Verdict::Failed { output } => Some((outcome, output.as_str())),
            Verdict::Passed | Verdict::Flaky { .. } => None,
        })
    }

    fn passed(&self) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.verdict == Verdict::Passed).count() + self.counted
    }

    /// Why the run is not good; `None` if it is.
    pub fn refusal(&self) -> Option<String> {
        let mut reasons: Vec<String> = self.steps.iter().map(|(step, _)| format!("{step} failed")).collect();
        match self.failures().count() {
            0 => {}
            1 => reasons.push("a test failed".to_owned()),
            count => reasons.push(format!("{count} tests failed")),
        }
        let flaky = self.flaky().count();
        if flaky > FLAKY_MAX {
            reasons.push(format!("{flaky} tests are flaky, of at most {FLAKY_MAX}"));
        }
        (!reasons.is_empty()).then(|| reasons.join(", "))
    }

    /// The table of flaky tests, with the output of each below; empty if there is none.
    pub fn flaky_table(&self) -> String {
        let mut text = String::new();
        let flaky: Vec<_> = self.flaky().collect();
        if flaky.is_empty() {
            return text;
        }
        text.push_str("FLAKY: failed among the others, passed alone; each is to be mended\n");
        let width = |column: fn(&Outcome) -> &str| {
            flaky.iter().map(|(outcome, _)| column(outcome).len()).max().unwrap_or(0)
        };
        let (suites, tests) = (width(|outcome| &outcome.suite), width(|outcome| &outcome.test));
        for (outcome, output) in &flaky {
            let (suite, test) = (&outcome.suite, &outcome.test);
            let why = clip(first_message(output), MESSAGE_CHARS_MAX);
            let _ = writeln!(text, "  {suite:suites$}  {test:tests$}  {why}");
        }
        text
    }

    /// The same with the full output of each flaky test, for a file.
    pub fn flaky_file(&self) -> String {
        let mut text = self.flaky_table();
        for (outcome, output) in self.flaky() {
            let _ = write!(text, "\n==> {} {}\n{}\n", outcome.suite, outcome.test, output.trim_end());
        }
        text
    }

    /// The summary at the end of the run.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        for (outcome, output) in self.failures() {
            let output = clip(output.trim_end(), OUTPUT_CHARS_MAX);
            let _ = write!(text, "\n==> FAILED {} {}\n{output}\n", outcome.suite, outcome.test);
        }
        let mut slowest: Vec<&Outcome> = self.outcomes.iter().collect();
        slowest.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        text.push_str("\nslowest tests\n");
        for outcome in slowest.iter().take(SLOWEST) {
            let _ = writeln!(text, "  {:6.1} s  {}  {}", outcome.seconds, outcome.suite, outcome.test);
        }
        for part in [self.failed_table(), self.flaky_table()] {
            if !part.is_empty() {
                let _ = write!(text, "\n{part}");
            }
        }
        let (passed, failed, flaky) = (self.passed(), self.failures().count(), self.flaky().count());
        let _ = write!(text, "\n{passed} passed, {failed} failed, {flaky} flaky");
        text
    }

    fn failed_table(&self) -> String {
        let mut text = String::new();
        for (step, why) in &self.steps {
            let _ = writeln!(text, "FAILED {step}: {why}");
        }
        for (outcome, output) in self.failures() {
            let why = clip(first_message(output), MESSAGE_CHARS_MAX);
            let _ = writeln!(text, "FAILED {} {}: {why}", outcome.suite, outcome.test);
        }
        text
    }
}

/// The beginning of a text, with an ellipsis if it is longer.
fn clip(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(verdicts: &[Verdict]) -> Report {
        let mut report = Report::default();
        report.add(verdicts.iter().enumerate().map(|(n, verdict)| Outcome {
            suite: "kernel".to_owned(),
            test: format!("test_{n}"),
            seconds: n as f64,
            verdict: verdict.clone(),
        }));
        report
    }

    fn flaky() -> Verdict {
        Verdict::Flaky { output: "thread 'a' panicked at a.rs:1:1:\nwaited in vain\n".to_owned() }
    }

    #[test]
    fn three_flaky_tests_are_named_and_four_fail_the_run() {
        let three = report(&[Verdict::Passed, flaky(), flaky(), flaky()]);
        assert_eq!(three.refusal(), None);
        assert!(three.summary().contains("  kernel  test_1  waited in vain\n"));
        assert!(three.summary().ends_with("1 passed, 0 failed, 3 flaky"));
        let four = report(&[flaky(), flaky(), flaky(), flaky()]);
        assert_eq!(four.refusal().as_deref(), Some("4 tests are flaky, of at most 3"));
    }

    #[test]
    fn one_failure_fails_the_run_whatever_else_passed() {
        let failed = Verdict::Failed { output: "Error: no".to_owned() };
        let mut report = report(&[Verdict::Passed, failed, Verdict::Passed]);
        report.count(5);
        assert_eq!(report.refusal().as_deref(), Some("a test failed"));
        assert!(report.summary().contains("FAILED kernel test_1: Error: no\n"));
        assert!(report.summary().ends_with("7 passed, 1 failed, 0 flaky"));
        assert_eq!(report.flaky_file(), "");
    }

    #[test]
    fn failed_lints_fail_the_run() {
        let mut report = report(&[Verdict::Passed]);
        report.step_failed("lints", "exit status: 101");
        assert_eq!(report.refusal().as_deref(), Some("lints failed"));
    }

    #[test]
    fn slowest_tests_come_first() {
        let summary = report(&vec![Verdict::Passed; 12]).summary();
        let slowest: Vec<&str> = summary.lines().filter(|line| line.contains(" s  kernel")).collect();
        assert_eq!(slowest.len(), SLOWEST);
        assert!(slowest[0].contains("test_11") && slowest[9].contains("test_2"));
    }
}
