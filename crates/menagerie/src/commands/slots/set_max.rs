//! `menagerie slots set-max POOL N`

use clap::Args;
use menagerie_slots::admin;
use menagerie_znodes::Name;

use super::change;
use crate::client::ClientArgs;
use crate::exit::{CliError, cannot};
use crate::who;

/// Change a pool's maximum. Lowering it evicts nobody: nobody new is admitted until fewer slots than that are held.
#[derive(Debug, Args)]
pub struct SetMax {
    /// Name of the pool.
    pool: Name,
    /// New maximum.
    #[arg(value_name = "N", allow_negative_numbers = true, value_parser = super::maximum)]
    max: u32,
    /// Change it only if the maximum is N now.
    #[arg(long, value_name = "N")]
    from: Option<u32>,
}

impl SetMax {
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
