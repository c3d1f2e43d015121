//! Group settle: waits until members have stopped coming and going, to decide once and not at every change.
//!
//! **It promises** to return the children of a directory when they have not changed for a while ([`Rule::quiet`]), read
//! again at that moment; and that flapping cannot delay it for ever: after [`Rule::cap`] it returns what is there,
//! changing or not. **It does not promise** that nothing changes while you use the result.
//!
//! ```no_run
//! # use menagerie_kernel::{Session, recipes::settle::{Rule, SettleError, Settling}};
//! # use menagerie_znodes::{Dir, Znode};
//! # async fn example(session: &Session, dir: Znode<Dir>) -> Result<(), SettleError> {
//! let mut workers = Settling::new(session, dir, Rule::default());
//! loop {
//!     let settled = workers.next().await?;
//!     println!("{:?} share the work", settled.names);
//! }
//! # }
//! ```

use std::time::{Duration, Instant};

use menagerie_znodes::{Dir, Znode};
use thiserror::Error;

use crate::error::{CallError, Remedy};
use crate::session::{Session, Term, Watch};

/// When a directory counts as settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Time without any change.
    pub quiet: Duration,
    /// The longest delay, counted from the first change.
    pub cap: Duration,
}

impl Default for Rule {
    /// Long enough for a fleet that is restarted together, short against a session time-out.
    fn default() -> Self {
        Self { quiet: Duration::from_secs(3), cap: Duration::from_secs(30) }
    }
}

/// Changes that have not settled yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unrest {
    /// The first of them.
    pub since: Instant,
    /// The last of them.
    pub last: Instant,
}

/// Why it is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Nothing has changed for long enough.
    Quiet,
    /// Changes went on for longer than the cap.
    Capped,
}

/// Whether the directory has settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is settled.
    Settled(Why),
    /// Not before this moment, and later if something changes.
    NotBefore(Instant),
}

impl Unrest {
    /// Something changed, for the first time since it was settled.
    pub fn begin(now: Instant) -> Self {
        Self { since: now, last: now }
    }

    /// Something changed again.
    pub fn again(self, now: Instant) -> Self {
        Self { last: now.max(self.last), ..self }
    }

    /// Whether the changes have settled.
    pub fn verdict(self, now: Instant, rule: Rule) -> Verdict {
        let (quiet, capped) = (self.last + rule.quiet, self.since + rule.cap);
        if quiet <= now {
            Verdict::Settled(Why::Quiet)
        } else if capped <= now {
            Verdict::Settled(Why::Capped)
        } else {
            Verdict::NotBefore(quiet.min(capped))
        }
    }
}

/// A call to ZooKeeper failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot follow who comes and goes at {path}")]
#[allow(missing_docs, reason = "the fields of errors name themselves")]
pub struct SettleError {
    pub path: String,
    pub source: CallError,
}

impl SettleError {
    /// What the caller may do.
    pub fn remedy(&self) -> Remedy {
        self.source.remedy()
    }
}

/// The children when the directory settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// Their names, sorted.
    pub names: Vec<String>,
    /// Whether by quiet or by the cap.
    pub why: Why,
}

/// The directory as read. The transaction changes with every change of the children, so that a change that was undone
/// before we could read it is not missed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct DirSnapshot {
    names: Vec<String>,
    /// The transactions that made the directory and last changed its children.
    changed: (i64, i64),
}

/// A directory whose children come and go.
#[derive(Debug)]
pub struct Settling {
    session: Session,
    dir: String,
    rule: Rule,
    /// The directory at the last read.
    seen: Option<DirSnapshot>,
    /// `None`: nothing has changed since it was settled.
    unrest: Option<Unrest>,
}

impl Settling {
    /// Follows the children of this directory.
    pub fn new(session: &Session, dir: Znode<Dir>, rule: Rule) -> Self {
        Self { session: session.clone(), dir: dir.path().to_owned(), rule, seen: None, unrest: None }
    }

    /// Waits until the directory is settled; after the first time, until it has changed and settled again. Cancel-safe.
    pub async fn next(&mut self) -> Result<Settled, SettleError> {
        let mut terms = self.session.term_by_term();
        loop {
            // Members that lost their session register again: the next read shows it.
            let settled = self.next_in(&terms.term().patient()).await;
            if let Some(settled) = terms.finished(settled).await {
                return settled.map_err(|source| SettleError { path: self.dir.clone(), source });
            }
        }
    }

    async fn next_in(&mut self, term: &Term) -> Result<Settled, CallError> {
        loop {
            // No event does not mean no change, so every verdict follows a read.
            term.sync(&self.dir).await?;
            let (snapshot, watch) = self.read_dir(term).await?;
            let now = Instant::now();
            if self.seen.as_ref().is_none_or(|seen| seen.changed != snapshot.changed) {
                self.unrest = Some(self.unrest.map_or(Unrest::begin(now), |unrest| unrest.again(now)));
                self.seen = Some(snapshot.clone());
            }
            let due = match self.unrest.map(|unrest| unrest.verdict(now, self.rule)) {
                Some(Verdict::Settled(why)) => {
                    self.unrest = None;
                    return Ok(Settled { names: snapshot.names, why });
                }
                Some(Verdict::NotBefore(due)) => Some(due),
                None => None,
            };
            let timer = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = watch.changed() => {}
                () = timer => {}
            }
        }
    }

    /// Reads the children; none if the directory does not exist yet.
    async fn read_dir(&self, term: &Term) -> Result<(DirSnapshot, Watch), CallError> {
        loop {
            match term.children_watched(&self.dir).await {
                Ok((mut names, stat, watch)) => {
                    names.sort_unstable();
                    return Ok((DirSnapshot { names, changed: (stat.czxid, stat.pzxid) }, watch));
                }
                Err(CallError::NoZnode { .. }) => {
                    let (stat, watch) = term.stat_watched(&self.dir).await?;
                    if stat.is_none() {
                        return Ok((DirSnapshot::default(), watch));
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULE: Rule = Rule { quiet: Duration::from_millis(30), cap: Duration::from_millis(100) };

    #[test]
    fn quiet_counts_from_the_last_change_and_the_cap_from_the_first() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let unrest = Unrest::begin(at(0)).again(at(20));
        assert_eq!(unrest.verdict(at(30), RULE), Verdict::NotBefore(at(50)));
        assert_eq!(unrest.verdict(at(50), RULE), Verdict::Settled(Why::Quiet));
        let flapping = unrest.again(at(90));
        assert_eq!(flapping.verdict(at(95), RULE), Verdict::NotBefore(at(100)));
        assert_eq!(flapping.verdict(at(100), RULE), Verdict::Settled(Why::Capped));
    }

    proptest! {
        #[test]
        fn never_settled_too_early_nor_held_for_ever(gaps in prop::collection::vec(0_u64..60, 0..20)) {
            let start = Instant::now();
            let (mut now, mut unrest) = (start, Unrest::begin(start));
            for gap in gaps {
                let next = now + Duration::from_millis(gap);
                if let Verdict::Settled(_) = unrest.verdict(next, RULE) {
                    break;
                }
                now = next;
                unrest = unrest.again(now);
            }
            // A shell that sleeps until the moment of the verdict.
            let mut looks = 0;
            let why = loop {
                match unrest.verdict(now, RULE) {
                    Verdict::Settled(why) => break why,
                    Verdict::NotBefore(due) => {
                        prop_assert!(due > now, "it would spin");
                        now = due;
                    }
                }
                looks += 1;
                prop_assert!(looks < 3);
            };
            prop_assert!(now <= start + RULE.cap);
            match why {
                Why::Quiet => prop_assert!(now >= unrest.last + RULE.quiet),
                Why::Capped => prop_assert_eq!(now, start + RULE.cap),
            }
        }
    }
}
