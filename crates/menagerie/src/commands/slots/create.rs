//! `menagerie slots create POOL --max N`

use clap::Args;
use menagerie_slots::admin;
use menagerie_znodes::Name;

use super::change;
use crate::client::ClientArgs;
use crate::exit::{CliError, cannot};
use crate::who;

/// Create a pool. Idempotent with the same maximum; a different one is a conflict.
#[derive(Debug, Args)]
pub struct Create {
    /// Name of the pool.
    pool: Name,
    /// Maximum number of slots held at a time.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = super::maximum)]
    max: u32,
}

impl Create {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        change(client, async |session| {
            admin::create(session, &self.pool, self.max, &who::operator())
                .await
                .map_err(cannot(format!("make pool {}", self.pool)))?;
            eprintln!("pool {} lets {} in at a time", self.pool, self.max);
            Ok(())
        })
    }
}
