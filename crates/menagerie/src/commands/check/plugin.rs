//! What surrounds every check: whatever happens, it prints one line and exits with one of four codes.

use std::error::Error as _;
use std::ffi::{OsStr, OsString};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{self, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::report::{Report, State};
use crate::exit::CliError;
use crate::{durations, output};

/// Monitoring calls us through a link of this name.
const LINK: &str = "check_menagerie";

/// Service name before we know which check is meant.
const SERVICE: &str = "CHECK";

/// Options before the noun that take a value.
const WITH_VALUE: [&str; 3] = ["--log", "--log-file", "--log-level"];

/// Set once a line is printed: a check prints exactly one.
static REPORTED: AtomicBool = AtomicBool::new(false);

/// How long a check may take, and which state to report when it takes longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeOut {
    after: Duration,
    state: State,
}

impl TimeOut {
    /// Parses `SECONDS[:STATE]`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (after, state) = text.split_once(':').unwrap_or((text, "UNKNOWN"));
        let (after, state) = (durations::parse(after)?, State::parse(state)?);
        if after.is_zero() {
            Err("the time-out must be longer than 0".to_owned())
        } else {
            Ok(Self { after, state })
        }
    }
}

/// The arguments, as if we had been called by our own name.
pub fn arguments(mut given: Vec<OsString>) -> Vec<OsString> {
    let called = given.first().and_then(|first| Path::new(first).file_name());
    if called == Some(OsStr::new(LINK)) {
        given.splice(..1, ["menagerie".into(), "check".into()]);
    }
    given
}

/// Whether these arguments ask for a check, valid or not.
pub fn is_meant(arguments: &[OsString]) -> bool {
    let mut words = arguments.iter().skip(1);
    while let Some(word) = words.next() {
        match word.to_str() {
            Some(option) if WITH_VALUE.contains(&option) => drop(words.next()),
            Some(option) if option.starts_with('-') => {}
            other => return other == Some("check"),
        }
    }
    false
}

/// Output for bad arguments, `--help` and `--version`. Never OK: a check configured like that must show.
pub fn refuse(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    let wrong = match error.kind() {
        clap::error::ErrorKind::DisplayHelp
        | clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        | clap::error::ErrorKind::DisplayVersion => None,
        _ => text.strip_prefix("error: ").or(Some(&text)),
    };
    match wrong {
        // Help is for a reader, not for a pager: print it as it is.
        None => drop(output::write(&text)),
        Some(wrong) => {
            let mut lines = wrong.lines().filter(|line| !line.trim().is_empty());
            let mut first = lines.next().unwrap_or_default().to_owned();
            // A first line that ends with a colon needs the next one to make sense in a pager.
            if first.ends_with(':') {
                first = format!("{first} {}", lines.next().unwrap_or_default().trim());
            }
            let mut report = Report::unknown(SERVICE, first);
            lines.for_each(|line| report.detail(0, line));
            print_once(&report, 0);
        }
    }
    ExitCode::from(State::Unknown.code())
}

/// Reports a check that could not begin.
pub fn fail(error: &CliError) -> ExitCode {
    let plugin = Plugin { service: SERVICE, verbosity: 0 };
    print_once(&plugin.report_error(error), 0);
    ExitCode::from(State::Unknown.code())
}

/// A running check.
#[derive(Debug, Clone, Copy)]
pub struct Plugin {
    service: &'static str,
    verbosity: u8,
}

impl Plugin {
    /// Starts the clock. Threads enforce the time-out, so that a blocking DNS look-up or file read cannot outlast it.
    pub fn start(service: &'static str, timeout: TimeOut, verbosity: u8) -> Self {
        thread::spawn(move || {
            thread::sleep(timeout.after);
            let text = format!("nothing was found out within {}", durations::show(timeout.after));
            print_and_exit(&Report::new(service, timeout.state, text));
        });
        if let Ok(mut signals) = Signals::new([SIGHUP, SIGINT, SIGTERM]) {
            thread::spawn(move || {
                if let Some(signal) = signals.forever().next() {
                    print_and_exit(&Report::unknown(service, format!("stopped by signal {signal}")));
                }
            });
        }
        Self { service, verbosity }
    }

    /// Runs the check, prints its report and returns the exit code.
    pub fn finish(self, work: impl FnOnce() -> Result<Report, CliError>) -> ExitCode {
        let report = self.outcome(work);
        print_once(&report, self.verbosity);
        ExitCode::from(report.state.code())
    }

    fn outcome(self, work: impl FnOnce() -> Result<Report, CliError>) -> Report {
        // Unwind-safe: nothing that a panic leaves behind is used again.
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(report)) => report,
            Ok(Err(error)) => self.report_error(&error),
            Err(_) => {
                Report::unknown(self.service, "the check itself failed, which is a bug: see its stderr")
            }
        }
    }

    fn report_error(self, error: &CliError) -> Report {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        let mut report = Report::unknown(self.service, text);
        report.detail(1, format!("help: {}", error.help()));
        report
    }
}

/// Prints the report unless one was printed already. Ignores a closed stdout: the exit code still tells.
fn print_once(report: &Report, verbosity: u8) {
    if !REPORTED.swap(true, Ordering::SeqCst) {
        let _ = output::write(&report.render(verbosity));
    }
}

/// Prints the report, unless one was printed already, and ends the process.
fn print_and_exit(report: &Report) {
    if !REPORTED.swap(true, Ordering::SeqCst) {
        let _ = output::write(&report.render(0));
        process::exit(i32::from(report.state.code()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn link_calls_the_check() {
        assert_eq!(arguments(words("/usr/lib/check_menagerie node /a")), words("menagerie check node /a"));
        assert_eq!(arguments(words("menagerie zk ls")), words("menagerie zk ls"));
        assert_eq!(arguments(Vec::new()), Vec::<OsString>::new());
    }

    #[test]
    fn check_is_meant_by_the_first_word_that_is_no_option() {
        for line in ["menagerie check", "menagerie --log json check -x", "menagerie --log=json --bad check"] {
            assert!(is_meant(&words(line)), "{line}");
        }
        for line in
            ["menagerie", "menagerie zk get check", "menagerie --log check zk", "menagerie help check"]
        {
            assert!(!is_meant(&words(line)), "{line}");
        }
    }

    #[test]
    fn time_out_has_a_state() {
        let timeout = |seconds, state| Ok(TimeOut { after: Duration::from_secs(seconds), state });
        assert_eq!(TimeOut::parse("10"), timeout(10, State::Unknown));
        assert_eq!(TimeOut::parse("1m:critical"), timeout(60, State::Critical));
        assert_eq!(TimeOut::parse("5:0"), timeout(5, State::Ok));
        for text in ["", "0", "x", "5:", "5:bad", ":OK", "-1"] {
            assert!(TimeOut::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn panic_is_unknown() {
        let plugin = Plugin { service: "NODE", verbosity: 0 };
        let report = plugin.outcome(|| panic!("on purpose"));
        assert_eq!((report.state.code(), report.service), (3, "NODE"));
    }
}
