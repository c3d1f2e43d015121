//! `menagerie slots delete POOL`

use clap::Args;
use menagerie_slots::admin;
use menagerie_znodes::Name;

use super::change;
use crate::client::ClientArgs;
use crate::exit::{CliError, cannot};
use crate::output::told;

/// Delete a pool that nobody uses, with its history. Says which watchdogs were out of service: that is forgotten, too.
#[derive(Debug, Args)]
pub struct Delete {
    /// Which pool.
    pool: Name,
}

impl Delete {
    /// Deletes it.
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        change(client, async |session| {
            let deleted = admin::delete(session, &self.pool).await;
            let rearmed = deleted.map_err(cannot(format!("delete pool {}", self.pool)))?;
            eprintln!("pool {} is deleted", self.pool);
            if !rearmed.is_empty() {
                let holders: Vec<String> = rearmed.iter().map(|holder| told(Some(holder))).collect();
                eprintln!(
                    "out of service no more, should there be a pool of that name again: {}",
                    holders.join(", ")
                );
            }
            Ok(())
        })
    }
}
