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

/// Emergency stop: admit nobody until `slots thaw`. Current holders go on, unless --tell is given.
#[derive(Debug, Args)]
pub struct Freeze {
    /// Name of the pool.
    #[arg(value_name = "POOL|--all", required_unless_present = "all", conflicts_with = "all")]
    pool: Option<Name>,
    /// Apply to all pools.
    #[arg(long)]
    all: bool,
    /// Also send SIGTERM to the commands that run under the pool's slots.
    #[arg(long)]
    tell: bool,
    /// Reason, shown to everybody who waits.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Freeze {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        // Freezing writes only the pool: it needs neither fence nor lease.
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
