//! Every command: `<noun>/<verb>.rs` has its arguments, one call, one print. A new noun edits only this file.

pub mod audit;
mod backup_file;
pub mod check;
pub mod completions;
pub mod config;
pub mod coordinator;
pub mod data;
pub mod doctor;
pub mod executor;
pub mod flow;
pub mod journal;
pub mod keeper;
pub mod merger;
pub mod peer;
pub mod pipeline;
pub mod queue;
pub mod scheduler;
mod secret_file;
pub mod slots;
pub mod status;
pub mod token;
pub mod up;
pub mod web;
pub mod worker;
pub mod zk;

use std::process::ExitCode;

use clap::Subcommand;

use crate::exit::CliError;
use crate::logging::LogProfile;

/// The first word of every command.
#[derive(Debug, Subcommand)]
pub enum Noun {
    Up(up::Up),
    Keeper(keeper::Keeper),
    Journal(journal::Journal),
    Slots(slots::Slots),
    Queue(queue::Queue),
    Worker(Box<worker::Worker>),
    Flow(flow::Flow),
    Coordinator(coordinator::Coordinator),
    Peer(peer::Peer),
    Pipeline(pipeline::Pipeline),
    Scheduler(scheduler::Scheduler),
    Merger(merger::Merger),
    Executor(executor::Executor),
    Web(Box<web::Web>),
    Token(token::Token),
    Audit(audit::Audit),
    Zk(zk::Zk),
    Check(check::Check),
    Status(status::Status),
    Doctor(doctor::Doctor),
    Config(config::Config),
    Completions(completions::Completions),
}

impl Noun {
    /// The log profile of this command, unless the user chooses a filter.
    pub fn log_profile(&self) -> LogProfile {
        match self {
            Self::Up(up) => up.log_profile(),
            Self::Keeper(_)
            | Self::Worker(_)
            | Self::Coordinator(_)
            | Self::Peer(_)
            | Self::Scheduler(_)
            | Self::Merger(_)
            | Self::Executor(_)
            | Self::Web(_) => LogProfile::Server,
            Self::Journal(journal) => journal.log_profile(),
            Self::Slots(slots) => slots.log_profile(),
            Self::Queue(_)
            | Self::Flow(_)
            | Self::Pipeline(_)
            | Self::Token(_)
            | Self::Audit(_)
            | Self::Zk(_)
            | Self::Status(_)
            | Self::Doctor(_)
            | Self::Config(_)
            | Self::Completions(_) => LogProfile::Command,
            Self::Check(_) => LogProfile::Plugin,
        }
    }

    /// Runs the command and returns its exit code.
    pub fn run(self) -> Result<ExitCode, CliError> {
        match self {
            // A check maps every outcome to its own exit codes.
            Self::Check(check) => return Ok(check.run()),
            Self::Up(up) => up.run(),
            Self::Keeper(keeper) => keeper.run(),
            Self::Journal(journal) => journal.run(),
            Self::Slots(slots) => slots.run(),
            Self::Queue(queue) => queue.run(),
            Self::Worker(worker) => worker.run(),
            Self::Flow(flow) => flow.run(),
            Self::Coordinator(coordinator) => coordinator.run(),
            Self::Peer(peer) => peer.run(),
            Self::Pipeline(pipeline) => pipeline.run(),
            Self::Scheduler(scheduler) => scheduler.run(),
            Self::Merger(merger) => merger.run(),
            Self::Executor(executor) => executor.run(),
            Self::Web(web) => web.run(),
            Self::Token(token) => token.run(),
            Self::Audit(audit) => audit.run(),
            Self::Zk(zk) => zk.run(),
            Self::Status(status) => status.run(),
            Self::Doctor(doctor) => doctor.run(),
            Self::Config(config) => config.run(),
            Self::Completions(completions) => completions.run(),
        }?;
        Ok(ExitCode::SUCCESS)
    }
}
