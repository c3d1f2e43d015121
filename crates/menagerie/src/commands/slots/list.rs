//! `menagerie slots list`

use clap::Args;
use menagerie_slots::SlotsError;
use menagerie_slots::view::{self, PoolView};

use super::read_and_print;
use crate::client::ClientArgs;
use crate::exit::{CliError, cannot};
use crate::output::{OutputArgs, Row, Rows, escape_for_terminal};
use crate::{clock, durations};

/// List all pools: slots held, waiters, and how long the oldest slot has been held.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        // A damaged pool must not hide the others.
        let mut damaged = None;
        read_and_print(client, self.output, async |session| {
            let now_ms = u64::try_from(clock::now_ms()).unwrap_or(0);
            let mut rows = Vec::new();
            for (pool, view) in view::all(session, now_ms).await.map_err(cannot("list the pools"))? {
                match view {
                    Ok(view) => rows.push(view),
                    Err(error @ (SlotsError::Damaged { .. } | SlotsError::Missing { .. })) => {
                        damaged.get_or_insert(cannot(format!("look at pool {pool}"))(error));
                    }
                    Err(error) => return Err(cannot(format!("look at pool {pool}"))(error)),
                }
            }
            Ok(Rows(rows))
        })?;
        damaged.map_or(Ok(()), Err)
    }
}

impl Row for PoolView {
    const HEADS: &[&str] = &["POOL", "USED", "MAX", "WAITING", "OLDEST", "BY", "STATE"];
    const NONE: Option<&str> = Some("no pools yet: `menagerie slots create POOL --max N` makes one");

    fn cells(&self) -> Vec<String> {
        let oldest = self.holders.iter().min_by_key(|holder| holder.since_ms);
        vec![
            self.pool.clone(),
            self.used.to_string(),
            self.max.to_string(),
            self.waiters.len().to_string(),
            oldest.map_or("-".to_owned(), |oldest| {
                durations::age(std::time::Duration::from_secs(oldest.age_s))
            }),
            escape_for_terminal(oldest.map(|oldest| oldest.holder.holder.as_str())),
            if self.frozen.is_some() { "frozen" } else { "open" }.to_owned(),
        ]
    }
}
