//! `menagerie slots history POOL`

use clap::Args;
use menagerie_slots::view::{self, EventView};
use menagerie_znodes::Name;

use super::read_and_print;
use crate::client::ClientArgs;
use crate::clock;
use crate::exit::{CliError, cannot};
use crate::output::{OutputArgs, Row, Rows, escape_for_terminal};

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
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        read_and_print(client, self.output, async |session| {
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
            view::event_name(event.what).to_owned(),
            event.slot.map_or("-".to_owned(), |slot| slot.to_string()),
            escape_for_terminal(event.holder.as_deref()),
            escape_for_terminal(Some(&event.by)),
            escape_for_terminal(event.detail.as_deref()),
        ]
    }
}
