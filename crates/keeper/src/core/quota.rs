//! Quotas, in the znodes that other tools use for them: `/zookeeper/quota/PATH/zookeeper_limits` sets a limit,
//! `…/zookeeper_stats` beside it shows the count. The count is derived from the tree, so it is neither logged nor
//! versioned; after a restart it is computed again.

use hashbrown::HashSet;
use menagerie_wire::ErrorCode;
use tracing::debug;

use super::path;
use super::state::State;
use super::tree::Tree;

const LIMITS: &str = "zookeeper_limits";
const STATS: &str = "zookeeper_stats";

/// The paths that have a quota.
#[derive(Debug, Default)]
pub struct Quotas {
    paths: HashSet<Box<str>>,
}

impl Quotas {
    /// The nearest path at or above `path` that has a quota. One on the root has no effect, as in the reference.
    fn covering<'a>(&self, path: &'a str) -> Option<&'a str> {
        if self.paths.is_empty() {
            return None;
        }
        path::ancestry(path).find(|above| self.paths.contains(*above)).filter(|above| *above != path::ROOT)
    }
}

/// What a quota znode says: `count=3,bytes=100`, in newer versions with `=;byteHardLimit=…;countHardLimit=…` behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Figures {
    count: i64,
    bytes: i64,
    count_hard: i64,
    bytes_hard: i64,
}

impl Figures {
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
            count: value("count"),
            bytes: value("bytes"),
            count_hard: value("countHardLimit"),
            bytes_hard: value("byteHardLimit"),
        }
    }

    fn encode_counts(&self) -> Box<[u8]> {
        format!("count={},bytes={}", self.count, self.bytes).into_bytes().into()
    }
}

/// `/a/b` for `/zookeeper/quota/a/b/zookeeper_limits`, and which of the two znodes it is.
fn quota_znode(path: &str) -> Option<(&str, &str)> {
    let (target, name) = path.strip_prefix(path::QUOTA)?.rsplit_once('/')?;
    matches!(name, LIMITS | STATS).then_some((target, name))
}

fn znode_of(target: &str, name: &str) -> String {
    format!("{}{target}/{name}", path::QUOTA)
}

impl State {
    /// Judges a write of `count` more znodes and `bytes` more bytes at `path`.
    pub(super) fn check_quota(&self, path: &str, count: i64, bytes: i64) -> Result<(), ErrorCode> {
        let Some(target) = self.quotas.covering(path) else { return Ok(()) };
        let read =
            |name| self.tree.get(&znode_of(target, name)).map(|znode| Figures::parse(znode.data.as_deref()));
        let (Some(limits), Some(used)) = (read(LIMITS), read(STATS)) else { return Ok(()) };
        let exceeds = |more: i64, used: i64, limit: i64| more > 0 && limit > -1 && used + more > limit;
        if exceeds(count, used.count, limits.count_hard) || exceeds(bytes, used.bytes, limits.bytes_hard) {
            if self.options.enforce_quota {
                return Err(ErrorCode::QuotaExceeded);
            }
            debug!(path = target, "hard quota exceeded, but not enforced");
        } else if exceeds(count, used.count, limits.count) || exceeds(bytes, used.bytes, limits.bytes) {
            debug!(path = target, "quota exceeded");
        }
        Ok(())
    }

    pub(super) fn count_created(&mut self, path: &str, bytes: i64) {
        match quota_znode(path) {
            Some((target, LIMITS)) => {
                self.quotas.paths.insert(target.into());
            }
            Some((target, _)) => count_anew(&mut self.tree, target),
            None => {}
        }
        self.count(path, 1, bytes);
    }

    pub(super) fn count_deleted(&mut self, path: &str, bytes: i64) {
        if let Some((target, LIMITS)) = quota_znode(path) {
            self.quotas.paths.remove(target);
        }
        self.count(path, -1, -bytes);
    }

    pub(super) fn count_resized(&mut self, path: &str, bytes: i64) {
        self.count(path, 0, bytes);
    }

    fn count(&mut self, path: &str, count: i64, bytes: i64) {
        let Some(target) = self.quotas.covering(path) else { return };
        let Some(slot) = self.tree.slot(&znode_of(target, STATS)) else { return };
        let mut figures = Figures::parse(self.tree.at(slot).data.as_deref());
        figures.count += count;
        figures.bytes += bytes;
        self.tree.set_data(slot, Some(figures.encode_counts()));
    }

    /// Finds all quotas and counts everything below them; for a state that was just loaded.
    pub fn count_quotas(&mut self) {
        let limits: Vec<Box<str>> = self
            .tree
            .iter()
            .filter_map(|znode| quota_znode(&znode.path))
            .filter(|(_, name)| *name == LIMITS)
            .map(|(target, _)| target.into())
            .collect();
        for target in &limits {
            count_anew(&mut self.tree, target);
        }
        self.quotas.paths = limits.into_iter().collect();
    }
}

/// Counts a path and everything below it, and writes that into its `zookeeper_stats`.
fn count_anew(tree: &mut Tree, target: &str) {
    let Some(stats) = tree.slot(&znode_of(target, STATS)) else { return };
    let mut figures = Figures { count: 0, bytes: 0, count_hard: -1, bytes_hard: -1 };
    if let Some(top) = tree.slot(target) {
        for slot in std::iter::once(top).chain(tree.descendants(top)) {
            figures.count += 1;
            figures.bytes += tree.at(slot).data.as_ref().map_or(0, |data| data.len()) as i64;
        }
    }
    tree.set_data(stats, Some(figures.encode_counts()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_of_limits_are_understood() {
        assert_eq!(
            Figures::parse(Some(b"count=3,bytes=100")),
            Figures { count: 3, bytes: 100, count_hard: -1, bytes_hard: -1 }
        );
        assert_eq!(
            Figures::parse(Some(b"count=-1,bytes=-1=;byteHardLimit=7;countHardLimit=5")),
            Figures { count: -1, bytes: -1, count_hard: 5, bytes_hard: 7 }
        );
    }

    #[test]
    fn quota_znodes_name_their_target() {
        assert_eq!(quota_znode("/zookeeper/quota/a/b/zookeeper_limits"), Some(("/a/b", LIMITS)));
        assert_eq!(quota_znode("/zookeeper/quota/a"), None);
        assert_eq!(quota_znode("/a/zookeeper_limits"), None);
    }
}
