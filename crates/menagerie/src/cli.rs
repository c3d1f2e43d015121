//! The command line: `menagerie <noun> <verb>`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};

use crate::commands::{
    check, completions, config, doctor, journal, keeper, queue, slots, status, up, worker, zk,
};
use crate::exit::CliError;
use crate::logging::{LogArgs, Talk};

/// Runs a fleet's work on ZooKeeper: slots, queues, flows and pipelines, from one binary.
#[derive(Debug, Parser)]
#[command(name = "menagerie", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    log: LogArgs,
    #[command(subcommand)]
    noun: Noun,
}

#[derive(Debug, Subcommand)]
enum Noun {
    Up(up::Up),
    Keeper(keeper::Keeper),
    Journal(journal::Journal),
    Slots(slots::Slots),
    Queue(queue::Queue),
    Worker(Box<worker::Worker>),
    Zk(zk::Zk),
    Check(check::Check),
    Status(status::Status),
    Doctor(doctor::Doctor),
    Config(config::Config),
    Completions(completions::Completions),
}

impl Noun {
    fn talk(&self) -> Talk {
        match self {
            Self::Up(up) => up.talk(),
            Self::Keeper(_) | Self::Worker(_) => Talk::Server,
            Self::Journal(journal) => journal.talk(),
            Self::Slots(slots) => slots.talk(),
            Self::Queue(_)
            | Self::Zk(_)
            | Self::Status(_)
            | Self::Doctor(_)
            | Self::Config(_)
            | Self::Completions(_) => Talk::Command,
            Self::Check(_) => Talk::Plugin,
        }
    }
}

impl Cli {
    /// Does what was asked, and gives the exit code.
    pub fn run(self) -> Result<ExitCode, CliError> {
        let _logs = self.log.install(self.noun.talk())?;
        match self.noun {
            // It has codes of its own, and nothing is an error to it.
            Noun::Check(check) => return Ok(check.run()),
            Noun::Up(up) => up.run(),
            Noun::Keeper(keeper) => keeper.run(),
            Noun::Journal(journal) => journal.run(),
            Noun::Slots(slots) => slots.run(),
            Noun::Queue(queue) => queue.run(),
            Noun::Worker(worker) => worker.run(),
            Noun::Zk(zk) => zk.run(),
            Noun::Status(status) => status.run(),
            Noun::Doctor(doctor) => doctor.run(),
            Noun::Config(config) => config.run(),
            Noun::Completions(completions) => completions.run(),
        }?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Who leaves out the `--` before a command is told of an argument that is not expected, and not why.
pub fn with_tip(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let says = |word: &str| arguments.iter().any(|argument| argument == word);
    let runs = says("slots") && (says("run") || says("watch")) || says("worker");
    if runs && !says("--") && error.kind() == ErrorKind::UnknownArgument {
        let tip = "what is to be run comes behind `--`".to_owned();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}
