//! `menagerie slots release POOL HOLDER`

use clap::Args;
use menagerie_slots::{SlotsError, admin, poll};
use menagerie_znodes::Name;

use super::change;
use crate::client::ClientArgs;
use crate::exit::{CliError, cannot};
use crate::who;

/// Release a slot that `slots acquire` took or, with --force, anybody's slot.
#[derive(Debug, Args)]
pub struct Release {
    /// Name of the pool.
    pool: Name,
    /// Holder whose slot to release [default: this host; env: MENAGERIE_HOST].
    holder: Option<Name>,
    /// Release the slot even if a command runs or ran under it. Use this only if you know that the command is gone; the
    /// history records it.
    #[arg(long)]
    force: bool,
    /// Release only the slot that was acquired with this ticket.
    #[arg(long, value_name = "TICKET", conflicts_with = "force")]
    ticket: Option<String>,
}

impl Release {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        let holder = match &self.holder {
            Some(holder) => holder.to_string(),
            None => who::this_host(),
        };
        let doing = format!("release the slot of {holder} in pool {}", self.pool);
        change(client, async |session| {
            if self.force {
                let slot = admin::force_release(session, &self.pool, &holder, &who::operator()).await;
                let slot = slot.map_err(cannot(doing))?;
                eprintln!("slot {slot} of pool {} is free", self.pool);
                return Ok(());
            }
            let had = poll::release(session, &self.pool, &holder, self.ticket.as_deref()).await;
            if had.map_err(cannot(doing.clone()))? {
                return Ok(());
            }
            let source = SlotsError::NotHeld { pool: self.pool.to_string(), holder };
            Err(cannot(doing)(source))
        })
    }
}
