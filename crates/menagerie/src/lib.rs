//! The one binary of Menagerie, as a library: what an engine needs to become a role and a command.
//! Not here: what engines do (their own crates); nothing below this crate knows that there is a command line.
//!
//! # Layout
//! - [`role`]: the life of every server. `commands`: every command, `<noun>/<verb>.rs`; `up/` is the list of roles.
//! - [`client`]: options and session of commands that talk to ZooKeeper; [`stores`]: of those that also need
//!   journals; `config/`: settings. [`output`]: tables and JSON from one value. [`exit`]: errors and exit codes.
//! - [`ports`], [`files`], [`listener`], `allow`: sockets, and who may connect to them. `observe`: /metrics.

mod allow;
mod cli;
pub mod client;
mod clock;
mod commands;
mod config;
pub mod exit;
pub mod files;
mod host;
pub mod listener;
mod logging;
mod observe;
pub mod output;
pub mod ports;
mod progress;
pub mod role;
mod signals;
pub mod stores;
mod survey;
mod who;

use std::env;
use std::process::ExitCode;

use clap::Parser as _;
use menagerie_kernel::guard;
use menagerie_types::duration as durations;

use crate::commands::{check, completions};

/// Runs the command line.
pub fn main() -> ExitCode {
    // Before anything else: a guard starts with every command that we run, and must stay small and quick. It is not
    // part of the command line that users see.
    if env::args_os().nth(1).is_some_and(|word| word == guard::SUBCOMMAND) {
        return guard::run();
    }
    if completions::answer() {
        return ExitCode::SUCCESS;
    }
    let arguments = check::arguments(env::args_os().collect());
    if check::is_meant(&arguments) {
        return match cli::Cli::try_parse_from(arguments) {
            Ok(cli) => cli.run().unwrap_or_else(|error| check::fail(&error)),
            Err(error) => check::refuse(&error),
        };
    }
    let cli = cli::Cli::try_parse_from(&arguments);
    let cli = cli.unwrap_or_else(|error| cli::with_tip(error, &arguments).exit());
    cli.run().unwrap_or_else(|error| exit::report(&error))
}
