//! `menagerie slots show POOL`

use std::time::Duration;

use clap::Args;
use menagerie_slots::disarm::{self, DisarmedView};
use menagerie_slots::view::{self, HolderView, PoolView, WaiterView};
use menagerie_znodes::Name;
use serde::Serialize;

use super::read_and_print;
use super::waiting::frozen_by;
use crate::client::ClientArgs;
use crate::exit::{CliError, cannot};
use crate::output::{self, OutputArgs, Table, escape_for_terminal};
use crate::{clock, durations};

/// Show a pool: holders, since when and whether they are alive; waiters, in order; watchdogs that are out of service.
#[derive(Debug, Args)]
pub struct Show {
    /// Name of the pool.
    pool: Name,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
struct PoolOverview {
    pool: String,
    max: u32,
    used: usize,
    frozen: Option<menagerie_znodes::slots::Frozen>,
    holders: Vec<HolderView>,
    waiters: Vec<WaiterView>,
    disarmed: Vec<DisarmedView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing: Vec<String>,
}

impl Show {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        read_and_print(client, self.output, async |session| {
            let doing = || cannot(format!("look at pool {}", self.pool));
            let now_ms = u64::try_from(clock::now_ms()).unwrap_or(0);
            let PoolView { pool, max, used, frozen, holders, waiters, missing } =
                view::show(session, &self.pool, now_ms).await.map_err(doing())?;
            let disarmed = disarm::list(session, &self.pool).await.map_err(doing())?;
            Ok(PoolOverview { pool, max, used, frozen, holders, waiters, disarmed, missing })
        })
    }
}

impl output::Show for PoolOverview {
    fn show(&self) -> String {
        let mut text =
            format!("pool {}: {} of {} in, {} waiting", self.pool, self.used, self.max, self.waiters.len());
        if let Some(frozen) = &self.frozen {
            text += &format!(", {}", frozen_by(frozen));
        }
        text.push('\n');
        for path in &self.missing {
            text += &format!("damaged: {path} is missing (in the namespace); see `menagerie doctor`\n");
        }
        if !self.holders.is_empty() {
            text += &format!("\n{}", holders(&self.holders));
        }
        if !self.waiters.is_empty() {
            text += &format!("\n{}", waiters(&self.waiters));
        }
        if !self.disarmed.is_empty() {
            let mut table = Table::new(["OUT OF SERVICE", "SINCE", "REASON"]);
            for DisarmedView { holder, since_ms, reason } in &self.disarmed {
                table.row([
                    escape_for_terminal(Some(holder)),
                    durations::age(clock::since(*since_ms)),
                    escape_for_terminal(Some(reason)),
                ]);
            }
            text += &format!("\n{}", table.text());
        }
        text
    }
}

fn holders(holders: &[HolderView]) -> String {
    let mut table =
        Table::new(["SLOT", "HOLDER", "HOST", "AGE", "ALIVE", "KIND", "WHO", "REASON", "COMMAND"]);
    for HolderView { slot, age_s, alive, holder, .. } in holders {
        table.row([
            slot.to_string(),
            escape_for_terminal(Some(&holder.holder)),
            escape_for_terminal(holder.host.as_deref()),
            durations::age(Duration::from_secs(*age_s)),
            match alive {
                Some(true) => "yes",
                Some(false) => "no",
                None => "-",
            }
            .to_owned(),
            if holder.ephemeral { "ephemeral" } else { "persistent" }.to_owned(),
            escape_for_terminal(holder.who.as_deref()),
            escape_for_terminal(holder.reason.as_deref()),
            escape_for_terminal(Some(&holder.command.join(" "))),
        ]);
    }
    table.text()
}

fn waiters(waiters: &[WaiterView]) -> String {
    let mut table = Table::new(["PLACE", "WAITER", "HOST", "WAITING", "PRIORITY", "KIND", "WHO", "REASON"]);
    for WaiterView { position, priority, age_s, waiter, .. } in waiters {
        table.row([
            position.to_string(),
            escape_for_terminal(Some(&waiter.holder)),
            escape_for_terminal(Some(&waiter.host)),
            durations::age(Duration::from_secs(*age_s)),
            priority.to_string(),
            if waiter.polling { "asks" } else { "waits" }.to_owned(),
            escape_for_terminal(waiter.who.as_deref()),
            escape_for_terminal(waiter.reason.as_deref()),
        ]);
    }
    table.text()
}
