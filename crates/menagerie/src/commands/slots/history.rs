//! `menagerie slots history POOL`

use clap::Args;
use menagerie_slots::view::{self, EventView};
use menagerie_znodes::Name;

use super::look;
use crate::client::ClientArgs;
use crate::clock;
use crate::exit::{CliError, cannot};
use crate::output::{OutputArgs, Row, Rows, told};

/// Show a pool's history, oldest first: who acquired, released or lost a slot by force, when, and by whom. A pool keeps
/// its newest 1,000 entries.
#[derive(Debug, Args)]
pub struct History {
    /// Name of the pool.
    pool: Name,
    #[command(flatten)]
    output: OutputArgs,
}

impl History {
    /// Looks and prints.
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        look(client, self.output, async |session| {
            let events = view::history(session, &self.pool).await;
            events.map(Rows).map_err(cannot(format!("read the history of pool {}", self.pool)))
        })
    }
}

impl Row for EventView {
    const HEADS: &[&str] = &["WHEN", "WHAT", "SLOT", "HOLDER", "BY", "DETAIL"];

    fn cells(&self) -> Vec<String> {
        let Self { at_ms, event, .. } = self;
        vec![
            clock::utc(*at_ms),
            view::what(event.what).to_owned(),
            event.slot.map_or("-".to_owned(), |slot| slot.to_string()),
            told(event.holder.as_deref()),
            told(Some(&event.by)),
            told(event.detail.as_deref()),
        ]
    }
}
