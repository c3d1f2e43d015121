//! `menagerie slots freeze POOL|--all`

use clap::Args;
use menagerie_kernel::session::Rights;
use menagerie_slots::admin;
use menagerie_znodes::Name;
use menagerie_znodes::slots::Frozen;

use super::{chosen, each};
use crate::client::{self, ClientArgs};
use crate::exit::{CliError, cannot};
use crate::who;

/// Emergency stop: nobody new gets in, until `slots thaw`. Who is in goes on, unless --tell.
#[derive(Debug, Args)]
pub struct Freeze {
    /// Which pool.
    #[arg(value_name = "POOL|--all", required_unless_present = "all", conflicts_with = "all")]
    pool: Option<Name>,
    /// All pools that there are.
    #[arg(long)]
    all: bool,
    /// Send SIGTERM to the commands that run under the slots.
    #[arg(long)]
    tell: bool,
    /// Why; shown to whoever waits.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Freeze {
    /// Stops.
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        // It needs nothing but the pool: no fence, no lease.
        client::run_within(client, Rights::Observer, async |client| {
            let session = &client.session;
            let frozen = Frozen { by: who::operator(), reason: self.reason.clone(), tell: self.tell };
            each(chosen(session, self.pool.as_ref()).await?, async |pool| {
                let done = admin::freeze(session, pool, frozen.clone()).await;
                done.map_err(cannot(format!("freeze pool {pool}")))?;
                eprintln!("pool {pool} is frozen");
                Ok(())
            })
            .await
        })
    }
}
