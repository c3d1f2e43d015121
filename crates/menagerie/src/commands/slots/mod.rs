//! `menagerie slots`: at most N hosts at a time.

mod acquire;
mod create;
mod delete;
pub mod fleetlock;
mod freeze;
mod history;
mod list;
mod rearm;
mod release;
mod run;
pub mod serve;
mod set_max;
mod show;
mod thaw;
mod waiting;
mod watch;
mod who;
mod window;
mod work;

use clap::{Args, Subcommand};
use menagerie_kernel::Session;
use menagerie_kernel::session::Rights;
use menagerie_znodes::Name;

use crate::client::{self, ClientArgs};
use crate::exit::{CliError, cannot};
use crate::logging::LogProfile;
use crate::output::{OutputArgs, Show};

/// Run commands on at most N hosts at a time; see who holds a slot and who waits; freeze a pool.
#[derive(Debug, Args)]
pub struct Slots {
    #[command(flatten)]
    client: ClientArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Create(create::Create),
    SetMax(set_max::SetMax),
    List(list::List),
    Show(show::Show),
    History(history::History),
    Freeze(freeze::Freeze),
    Thaw(thaw::Thaw),
    Run(Box<run::Run>),
    Watch(Box<watch::Watch>),
    Rearm(rearm::Rearm),
    Acquire(acquire::Acquire),
    Release(release::Release),
    Delete(delete::Delete),
    Serve(serve::Serve),
}

impl Slots {
    pub fn log_profile(&self) -> LogProfile {
        match self.verb {
            Verb::Serve(_) => LogProfile::Server,
            _ => LogProfile::Command,
        }
    }

    pub fn run(self) -> Result<(), CliError> {
        let client = self.client;
        match self.verb {
            Verb::Create(verb) => verb.run(client),
            Verb::SetMax(verb) => verb.run(client),
            Verb::List(verb) => verb.run(client),
            Verb::Show(verb) => verb.run(client),
            Verb::History(verb) => verb.run(client),
            Verb::Freeze(verb) => verb.run(client),
            Verb::Thaw(verb) => verb.run(client),
            Verb::Run(verb) => verb.run(client),
            Verb::Watch(verb) => verb.run(client),
            Verb::Rearm(verb) => verb.run(client),
            Verb::Acquire(verb) => verb.run(client),
            Verb::Release(verb) => verb.run(client),
            Verb::Delete(verb) => verb.run(client),
            Verb::Serve(verb) => verb.run(client),
        }
    }
}

/// Runs `work` in a session that may write.
fn change(
    client: ClientArgs,
    work: impl AsyncFnOnce(&Session) -> Result<(), CliError>,
) -> Result<(), CliError> {
    client::run_within(client, Rights::Owner, async |client| work(&client.session).await)
}

/// Prints what `read` returns, once or with `--watch` repeatedly.
fn read_and_print<T: Show>(
    client: ClientArgs,
    output: OutputArgs,
    mut read: impl AsyncFnMut(&Session) -> Result<T, CliError>,
) -> Result<(), CliError> {
    client::run_within(client, Rights::Observer, async |client| {
        output.print(async || read(&client.session).await).await
    })
}

/// The named pool, or all.
async fn chosen(session: &Session, pool: Option<&Name>) -> Result<Vec<Name>, CliError> {
    match pool {
        Some(pool) => Ok(vec![pool.clone()]),
        None => menagerie_slots::admin::list(session).await.map_err(cannot("list the pools")),
    }
}

/// Applies `work` to each pool; a failure does not stop the rest. Returns the first error, prints the others at once.
async fn each(
    pools: Vec<Name>,
    mut work: impl AsyncFnMut(&Name) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut first = Ok(());
    for pool in &pools {
        match (work(pool).await, &first) {
            (Ok(()), _) => {}
            (failed, Ok(())) => first = failed,
            (Err(error), Err(_)) => eprintln!("error: {error}"),
        }
    }
    first
}

/// Parses a pool's maximum.
fn maximum(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Err("a pool lets at least 1 in; to let nobody in: `menagerie slots freeze`".to_owned()),
        Ok(max) => Ok(max),
        Err(_) => Err(format!("write a whole number from 1 to {}", u32::MAX)),
    }
}
