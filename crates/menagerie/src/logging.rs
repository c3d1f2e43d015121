//! Logs: to stderr, so that stdout stays data; as text for people or JSON for programs.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use clap::{Args, ValueEnum};
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{fmt, registry};

use crate::exit::CliError;

/// Buffered lines; when the buffer is full, lines are dropped. It is allocated at the start of every command, so it
/// must be small: sixteen times as many took two milliseconds.
const LINES_MAX: usize = 8_192;

/// How to log.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// Format of log lines.
    #[arg(long, global = true, help_heading = "Logging", value_enum, default_value_t = Format::Text, env = "MENAGERIE_LOG_FORMAT")]
    log: Format,
    /// Append log lines to this file instead of stderr.
    #[arg(long, global = true, help_heading = "Logging", value_name = "FILE", env = "MENAGERIE_LOG_FILE")]
    log_file: Option<PathBuf>,
    /// Log level: error, warn, info, debug or trace, for everything or per module (`info,menagerie_keeper=debug`)
    /// [default: info for servers, warn for other commands].
    #[arg(long, global = true, help_heading = "Logging", value_name = "FILTER", env = "MENAGERIE_LOG")]
    log_level: Option<String>,
}

/// How much a command logs by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogProfile {
    /// A server: logs its lifecycle.
    Server,
    /// A server with a demo: logs must not drown its output.
    Demo,
    /// A command: prints its own messages.
    Command,
    /// A monitoring plugin: prints one line and logs nothing.
    Plugin,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// The log file, if there is one.
static LOG_FILE: OnceLock<LogFile> = OnceLock::new();

/// A log file that can be reopened after rotation.
struct LogFile {
    path: PathBuf,
    file: Mutex<File>,
}

impl Write for &LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

/// Reopens the log file after rotation. False if there is none.
pub fn reopen() -> io::Result<bool> {
    let Some(log) = LOG_FILE.get() else { return Ok(false) };
    let file = append_to(&log.path)?;
    *log.file.lock().unwrap_or_else(PoisonError::into_inner) = file;
    Ok(true)
}

/// Levels by module. What is neither a level nor a module would silently log nothing.
fn targets(filter: &str) -> Result<Targets, String> {
    for directive in filter.split(',') {
        let module = directive.split_once('=').map_or(directive, |(module, _)| module);
        let is_module = |letter: char| letter.is_ascii_alphanumeric() || "_:".contains(letter);
        if module.is_empty() || !module.chars().all(is_module) {
            return Err(format!("{directive:?} is neither a level nor MODULE=LEVEL"));
        }
    }
    filter.parse().map_err(|error: ParseError| error.to_string())
}

fn append_to(path: &std::path::Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

impl LogArgs {
    /// Installs the logger for the whole process. A thread writes the lines and drops them when it cannot keep up: a
    /// reader of our stderr that stops reading must never block us. Dropping the guard flushes the rest.
    pub fn install(&self, profile: LogProfile) -> Result<WorkerGuard, CliError> {
        let level = self.log_level.as_deref().unwrap_or(match profile {
            // Our own line per session says what the client library would.
            LogProfile::Server => "info,zookeeper_client=warn",
            LogProfile::Demo => "warn,zookeeper_client=error",
            // Our own errors say what the client library would about failed connections.
            LogProfile::Command => "warn,zookeeper_client=error",
            LogProfile::Plugin => "off",
        });
        let filter = targets(level).map_err(|why| CliError::Usage {
            what: format!("--log-level {level:?} is not a filter: {why}"),
            help: "try `info`, `debug`, or `warn,menagerie_keeper=debug`".to_owned(),
        })?;
        let buffered = NonBlockingBuilder::default().buffered_lines_limit(LINES_MAX);
        let ((writer, guard), ansi) = match &self.log_file {
            None => (buffered.finish(std::io::stderr()), std::io::stderr().is_terminal()),
            Some(path) => {
                let file = append_to(path);
                let file = file.map_err(CliError::io(format!("open the log file {}", path.display())))?;
                let log = LOG_FILE.get_or_init(|| LogFile { path: path.clone(), file: Mutex::new(file) });
                (buffered.finish(log), false)
            }
        };
        let layer = fmt::layer().with_writer(writer).with_ansi(ansi).with_target(false);
        let logs = registry().with(filter);
        match self.log {
            Format::Text => logs.with(layer).init(),
            Format::Json => logs.with(layer.json()).init(),
        }
        Ok(guard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_levels_for_all_or_by_module() {
        for good in ["info", "off", "warn,menagerie_keeper=debug", "menagerie_keeper::shell=trace"] {
            assert!(targets(good).is_ok(), "{good}");
        }
        for bad in ["", "=,", "%%", "info,,debug", "menagerie=loud", "=debug"] {
            assert!(targets(bad).is_err(), "{bad}");
        }
    }
}
