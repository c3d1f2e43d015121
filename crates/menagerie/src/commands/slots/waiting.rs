//! Waits for a slot and reports progress.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use jiff::Zoned;
use menagerie_kernel::Session;
use menagerie_slots::view::{self, PoolView};
use menagerie_slots::{HeldSlot, Request, Standing, acquire, try_acquire};
use menagerie_types::exit_code;
use menagerie_znodes::Name;
use menagerie_znodes::slots::Frozen;

use super::window::Window;
use crate::exit::{CliError, cannot};
use crate::output::escape_for_terminal;
use crate::{clock, durations, output};

/// Holders named on one line.
const NAMED_MAX: usize = 5;

/// The wall clock may be set, and a machine may sleep: check the window again this often.
const WINDOW_RECHECK: Duration = Duration::from_secs(30);

/// After a time-out, spend at most this long finding out who held the pool.
const BLOCKER_LOOKUP_MAX: Duration = Duration::from_secs(2);

/// Reports a waiter's standing on stderr: on a terminal as one line that is rewritten, elsewhere as a line per
/// change.
pub struct Notice {
    pool: Name,
    terminal: bool,
    drawn: bool,
    last: String,
}

impl Notice {
    /// Prints nothing until the first report.
    pub fn new(pool: &Name) -> Self {
        Self { pool: pool.clone(), terminal: io::stderr().is_terminal(), drawn: false, last: String::new() }
    }

    /// Reports a standing, if it has changed.
    pub fn show(&mut self, standing: &Standing) {
        self.say(describe(&self.pool, standing));
    }

    pub fn say(&mut self, text: String) {
        if text == self.last {
            return;
        }
        // stderr may be closed; that is no reason to fail.
        let mut err = io::stderr().lock();
        let _ = if self.terminal {
            self.drawn = true;
            write!(err, "\r\x1b[K{text}").and_then(|()| err.flush())
        } else {
            writeln!(err, "{text}")
        };
        self.last = text;
    }

    /// The error after a time-out. If nothing was reported while waiting, it first finds out what blocked the slot.
    pub async fn not_obtained(&self, session: &Session, holder: &str, waited: Duration) -> CliError {
        let mut standing = self.last.clone();
        if standing.is_empty() {
            let now_ms = u64::try_from(clock::now_ms()).unwrap_or(0);
            let lookup = tokio::time::timeout(BLOCKER_LOOKUP_MAX, view::show(session, &self.pool, now_ms));
            standing = match lookup.await {
                Ok(Ok(view)) => blocker(&view, holder),
                Ok(Err(error)) => format!("cannot find out what was in the way: {error}"),
                Err(_) => "cannot find out what was in the way: ZooKeeper did not answer in time".to_owned(),
            };
        }
        let (pool, waited) = (self.pool.to_string(), durations::show(waited));
        CliError::Diagnosed {
            what: format!("no slot of pool {pool} within {waited}"),
            because: Some(standing.into()),
            help: format!("look at it with `menagerie slots show {pool}`, or wait longer with --wait"),
            code: exit_code::NOT_NOW,
        }
    }

    /// Clears the line for other output.
    pub fn clear(&mut self) {
        if self.drawn {
            let _ = write!(io::stderr(), "\r\x1b[K");
            self.drawn = false;
        }
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        self.clear();
    }
}

fn describe(pool: &Name, standing: &Standing) -> String {
    if let Some((slot, doubt)) = &standing.own {
        return format!("waiting for slot {slot} of pool {pool}, which this holder has: {doubt}");
    }
    let place = match standing.ahead {
        0 => "first in the queue".to_owned(),
        1 => "1 ahead".to_owned(),
        ahead => format!("{ahead} ahead"),
    };
    let mut text = format!("waiting for a slot of pool {pool}: {place}");
    if let Some(frozen) = &standing.frozen {
        text += &format!("; {}", frozen_by(frozen));
    }
    if !standing.holders.is_empty() {
        text += &format!("; {}", held_by(&standing.holders));
    }
    text
}

/// What keeps this holder from a slot now.
fn blocker(view: &PoolView, holder: &str) -> String {
    let holders: Vec<String> = view.holders.iter().map(|other| other.holder.holder.clone()).collect();
    if let Some(own) = view.holders.iter().find(|other| other.holder.holder == holder) {
        return format!("{} has slot {} already", escape_for_terminal(Some(holder)), own.slot);
    }
    match &view.frozen {
        Some(frozen) => format!("it is {}", frozen_by(frozen)),
        None if view.used >= view.max as usize => format!("it is full; {}", held_by(&holders)),
        None if view.waiters.is_empty() => "there is room now, but the time was over".to_owned(),
        None => format!("others are first: {}", output::count(view.waiters.len() as u64, "waiter")),
    }
}

/// `frozen by root@host1 (bad update)`
pub fn frozen_by(frozen: &Frozen) -> String {
    let reason = frozen
        .reason
        .as_deref()
        .map_or(String::new(), |reason| format!(" ({})", escape_for_terminal(Some(reason))));
    format!("frozen by {}{reason}", escape_for_terminal(Some(&frozen.by)))
}

/// `held by host1, host2 and 3 more`
fn held_by(holders: &[String]) -> String {
    let named: Vec<String> =
        holders.iter().take(NAMED_MAX).map(|name| escape_for_terminal(Some(name))).collect();
    let more = holders.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("held by {}{more}", named.join(", "))
}

#[derive(Debug, Clone, Copy)]
pub struct WaitLimits {
    /// Longest wait in all.
    pub wait: Option<Duration>,
    /// When a slot may be taken.
    pub window: Option<Window>,
}

/// Waits for a slot.
pub async fn obtain(
    session: &Session,
    pool: &Name,
    request: &Request,
    limits: WaitLimits,
    notice: &mut Notice,
) -> Result<HeldSlot, CliError> {
    let doing = || cannot(format!("take a slot of pool {pool}"));
    let waited = limits.wait.unwrap_or_default();
    let holder = &request.holder;
    let began = Instant::now();
    loop {
        let left = limits.wait.map(|wait| wait.saturating_sub(began.elapsed()));
        let open = match limits.window {
            None => None,
            Some(window) => {
                let now = Zoned::now();
                match window.open_for(&now) {
                    Some(open) => Some(open),
                    None => {
                        let opens = window.opens_in(&now);
                        let rough = durations::age(opens);
                        notice.say(format!("outside of the window for pool {pool}: it opens in {rough}"));
                        if left == Some(Duration::ZERO) {
                            return Err(notice.not_obtained(session, holder, waited).await);
                        }
                        let nap = opens.min(WINDOW_RECHECK).min(left.unwrap_or(WINDOW_RECHECK));
                        tokio::time::sleep(nap).await;
                        continue;
                    }
                }
            }
        };
        if left == Some(Duration::ZERO) {
            // With `--wait 0`: take a slot that is free now, or none.
            let held = try_acquire(session, pool, request).await.map_err(doing())?;
            return match held {
                Some(held) => Ok(held),
                None => Err(notice.not_obtained(session, holder, waited).await),
            };
        }
        let limit = [left, open].into_iter().flatten().min();
        let acquiring = acquire(session, pool, request, |standing| notice.show(&standing));
        match limit {
            None => return acquiring.await.map_err(doing()),
            // When the window closes, give up our place in the queue: it would keep others out.
            Some(limit) => {
                if let Ok(held) = tokio::time::timeout(limit, acquiring).await {
                    return held.map_err(doing());
                }
            }
        }
        if limits.wait.is_some_and(|wait| began.elapsed() >= wait) {
            return Err(notice.not_obtained(session, holder, waited).await);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_does_nothing_to_a_terminal() {
        let evil = "\u{1b}]0;evil\u{7}".to_owned();
        let frozen = Frozen { by: evil.clone(), reason: Some(evil.clone()), tell: false };
        let standing = Standing { ahead: 1, holders: vec![evil], frozen: Some(frozen), own: None };
        let text = describe(&Name::new("pool").unwrap(), &standing);
        assert!(!text.chars().any(char::is_control) && text.contains("frozen by"), "{text:?}");
    }
}
