//! Runs one suite: all of its tests at once, then each failed one again, alone.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, IsTerminal as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::events::{self, Ended, Event, first_message};
use super::report::{Outcome, Verdict};

/// A suite that takes this long hangs, and is killed.
const SUITE_MAX: Duration = Duration::from_secs(20 * 60);
/// The same for one test alone.
const ALONE_MAX: Duration = Duration::from_secs(5 * 60);

/// Exit code of Rust's test harness when tests failed.
const TESTS_FAILED: i32 = 101;

/// If more tests of a suite fail at once, it is not by chance, and none is retried alone.
const AGAIN_MAX: usize = 20;

/// A program of Rust's test harness.
#[derive(Debug, Clone)]
pub struct Suite {
    /// Name in reports.
    pub name: String,
    pub program: PathBuf,
    /// Its package's folder: tests find their files from there.
    pub folder: PathBuf,
    /// Only tests with these prefixes; all if empty.
    pub only: Vec<String>,
    /// Tests to leave out.
    pub skip: Vec<String>,
    pub environment: Vec<(OsString, OsString)>,
}

pub struct Run {
    /// The outcome of each test that reported one.
    pub ended: BTreeMap<String, Ended>,
    /// How the program ended, for people.
    pub how: String,
    pub exit: Exit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All passed, as it reports itself.
    Passed,
    /// It ran all, and some failed.
    TestsFailed,
    /// It crashed, was killed, or could not run: no retry of a single test can make up for that.
    Broken,
}

impl Exit {
    /// For a program that exits with `tests_failed` when tests failed.
    pub fn of(status: ExitStatus, tests_failed: i32) -> Self {
        match status.code() {
            Some(0) => Self::Passed,
            Some(code) if code == tests_failed => Self::TestsFailed,
            _ => Self::Broken,
        }
    }
}

impl Suite {
    /// Runs the suite and returns the outcome of each test.
    pub fn run(&self) -> Result<Vec<Outcome>> {
        eprintln!("==> {}", self.name);
        let began = Instant::now();
        let listed = self.list()?;
        ensure!(
            self.only.is_empty() || !listed.is_empty(),
            "{} has no test {}",
            self.name,
            self.only.join(", ")
        );
        let crowd = self.observe(self.command(), SUITE_MAX, listed.len())?;
        let outcomes = judge(&self.name, &listed, &crowd, |test| {
            let mut command = self.program();
            command.args(["--exact", test]);
            self.observe(command, ALONE_MAX, 1)
        })?;
        conclude(&self.name, &outcomes, began.elapsed());
        Ok(outcomes)
    }

    fn program(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.folder).envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    fn command(&self) -> Command {
        let mut command = self.program();
        command.args(&self.only).args(self.skip.iter().flat_map(|test| ["--skip", test]));
        command
    }

    /// The names of its tests, so that one without any event does not go unnoticed.
    fn list(&self) -> Result<Vec<String>> {
        let text = crate::run::output(self.command().args(["--list", "--format", "terse"]))?;
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }

    /// Runs the program to its end, or until the time limit.
    fn observe(&self, mut command: Command, at_most: Duration, tests: usize) -> Result<Run> {
        // Events with times are unstable; this is how to request them from a stable compiler's harness.
        command.args(["-Z", "unstable-options", "--format", "json", "--report-time"]);
        let mut child = command
            .env("RUSTC_BOOTSTRAP", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        let ended = follow(&mut child, at_most, tests);
        let (exit, how) = if ended.in_time {
            let status = child.wait()?;
            (Exit::of(status, TESTS_FAILED), status.to_string())
        } else {
            end(&mut child)?;
            (Exit::Broken, format!("it took longer than {} s and was killed", at_most.as_secs()))
        };
        Ok(Run { ended: ended.tests, how, exit })
    }
}

impl Run {
    /// The outcome of a test; one that never ended has failed.
    fn ended(&self, test: &str) -> Ended {
        self.ended.get(test).cloned().unwrap_or_else(|| Ended::Failed {
            seconds: 0.0,
            output: format!("the suite ended ({}) before this test did", self.how),
        })
    }
}

/// The verdict on each test: a test that failed among the others is retried once, alone, and reported whatever the
/// retry says.
pub fn judge(
    suite: &str,
    listed: &[String],
    crowd: &Run,
    alone: impl Fn(&str) -> Result<Run>,
) -> Result<Vec<Outcome>> {
    let outcome = |test: &str, seconds, verdict| Outcome {
        suite: suite.to_owned(),
        test: test.to_owned(),
        seconds,
        verdict,
    };
    let mut outcomes = Vec::new();
    let mut tried_again = 0;
    for test in listed {
        match crowd.ended(test) {
            Ended::Passed { seconds } => outcomes.push(outcome(test, seconds, Verdict::Passed)),
            Ended::Ignored => {}
            Ended::Failed { seconds, output } => {
                eprintln!("    {test} failed: {:.200}", first_message(&output));
                tried_again += 1;
                let verdict = if tried_again > AGAIN_MAX {
                    Verdict::Failed { output }
                } else {
                    once_more(output, &alone(test)?, test)
                };
                outcomes.push(outcome(test, seconds, verdict));
            }
        }
    }
    // A program can fail although no test did, and retries do not make up for a crash.
    let is_explained = match crowd.exit {
        Exit::Passed => true,
        Exit::TestsFailed => outcomes.iter().any(|outcome| outcome.verdict != Verdict::Passed),
        Exit::Broken => false,
    };
    if !is_explained {
        let output = format!("the program ended with {}", crowd.how);
        outcomes.push(outcome("(the suite)", 0.0, Verdict::Failed { output }));
    }
    Ok(outcomes)
}

fn once_more(crowd_output: String, alone: &Run, test: &str) -> Verdict {
    match alone.ended(test) {
        Ended::Passed { .. } if alone.exit == Exit::Passed => Verdict::Flaky { output: crowd_output },
        Ended::Passed { .. } => Verdict::Failed {
            output: format!("{crowd_output}\n--- once more, alone: it passed, and then {} ---", alone.how),
        },
        // Ignored although requested by name, so it was not retried.
        Ended::Ignored => Verdict::Failed { output: crowd_output },
        Ended::Failed { output, .. } => {
            Verdict::Failed { output: format!("{crowd_output}\n--- once more, alone ---\n{output}") }
        }
    }
}

/// Prints one line on a finished suite.
pub fn conclude(suite: &str, outcomes: &[Outcome], took: Duration) {
    let passed = outcomes.iter().filter(|outcome| outcome.verdict == Verdict::Passed).count();
    let others = match outcomes.len() - passed {
        0 => String::new(),
        others => format!(", {others} not at once"),
    };
    eprintln!("    {suite}: {passed} passed{others}, {:.0} s", took.as_secs_f64());
}

struct Followed {
    tests: BTreeMap<String, Ended>,
    in_time: bool,
}

/// Reads a test program's events until it closes its output, or until the time limit.
fn follow(child: &mut Child, at_most: Duration, tests: usize) -> Followed {
    let deadline = Instant::now() + at_most;
    let output = child.stdout.take();
    let (sender, events) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = output.into_iter().flat_map(|output| BufReader::new(output).split(b'\n'));
        for line in lines.map_while(Result::ok) {
            let Some(event) = events::parse(&String::from_utf8_lossy(&line)) else { continue };
            if sender.send(event).is_err() {
                return;
            }
        }
    });
    let mut followed = Followed { tests: BTreeMap::new(), in_time: true };
    let is_terminal = std::io::stderr().is_terminal();
    loop {
        match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Event::Started { .. }) => {}
            Ok(Event::Ended { test, ended }) => {
                followed.tests.insert(test, ended);
                if is_terminal {
                    eprint!("\r    {} of {tests}\r", followed.tests.len());
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                followed.in_time = false;
                return followed;
            }
            Err(RecvTimeoutError::Disconnected) => return followed,
        }
    }
}

fn end(child: &mut Child) -> Result<()> {
    child.kill()?;
    child.wait()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTS: &str = r#"
        #[test] fn passes() {}
        #[test] fn always_fails() { panic!("no, never") }
        #[test] fn fails_at_first() {
            let mark = std::path::Path::new(&std::env::var("MARK").unwrap()).to_owned();
            if !mark.exists() { std::fs::write(mark, "").unwrap(); panic!("not yet") }
        }
    "#;
    const CRASH: &str = r#"
        #[test] fn a_crashes() { if std::env::args().all(|a| a != "--exact") { std::process::abort() } }
        #[test] fn b_never_has_its_turn() {}
    "#;

    fn suite(source: &str, scratch: &std::path::Path) -> Suite {
        let (file, program) = (scratch.join("suite.rs"), scratch.join("suite"));
        std::fs::write(&file, source).unwrap();
        let built = Command::new("rustc").args(["--test", "-o"]).arg(&program).arg(&file).status().unwrap();
        assert!(built.success());
        let environment = vec![("MARK".into(), scratch.join("mark").into())];
        let name = "suite".to_owned();
        Suite { name, program, folder: scratch.to_owned(), only: vec![], skip: vec![], environment }
    }

    #[test]
    fn what_fails_runs_once_more_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let outcomes = suite(TESTS, scratch.path()).run().unwrap();
        let verdict = |test| &outcomes.iter().find(|outcome| outcome.test == test).unwrap().verdict;
        assert_eq!(verdict("passes"), &Verdict::Passed);
        let Verdict::Flaky { output } = verdict("fails_at_first") else { panic!("{outcomes:?}") };
        assert_eq!(first_message(output), "not yet");
        let Verdict::Failed { output } = verdict("always_fails") else { panic!("{outcomes:?}") };
        assert_eq!(output.matches("no, never").count(), 2, "both runs are shown");
    }

    #[test]
    fn crash_takes_no_test_with_it_unnoticed() {
        let scratch = tempfile::tempdir().unwrap();
        let mut suite = suite(CRASH, scratch.path());
        suite.environment.push(("RUST_TEST_THREADS".into(), "1".into()));
        let outcomes = suite.run().unwrap();
        for test in ["a_crashes", "b_never_has_its_turn"] {
            let outcome = outcomes.iter().find(|outcome| outcome.test == test).unwrap();
            let Verdict::Flaky { output } = &outcome.verdict else { panic!("{outcomes:?}") };
            assert!(output.contains("before this test did"), "{output}");
        }
        let Some(Outcome { test, verdict: Verdict::Failed { output }, .. }) = outcomes.last() else {
            panic!("{outcomes:?}")
        };
        assert_eq!(test, "(the suite)");
        assert!(output.contains("SIGABRT"), "{output}");
    }

    #[test]
    fn crash_at_the_end_is_not_hidden_behind_a_flaky_test() {
        let ended = |test: &str, ended| (test.to_owned(), ended);
        let failed = Ended::Failed { seconds: 0.0, output: "not yet".to_owned() };
        let passed = Ended::Passed { seconds: 0.0 };
        let run = |first, exit| Run { ended: [ended("a", first)].into(), how: "a crash".to_owned(), exit };
        let verdicts = |crowd, alone: Exit| -> Vec<bool> {
            let crowd = run(failed.clone(), crowd);
            let outcomes = judge("s", &["a".to_owned()], &crowd, |_| Ok(run(passed.clone(), alone))).unwrap();
            outcomes.iter().map(|outcome| matches!(outcome.verdict, Verdict::Flaky { .. })).collect()
        };
        assert_eq!(verdicts(Exit::TestsFailed, Exit::Passed), [true]);
        assert_eq!(verdicts(Exit::Broken, Exit::Passed), [true, false], "the suite has failed");
        assert_eq!(verdicts(Exit::TestsFailed, Exit::Broken), [false], "alone, it crashed");
    }

    #[test]
    fn name_that_no_test_has_is_an_error() {
        let scratch = tempfile::tempdir().unwrap();
        let mut suite = suite(TESTS, scratch.path());
        suite.only = vec!["renamed".to_owned()];
        assert!(suite.run().is_err());
    }
}
