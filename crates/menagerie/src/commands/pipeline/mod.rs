//! `menagerie pipeline`: changes on their way into branches.
//!
//! One file per verb. `settings.rs`: what commands and roles need of `[pipelines]`.

pub mod approve;
mod history;
mod hook;
mod logs;
mod manage;
mod poke;
pub mod settings;
mod status;
mod wait;

use clap::{Args, Subcommand};
use menagerie_kernel::Session;
use menagerie_pipelines::client;
use menagerie_znodes::Name;

use crate::exit::{CliError, cannot};
use crate::stores::StoreArgs;

/// Gate changes: approve them, see them tested and merged, and read the logs of their jobs.
#[derive(Debug, Args)]
pub struct Pipeline {
    #[command(flatten)]
    stores: StoreArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Status(status::Status),
    Approve(approve::Approve),
    Enqueue(manage::Enqueue),
    Dequeue(manage::Dequeue),
    Wait(wait::Wait),
    History(history::History),
    Logs(logs::Logs),
    Hook(hook::Hook),
    Poke(poke::Poke),
}

impl Pipeline {
    pub fn run(self) -> Result<(), CliError> {
        let stores = self.stores;
        match self.verb {
            Verb::Status(verb) => verb.run(stores.client),
            Verb::Approve(verb) => verb.run(stores.client),
            Verb::Enqueue(verb) => verb.run(stores.client),
            Verb::Dequeue(verb) => verb.run(stores.client),
            Verb::Wait(verb) => verb.run(stores),
            Verb::History(verb) => verb.run(stores),
            Verb::Logs(verb) => verb.run(stores.client),
            Verb::Hook(verb) => verb.run(stores.client),
            Verb::Poke(verb) => verb.run(stores.client),
        }
    }
}

/// Which tenant.
#[derive(Debug, Clone, Args)]
struct TenantArg {
    /// Tenant [default: the only one].
    #[arg(long, value_name = "NAME", env = "MENAGERIE_TENANT")]
    tenant: Option<Name>,
}

impl TenantArg {
    async fn choose(&self, session: &Session) -> Result<Name, CliError> {
        client::choose_tenant(&session.term(), self.tenant.as_ref()).await.map_err(cannot("choose a tenant"))
    }
}
