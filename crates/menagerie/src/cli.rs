//! The command line: `menagerie <noun> <verb>`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::commands::Noun;
use crate::exit::CliError;
use crate::logging::LogArgs;

/// Run a fleet's work on ZooKeeper from one binary: slots, queues, flows and pipelines.
#[derive(Debug, Parser)]
#[command(name = "menagerie", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    log: LogArgs,
    #[command(subcommand)]
    noun: Noun,
}

impl Cli {
    /// Installs the logger, runs the command and returns its exit code.
    pub fn run(self) -> Result<ExitCode, CliError> {
        let _logs = self.log.install(self.noun.log_profile())?;
        self.noun.run()
    }
}

/// Adds a tip for users who left out the `--` before a command: clap only reports an unexpected argument.
pub fn with_tip(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let says = |word: &str| arguments.iter().any(|argument| argument == word);
    let runs = says("slots") && (says("run") || says("watch")) || says("worker");
    if runs && !says("--") && error.kind() == ErrorKind::UnknownArgument {
        let tip = "the command to run comes behind `--`".to_owned();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}
