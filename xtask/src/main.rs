//! `cargo xtask`: every chore of this repository besides building it.

mod bench;
mod kazoo;
mod licences;
mod packages;
mod run;
mod soak;
mod test;
mod venv;
mod znode_map;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Install what the tests need, then run all of them: format, lints, unit, property, integration, end to end, the
    /// comparison with Apache ZooKeeper, and kazoo's own suite.
    Test,
    /// Run the long storms at full length.
    Soak,
    /// Run a benchmark side by side with its peers.
    Bench(bench::Bench),
    /// Run kazoo's own suite against the keeper.
    Kazoo,
    /// Check the licences of all dependencies.
    Licences,
    ZnodeMap(znode_map::ZnodeMap),
}

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Test => test::run(),
        Task::Soak => soak::run(),
        Task::Bench(bench) => bench.run(),
        Task::Kazoo => packages::install().and_then(|()| kazoo::run()),
        Task::Licences => licences::run(),
        Task::ZnodeMap(znode_map) => znode_map.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
