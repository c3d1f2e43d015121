//! `menagerie slots history POOL`

use clap::Args;
use menagerie_slots::view::{self, EventView};
use menagerie_znodes::Name;
use serde::Serialize;

use super::{failed, look, told};
use crate::client::ClientArgs;
use crate::clock;
use crate::exit::CliError;
use crate::output::{OutputArgs, Show, Table};

/// Show what happened in a pool, oldest first: who got a slot, gave it back, was forced out; when, by whom. The newest
/// 1,000 entries are kept.
#[derive(Debug, Args)]
pub struct History {
    /// Which pool.
    pool: Name,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Events {
    events: Vec<EventView>,
}

impl History {
    /// Looks and prints.
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        look(client, self.output, async |session| {
            let events = view::history(session, &self.pool).await;
            let events = events.map_err(failed(format!("read the history of pool {}", self.pool)))?;
            Ok(Events { events })
        })
    }
}

impl Show for Events {
    fn show(&self) -> String {
        let mut table = Table::new(["WHEN", "WHAT", "SLOT", "HOLDER", "BY", "DETAIL"]);
        for EventView { at_ms, event, .. } in &self.events {
            table.row([
                clock::utc(*at_ms),
                view::what(event.what).to_owned(),
                event.slot.map_or("-".to_owned(), |slot| slot.to_string()),
                told(event.holder.as_deref()),
                told(Some(&event.by)),
                told(event.detail.as_deref()),
            ]);
        }
        table.text()
    }
}
