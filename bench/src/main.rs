//! Benchmarks of Menagerie, side by side with its peers. `cargo xtask bench NAME` builds everything in release and calls
//! this.
//!
//! # Layout
//! - [`keeper`]: the keeper beside Apache ZooKeeper and a null server. [`journal`]: the journal beside `nats-server`.
//!   [`kernel`]: the recipes beside kazoo's and the ZooKeeper client's own. [`slots`]: slots beside kazoo's semaphore.
//!   [`queues`]: workers beside Celery, RQ and Dramatiq. [`queue_http`]: queues over HTTP beside nginx.
//!   [`pipelines`]: a gate beside a loop of git commands. [`web`]: pages and live viewers.
//! - [`servers`]: starts and stops the servers, each a process of its own. [`stats`]: medians and ratios. [`procfs`]: CPU
//!   time and resident memory of a process.

mod journal;
mod keeper;
mod kernel;
mod pipelines;
mod procfs;
mod queue_http;
mod queues;
mod servers;
mod slots;
mod stats;
mod web;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Benchmarks of Menagerie")]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Compare the keeper with Apache ZooKeeper and with the null server
    Keeper(keeper::Keeper),
    /// Measure the journal, beside nats-server
    Journal(journal::Journal),
    /// Compare the recipes with kazoo's and with those of the ZooKeeper client
    Kernel(kernel::Kernel),
    /// Compare slots with kazoo's semaphore, and measure what `slots run` and many waiters cost
    Slots(slots::Slots),
    /// Compare workers with Celery, RQ and Dramatiq, and measure rebalances, idle queues and looking at queues
    Queues(queues::Queues),
    /// Measure queues over HTTP, beside nginx answering nothing
    QueueHttp(queue_http::QueueHttp),
    /// Measure pipelines, beside a loop of git commands
    Pipelines(pipelines::Pipelines),
    /// Measure pages and live viewers
    Web(web::Web),
    /// Serve as the physical limit: no tree, one fdatasync before the replies to writes
    NullServer(keeper::null_server::NullServer),
}

fn main() -> anyhow::Result<()> {
    match Args::parse().verb {
        Verb::Keeper(keeper) => keeper.run(),
        Verb::Journal(journal) => journal.run(),
        Verb::Kernel(kernel) => kernel.run(),
        Verb::Slots(slots) => slots.run(),
        Verb::Queues(queues) => queues.run(),
        Verb::QueueHttp(queue_http) => queue_http.run(),
        Verb::Pipelines(pipelines) => pipelines.run(),
        Verb::Web(web) => web.run(),
        Verb::NullServer(null_server) => null_server.run(),
    }
}
