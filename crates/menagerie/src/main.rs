//! The one binary of Menagerie.

mod allow;
mod cli;
mod client;
mod clock;
mod commands;
mod config;
mod durations;
mod exit;
mod files;
mod host;
mod listener;
mod logging;
mod observe;
mod output;
mod ports;
mod progress;
mod role;
mod signals;
mod survey;
mod who;

use std::env;
use std::process::ExitCode;

use clap::Parser as _;
use menagerie_kernel::guard;

use crate::commands::check;

fn main() -> ExitCode {
    // Before anything else: a guard is started with every command that we run, and must stay small and quick. It is no
    // part of the command line that users see.
    if env::args_os().nth(1).is_some_and(|word| word == guard::SUBCOMMAND) {
        return guard::run();
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
