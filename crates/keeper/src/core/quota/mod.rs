//! Quotas, in the znodes that other tools use for them: `/zookeeper/quota/PATH/zookeeper_limits` sets a limit,
//! `…/zookeeper_stats` beside it shows the usage. The usage is derived from the tree, so it is neither logged nor
//! versioned, and clients' writes to it are ignored; after a restart it is computed again.
//!
//! Usage is kept twice: as decided, to judge writes, and as durable, for readers ([`shown`]). A znode counts towards
//! every quota at or above its path; znodes below `/zookeeper/quota` count towards none.

mod shown;

use hashbrown::{HashMap, HashSet};
use menagerie_wire::ErrorCode;
use tracing::debug;

use super::path;
use super::state::State;
use super::tree::Tree;
use super::znode::data_length;

const LIMITS: &str = "zookeeper_limits";
const STATS: &str = "zookeeper_stats";

/// All quotas.
#[derive(Debug, Default)]
pub struct Quotas {
    /// Quotas by path, as decided.
    decided: HashMap<Box<str>, Quota>,
    /// The paths whose `zookeeper_stats` is in the tree.
    shown: HashSet<Box<str>>,
    /// Earlier values, while a multi may still be rolled back.
    undo: Option<Vec<(Box<str>, Option<Quota>)>>,
}

/// One quota. It is enforced only when both of its znodes exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Quota {
    limits: Option<Limits>,
    usage: Option<Usage>,
}

/// A number of znodes, and the bytes of their data; also a difference of two such.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::core) struct Usage {
    pub count: i64,
    pub bytes: i64,
}

impl Usage {
    /// The usage that creating a znode with this much data adds.
    pub(in crate::core) fn of_one(bytes: i32) -> Self {
        Self { count: 1, bytes: i64::from(bytes) }
    }

    /// The usage that deleting such a znode adds: negative.
    fn without_one(bytes: i32) -> Self {
        Self { count: -1, bytes: -i64::from(bytes) }
    }

    /// The usage that replacing a znode's data adds.
    pub(in crate::core) fn of_growth(bytes: i64) -> Self {
        Self { count: 0, bytes }
    }

    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.bytes += other.bytes;
    }

    fn encode(self) -> Box<[u8]> {
        format!("count={},bytes={}", self.count, self.bytes).into_bytes().into()
    }
}

/// The limits in a quota znode: `count=3,bytes=100`, in newer versions followed by
/// `=;byteHardLimit=…;countHardLimit=…`. -1 for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    soft: Usage,
    hard: Usage,
}

impl Limits {
    fn parse(data: Option<&[u8]>) -> Self {
        let text = String::from_utf8_lossy(data.unwrap_or_default());
        let value = |key: &str| {
            text.split([',', ';'])
                .filter_map(|part| part.split_once('='))
                .find(|(name, _)| *name == key)
                .and_then(|(_, value)| value.trim_end_matches('=').parse().ok())
                .unwrap_or(-1)
        };
        Self {
            soft: Usage { count: value("count"), bytes: value("bytes") },
            hard: Usage { count: value("countHardLimit"), bytes: value("byteHardLimit") },
        }
    }
}

/// The two znodes of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuotaZnode {
    Limits,
    Stats,
}

/// Parses `/zookeeper/quota/a/b/zookeeper_limits` into `/a/b` and which of the two znodes it is. A quota on the root
/// has no effect, as in the reference.
fn quota_znode(path: &str) -> Option<(&str, QuotaZnode)> {
    let (target, name) = path.strip_prefix(path::QUOTA)?.rsplit_once('/')?;
    let role = match name {
        LIMITS => QuotaZnode::Limits,
        STATS => QuotaZnode::Stats,
        _ => return None,
    };
    target.starts_with('/').then_some((target, role))
}

fn stats_path(target: &str) -> String {
    format!("{}{target}/{STATS}", path::QUOTA)
}

/// Whether the path lies below `/zookeeper/quota`.
fn is_below_quota_root(path: &str) -> bool {
    path.strip_prefix(path::QUOTA).is_some_and(|rest| rest.starts_with('/'))
}

/// The paths whose quotas a znode at `path` counts towards, if they have any.
fn covering_paths(path: &str) -> impl Iterator<Item = &str> {
    path::ancestry(path).filter(move |_| !is_below_quota_root(path))
}

impl Quotas {
    /// From here on decisions can be rolled back together.
    pub fn begin(&mut self) {
        self.undo = Some(Vec::new());
    }

    /// Keeps all decisions since [`Self::begin`].
    pub fn keep(&mut self) {
        self.undo = None;
    }

    /// Rolls back all decisions since [`Self::begin`].
    pub fn take_back(&mut self) {
        for (target, before) in self.undo.take().unwrap_or_default().into_iter().rev() {
            match before {
                Some(quota) => self.decided.insert(target, quota),
                None => self.decided.remove(&target),
            };
        }
    }

    fn change(&mut self, target: &str, change: impl FnOnce(&mut Quota)) {
        let before = self.decided.get(target).copied();
        if let Some(undo) = &mut self.undo {
            undo.push((target.into(), before));
        }
        let mut quota = before.unwrap_or_default();
        change(&mut quota);
        if quota == Quota::default() {
            self.decided.remove(target);
        } else {
            self.decided.insert(target.into(), quota);
        }
    }

    /// Adds to the decided usage of every quota that covers `path`.
    fn count(&mut self, path: &str, more: Usage) {
        if self.decided.is_empty() {
            return;
        }
        for target in covering_paths(path) {
            if self.decided.get(target).is_some_and(|quota| quota.usage.is_some()) {
                self.change(target, |quota| {
                    if let Some(usage) = &mut quota.usage {
                        usage.add(more);
                    }
                });
            }
        }
    }
}

impl State {
    /// Refuses a write at `path` if it would exceed a hard limit that is enforced.
    pub(in crate::core) fn check_quota(&self, path: &str, more: Usage) -> Result<(), ErrorCode> {
        if self.quotas.decided.is_empty() {
            return Ok(());
        }
        for target in covering_paths(path) {
            let Some(Quota { limits: Some(limits), usage: Some(usage) }) = self.quotas.decided.get(target)
            else {
                continue;
            };
            let over = |more: i64, used: i64, limit: i64| more > 0 && limit > -1 && used + more > limit;
            let exceeds = |limit: Usage| {
                over(more.count, usage.count, limit.count) || over(more.bytes, usage.bytes, limit.bytes)
            };
            if exceeds(limits.hard) && self.options.enforce_quota {
                return Err(ErrorCode::QuotaExceeded);
            }
            if exceeds(limits.hard) || exceeds(limits.soft) {
                debug!(path = target, "quota exceeded, but not enforced");
            }
        }
        Ok(())
    }

    /// Accounts for a creation that was just decided; it must be pending already.
    pub(in crate::core) fn decide_created(&mut self, path: &str, data: Option<&[u8]>, length: i32) {
        match quota_znode(path) {
            Some((target, QuotaZnode::Limits)) => {
                self.quotas.change(target, |quota| quota.limits = Some(Limits::parse(data)));
            }
            Some((target, QuotaZnode::Stats)) => {
                let usage = self.decided_usage(target);
                self.quotas.change(target, |quota| quota.usage = Some(usage));
            }
            None => self.quotas.count(path, Usage::of_one(length)),
        }
    }

    /// Accounts for a deletion that is about to be decided.
    pub(in crate::core) fn decide_deleted(&mut self, path: &str) {
        if self.quotas.decided.is_empty() {
            return;
        }
        match quota_znode(path) {
            Some((target, QuotaZnode::Limits)) => self.quotas.change(target, |quota| quota.limits = None),
            Some((target, QuotaZnode::Stats)) => self.quotas.change(target, |quota| quota.usage = None),
            None => {
                let length = self.decided(path).map_or(0, |znode| znode.data_length);
                self.quotas.count(path, Usage::without_one(length));
            }
        }
    }

    /// Accounts for new data that was just decided.
    pub(in crate::core) fn decide_resized(&mut self, path: &str, data: Option<&[u8]>, growth: i64) {
        if self.quotas.decided.is_empty() {
            return;
        }
        match quota_znode(path) {
            Some((target, QuotaZnode::Limits)) => {
                self.quotas.change(target, |quota| quota.limits = Some(Limits::parse(data)));
            }
            Some((_, QuotaZnode::Stats)) => {}
            None => self.quotas.count(path, Usage::of_growth(growth)),
        }
    }

    /// Length of the data of a `zookeeper_stats` once everything decided is durable; `None` for other znodes.
    pub(in crate::core) fn shown_length(&self, path: &str) -> Option<i32> {
        if self.quotas.decided.is_empty() {
            return None;
        }
        let (target, QuotaZnode::Stats) = quota_znode(path)? else { return None };
        let usage = self.quotas.decided.get(target)?.usage?;
        Some(usage.encode().len() as i32)
    }

    /// The usage at and below a path once everything decided is durable. Walks the subtree: for new quotas only.
    fn decided_usage(&self, target: &str) -> Usage {
        let mut usage = counted(&self.tree, target);
        let below = |path: &str| covering_paths(path).any(|above| above == target);
        for (path, znode) in self.pending.iter().filter(|(path, _)| below(path)) {
            if let Some(znode) = znode {
                usage.add(Usage::of_one(znode.data_length));
            }
            if let Some(znode) = self.tree.get(path) {
                usage.add(Usage::without_one(data_length(znode.data.as_deref())));
            }
        }
        usage
    }
}

/// The usage in the tree at and below a path. Walks the subtree.
fn counted(tree: &Tree, target: &str) -> Usage {
    let mut usage = Usage::default();
    let Some(top) = tree.slot(target) else { return usage };
    for slot in std::iter::once(top).chain(tree.descendants(top)) {
        let znode = tree.at(slot);
        if !is_below_quota_root(&znode.path) {
            usage.add(Usage::of_one(data_length(znode.data.as_deref())));
        }
    }
    usage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_of_limits_are_understood() {
        let none = Usage { count: -1, bytes: -1 };
        assert_eq!(
            Limits::parse(Some(b"count=3,bytes=100")),
            Limits { soft: Usage { count: 3, bytes: 100 }, hard: none }
        );
        assert_eq!(
            Limits::parse(Some(b"count=-1,bytes=-1=;byteHardLimit=7;countHardLimit=5")),
            Limits { soft: none, hard: Usage { count: 5, bytes: 7 } }
        );
    }

    #[test]
    fn quota_znodes_name_their_target() {
        assert_eq!(quota_znode("/zookeeper/quota/a/b/zookeeper_limits"), Some(("/a/b", QuotaZnode::Limits)));
        assert_eq!(quota_znode("/zookeeper/quota/a/zookeeper_stats"), Some(("/a", QuotaZnode::Stats)));
        for other in [
            "/zookeeper/quota/a",
            "/a/zookeeper_limits",
            "/zookeeper/quota/zookeeper_limits",
            "/zookeeper/quotas/zookeeper_stats",
        ] {
            assert_eq!(quota_znode(other), None);
        }
    }
}
