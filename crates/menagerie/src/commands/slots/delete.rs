//! `menagerie slots delete POOL`

use clap::Args;
use menagerie_slots::admin;
use menagerie_znodes::Name;

use super::change;
use crate::client::ClientArgs;
use crate::exit::{CliError, cannot};
use crate::output::escape_for_terminal;

/// Delete an unused pool and its history. Lists the watchdogs that were out of service; this, too, is forgotten.
#[derive(Debug, Args)]
pub struct Delete {
    /// Name of the pool.
    pool: Name,
}

impl Delete {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        change(client, async |session| {
            let deleted = admin::delete(session, &self.pool).await;
            let rearmed = deleted.map_err(cannot(format!("delete pool {}", self.pool)))?;
            eprintln!("pool {} is deleted", self.pool);
            if !rearmed.is_empty() {
                let holders: Vec<String> =
                    rearmed.iter().map(|holder| escape_for_terminal(Some(holder))).collect();
                eprintln!(
                    "no longer out of service, should the pool be created again: {}",
                    holders.join(", ")
                );
            }
            Ok(())
        })
    }
}
