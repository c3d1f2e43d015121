//! `menagerie check slots POOL`: is a host stuck?

use std::cmp::Reverse;
use std::time::Duration;

use clap::Args;
use menagerie_slots::view::{self, HolderView, PoolView, WaiterView};
use menagerie_znodes::slots::Holder;
use menagerie_znodes::{Name, Payload as _};

use super::report::{Perf, Report, State, Thresholds};
use super::thresholds::{AgeArgs, WaitingArgs};
use crate::client::Client;
use crate::exit::{CliError, cannot};
use crate::{clock, durations};

/// Service name in the plugin's output.
pub const SERVICE: &str = "SLOTS";

/// A longer pool name leaves no room for the counter: labels must differ in their first 19 characters.
const LABEL_MAX: usize = 11;

/// How much of a reason the line shows.
const REASON_MAX: usize = 30;

/// Check a pool: how long its oldest slot has been held, whether holders are gone, and how many wait.
#[derive(Debug, Args)]
pub struct Slots {
    #[command(flatten)]
    pool: PoolArgs,
    #[command(flatten)]
    age: AgeArgs,
    #[command(flatten)]
    waiting: WaitingArgs,
    /// State to report when a holder's process is gone but its slot is still held.
    #[arg(long, value_name = "STATE", value_parser = State::parse, default_value = "WARNING")]
    gone: State,
}

/// Plugins have named arguments; people do not like them.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct PoolArgs {
    /// Name of the pool.
    #[arg(value_name = "POOL")]
    pool: Option<Name>,
    /// Same as POOL.
    #[arg(long = "pool", value_name = "POOL")]
    named: Option<Name>,
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    age: Thresholds,
    waiting: Thresholds,
    gone: State,
}

impl Slots {
    /// Reads the pool and judges it.
    pub async fn inspect(&self, client: &Client) -> Result<Report, CliError> {
        let Some(pool) = self.pool.pool.as_ref().or(self.pool.named.as_ref()) else {
            return Ok(Report::unknown(SERVICE, "no pool is named"));
        };
        let now_ms = u64::try_from(clock::now_ms()).unwrap_or(0);
        // Our server may lag behind: without a sync we might page somebody for a problem long solved.
        let synced = client.term().sync("/").await.map_err(menagerie_slots::SlotsError::from);
        let seen = match synced {
            Ok(()) => view::show(&client.session, pool, now_ms).await,
            Err(error) => Err(error),
        };
        let view = seen.map_err(cannot(format!("look at pool {pool}")))?;
        let waiting = self.waiting.thresholds();
        Ok(judge(&view, Limits { age: self.age.thresholds(), waiting, gone: self.gone }))
    }
}

fn judge(view: &PoolView, limits: Limits) -> Report {
    let oldest = view.holders.iter().max_by_key(age);
    let gone: Vec<&HolderView> = view.holders.iter().filter(|holder| holder.alive == Some(false)).collect();
    let longest_gone = gone.iter().copied().max_by_key(age);
    let waiting = view.waiters.len() as f64;

    let old = oldest.map_or(State::Ok, |holder| limits.age.judge(holder.age_s as f64));
    let lost = longest_gone.map_or(State::Ok, |_| limits.gone);
    let crowded = limits.waiting.judge(waiting);
    let damaged = if view.missing.is_empty() { State::Ok } else { State::Warning };
    let state = old.worse(lost).worse(crowded).worse(damaged);

    // Name the stuck holder first: the person paged must find it.
    let stuck = match (oldest, longest_gone) {
        (Some(holder), _) if old == state && old != State::Ok => Some(holds(&view.pool, holder)),
        (_, Some(holder)) if lost == state && lost != State::Ok => Some(holds(&view.pool, holder)),
        (Some(holder), _) => Some(holds(&view.pool, holder)),
        (None, _) => None,
    };
    let mut text = match stuck {
        Some(stuck) => format!("{stuck}; {} of {} in, {} waiting", view.used, view.max, view.waiters.len()),
        None => format!("pool {}: nobody of {} in, {} waiting", view.pool, view.max, view.waiters.len()),
    };
    if !gone.is_empty() {
        text += &format!(", {} gone", gone.len());
    }
    if view.frozen.is_some() {
        text += ", frozen";
    }
    for path in &view.missing {
        text += &format!(", damaged: {path} is missing");
    }
    let mut report = Report::new(SERVICE, state, text);
    report.perf = numbers(view, limits, oldest, gone.len());
    details(view, &mut report);
    report
}

/// `host7 holds decom/2 for 4d 2h (reason)`
fn holds(pool: &str, HolderView { slot, age_s, alive, holder, .. }: &HolderView) -> String {
    let who = match &holder.host {
        Some(host) if *host != holder.holder => format!("{} on {host}", holder.holder),
        _ => holder.holder.clone(),
    };
    let gone = if *alive == Some(false) { ", and is gone" } else { "" };
    let reason = holder.reason.as_deref().filter(|reason| !reason.is_empty());
    let reason = reason.map_or(String::new(), |reason| format!(" ({})", short(reason)));
    format!("{who} holds {pool}/{slot} for {}{reason}{gone}", durations::precise(Duration::from_secs(*age_s)))
}

/// Holders admitted within the same second rank by creation.
fn age(holder: &&HolderView) -> (u64, Reverse<i64>) {
    (holder.age_s, Reverse(holder.since_ms))
}

fn short(reason: &str) -> String {
    match reason.char_indices().nth(REASON_MAX) {
        Some((end, _)) => format!("{}…", &reason[..end]),
        None => reason.to_owned(),
    }
}

fn numbers(view: &PoolView, limits: Limits, oldest: Option<&HolderView>, gone: usize) -> Vec<Perf> {
    let prefix: String = view.pool.chars().take(LABEL_MAX).collect();
    let number = |what: &str, value: f64| Perf::new(format!("{prefix}.{what}"), Some(value), "");
    let age = oldest.map_or(0.0, |holder| holder.age_s as f64);
    vec![
        Perf { max: Some(f64::from(view.max)), ..number("used", view.used as f64) },
        Perf { thresholds: limits.age, unit: "s", ..number("oldest", age) },
        Perf { thresholds: limits.waiting, ..number("waiting", view.waiters.len() as f64) },
        number("gone", gone as f64),
    ]
}

fn details(view: &PoolView, report: &mut Report) {
    for holder in &view.holders {
        report.detail(1, holds(&view.pool, holder));
    }
    for WaiterView { position, age_s, waiter, .. } in &view.waiters {
        let age = durations::precise(Duration::from_secs(*age_s));
        report.detail(1, format!("{} waits at place {position} for {age}", waiter.holder));
    }
    if let Some(frozen) = &view.frozen {
        report.detail(1, format!("frozen by {}", frozen.by));
    }
    for HolderView { slot, holder, .. } in &view.holders {
        // The ticket lets its reader use the slot: do not show it.
        let shown = Holder { ticket: None, ..holder.clone() };
        report.detail(3, format!("slot {slot}: {}", String::from_utf8_lossy(&shown.encode())));
    }
}

#[cfg(test)]
mod tests {
    use menagerie_znodes::slots::Frozen;

    use super::super::thresholds::count;
    use super::*;

    fn holder(slot: u32, name: &str, age_s: u64, alive: Option<bool>) -> HolderView {
        let holder = Holder::decode(name.as_bytes()).unwrap();
        HolderView { slot, since_ms: 0, age_s, alive, holder }
    }

    fn pool(holders: Vec<HolderView>) -> PoolView {
        PoolView {
            pool: "decom".to_owned(),
            max: 3,
            used: holders.len(),
            frozen: None,
            holders,
            waiters: Vec::new(),
            missing: Vec::new(),
        }
    }

    fn limits() -> Limits {
        let range = |text| Some(count(text).unwrap());
        let age = Thresholds { warning: range("172800"), critical: range("345600") };
        Limits { age, waiting: Thresholds { warning: range("@1:"), critical: None }, gone: State::Warning }
    }

    #[test]
    fn pool_of_which_a_part_is_missing_is_a_warning() {
        let view = PoolView { missing: vec!["/slots/decom/queue".to_owned()], ..pool(Vec::new()) };
        let report = judge(&view, limits());
        assert_eq!(report.state, State::Warning);
        assert!(report.text.contains("/slots/decom/queue is missing"), "{}", report.text);
    }

    #[test]
    fn oldest_holder_is_named_with_numbers() {
        let mut old = holder(2, "host7", 353_100, Some(true));
        old.holder.reason = Some("bad disk".to_owned());
        let report = judge(&pool(vec![holder(1, "host1", 60, None), old]), limits());
        assert_eq!(
            report.render(0),
            "SLOTS CRITICAL - host7 holds decom/2 for 4d 2h (bad disk); 2 of 3 in, 0 waiting | 'decom.used'=2;;;0;3 \
             'decom.oldest'=353100s;172800;345600;0 'decom.waiting'=0;@1:;;0 'decom.gone'=0;;;0\n"
        );
    }

    #[test]
    fn holder_that_is_gone_is_named_unless_somebody_is_worse() {
        let gone = || holder(1, "host1", 60, Some(false));
        let report = judge(&pool(vec![gone(), holder(2, "host2", 3600, Some(true))]), limits());
        assert_eq!(
            (report.state, report.text.as_str()),
            (State::Warning, "host1 holds decom/1 for 1m, and is gone; 2 of 3 in, 0 waiting, 1 gone")
        );
        let worse = judge(&pool(vec![gone(), holder(2, "host2", 400_000, Some(true))]), limits());
        assert!(worse.state == State::Critical && worse.text.starts_with("host2 holds"), "{worse:?}");
        let fine = judge(&pool(vec![gone()]), Limits { gone: State::Ok, ..limits() });
        assert_eq!(fine.state, State::Ok);
        let script = judge(&pool(vec![holder(1, "host1", 60, None)]), limits());
        assert_eq!(script.state, State::Ok, "no process ever stood for it");
    }

    #[test]
    fn empty_pool_is_well_and_frozen_ones_say_so() {
        let frozen = Some(Frozen { by: "me".to_owned(), reason: None, tell: false });
        let report = judge(&PoolView { frozen, ..pool(Vec::new()) }, limits());
        assert_eq!(
            (report.state, report.text.as_str()),
            (State::Ok, "pool decom: nobody of 3 in, 0 waiting, frozen")
        );
    }

    #[test]
    fn labels_differ_within_nineteen_characters() {
        let long = PoolView { pool: "p".repeat(100), ..pool(Vec::new()) };
        let labels: std::collections::HashSet<String> =
            judge(&long, limits()).perf.iter().map(|perf| perf.label.chars().take(19).collect()).collect();
        assert_eq!(labels.len(), 4);
    }
}
