//! `menagerie slots thaw POOL|--all`

use clap::Args;
use menagerie_slots::admin;
use menagerie_znodes::Name;

use super::{change, chosen, each};
use crate::client::ClientArgs;
use crate::exit::{CliError, cannot};
use crate::who;

/// End an emergency stop.
#[derive(Debug, Args)]
pub struct Thaw {
    /// Name of the pool.
    #[arg(value_name = "POOL|--all", required_unless_present = "all", conflicts_with = "all")]
    pool: Option<Name>,
    /// Apply to all pools.
    #[arg(long)]
    all: bool,
}

impl Thaw {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        change(client, async |session| {
            each(chosen(session, self.pool.as_ref()).await?, async |pool| {
                let done = admin::thaw(session, pool, &who::operator()).await;
                done.map_err(cannot(format!("thaw pool {pool}")))?;
                eprintln!("pool {pool} is open");
                Ok(())
            })
            .await
        })
    }
}
