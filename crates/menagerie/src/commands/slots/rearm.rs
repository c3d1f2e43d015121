//! `menagerie slots rearm POOL [HOLDER]`

use clap::Args;
use menagerie_slots::disarm;
use menagerie_znodes::Name;

use super::change;
use crate::client::ClientArgs;
use crate::exit::{CliError, cannot};
use crate::who;

/// Put the watchdog of a repaired host back into service.
#[derive(Debug, Args)]
pub struct Rearm {
    /// Name of the pool.
    pool: Name,
    /// Holder whose watchdog to rearm [default: this host; env: MENAGERIE_HOST].
    holder: Option<Name>,
}

impl Rearm {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        let holder = match self.holder {
            Some(holder) => holder,
            None => Name::new(who::this_host()).map_err(|error| CliError::Usage {
                what: format!("this host's name cannot be used: {error}"),
                help: "name the holder".to_owned(),
            })?,
        };
        change(client, async |session| {
            let was_out = disarm::rearm(session, &self.pool, &holder).await;
            if was_out.map_err(cannot(format!("rearm {holder} in pool {}", self.pool)))? {
                eprintln!("{holder} is armed again");
            } else {
                eprintln!("{holder} was armed already");
            }
            Ok(())
        })
    }
}
