//! `menagerie slots list`

use clap::Args;
use menagerie_slots::poll;
use menagerie_slots::view::PoolView;
use serde::Serialize;

use super::{failed, look, told};
use crate::client::ClientArgs;
use crate::exit::CliError;
use crate::output::{OutputArgs, Show, Table};
use crate::{clock, durations};

/// List all pools: how many are in, how many wait, and since when the oldest is in.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Listing {
    pools: Vec<PoolView>,
}

impl List {
    /// Looks and prints.
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        look(client, self.output, async |session| {
            let now_ms = u64::try_from(clock::now_ms()).unwrap_or(0);
            let pools = poll::usage(session, now_ms).await.map_err(failed("list the pools"))?;
            Ok(Listing { pools })
        })
    }
}

impl Show for Listing {
    fn show(&self) -> String {
        if self.pools.is_empty() {
            return "no pools yet: `menagerie slots create POOL --max N` makes one\n".to_owned();
        }
        let mut table = Table::new(["POOL", "USED", "MAX", "WAITING", "OLDEST", "BY", "STATE"]);
        for pool in &self.pools {
            let oldest = pool.holders.iter().min_by_key(|holder| holder.since_ms);
            table.row([
                pool.pool.clone(),
                pool.used.to_string(),
                pool.max.to_string(),
                pool.waiters.len().to_string(),
                oldest.map_or("-".to_owned(), |oldest| {
                    durations::age(std::time::Duration::from_secs(oldest.age_s))
                }),
                told(oldest.map(|oldest| oldest.holder.holder.as_str())),
                if pool.frozen.is_some() { "frozen" } else { "open" }.to_owned(),
            ]);
        }
        table.text()
    }
}
