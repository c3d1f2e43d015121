//! `menagerie slots set-max POOL N`

use clap::Args;
use menagerie_slots::admin;
use menagerie_znodes::Name;

use super::change;
use crate::client::ClientArgs;
use crate::exit::{CliError, cannot};
use crate::who;

/// Change how many may hold a slot at a time. A lower maximum evicts nobody: nobody gets in until fewer are in.
#[derive(Debug, Args)]
pub struct SetMax {
    /// Which pool.
    pool: Name,
    /// How many.
    #[arg(value_name = "N", allow_negative_numbers = true, value_parser = super::maximum)]
    max: u32,
    /// Only if the maximum is this one now.
    #[arg(long, value_name = "N")]
    from: Option<u32>,
}

impl SetMax {
    /// Changes it.
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        change(client, async |session| {
            admin::set_max(session, &self.pool, self.max, self.from, &who::operator())
                .await
                .map_err(cannot(format!("change the maximum of pool {}", self.pool)))?;
            eprintln!("pool {} lets {} in at a time", self.pool, self.max);
            Ok(())
        })
    }
}
