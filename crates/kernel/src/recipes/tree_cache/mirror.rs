//! The znodes as they were last read. Pure.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::session::Stat;

/// One znode as it was last read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cached {
    data: Arc<[u8]>,
    stat: Stat,
    /// The last walk that saw it and listed its children; 0 for none.
    walk: u64,
}

/// A subtree in memory. Sorted by path, so that everything below a path is contiguous, and every path is stored once.
#[derive(Debug, Default)]
pub struct Mirror {
    znodes: BTreeMap<Arc<str>, Cached>,
}

impl Mirror {
    /// Stores what was read at a path; returns whether that is new.
    pub fn apply(&mut self, path: &Arc<str>, found: Option<(Vec<u8>, Stat)>, walk: Option<u64>) -> bool {
        let Some((data, stat)) = found else { return self.znodes.remove(path).is_some() };
        match self.znodes.get_mut(path) {
            Some(cached) => {
                cached.walk = walk.unwrap_or(cached.walk);
                if cached.stat == stat {
                    return false;
                }
                // The same transaction wrote the same data.
                if (cached.stat.czxid, cached.stat.mzxid) != (stat.czxid, stat.mzxid) {
                    cached.data = data.into();
                }
                cached.stat = stat;
            }
            None => {
                let cached = Cached { data: data.into(), stat, walk: walk.unwrap_or(0) };
                self.znodes.insert(path.clone(), cached);
            }
        }
        true
    }

    /// Data and facts of a znode.
    pub fn get(&self, path: &str) -> Option<(Arc<[u8]>, Stat)> {
        self.znodes.get(path).map(|cached| (cached.data.clone(), cached.stat))
    }

    /// Whether a znode was seen in this walk.
    pub fn walked(&self, path: &str, walk: u64) -> bool {
        self.znodes.get(path).is_some_and(|cached| cached.walk == walk)
    }

    /// The names of the znodes directly below a path, sorted.
    pub fn children(&self, path: &str) -> Vec<String> {
        let prefix = below(path);
        let mut names = Vec::new();
        let mut from = Bound::Excluded(prefix.clone());
        'subtrees: loop {
            let bounds = (from.as_ref().map(String::as_str), Bound::Unbounded);
            for key in self.znodes.range::<str, _>(bounds).map(|(key, _)| key) {
                let Some(rest) = key.strip_prefix(prefix.as_str()) else { return names };
                if let Some((name, _)) = rest.split_once('/') {
                    // Skip all that is below this child: `0` follows `/` in the order of bytes.
                    from = Bound::Included(format!("{prefix}{name}0"));
                    continue 'subtrees;
                }
                names.push(rest.to_owned());
            }
            return names;
        }
    }

    /// How many znodes there are.
    pub fn len(&self) -> usize {
        self.znodes.len()
    }

    /// All paths, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &Arc<str>> {
        self.znodes.keys()
    }
}

/// The prefix of all paths below a path.
pub fn below(path: &str) -> String {
    if path == "/" { path.to_owned() } else { format!("{path}/") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::tests::stat;
    use super::*;

    proptest! {
        #[test]
        fn children_are_those_one_step_below(
            paths in proptest::collection::btree_set("(/[ab0.-]{1,2}){1,4}", 0..30),
            parent in "(/[ab0.-]{1,2}){0,2}",
        ) {
            let mut mirror = Mirror::default();
            for path in &paths {
                mirror.apply(&Arc::from(path.as_str()), Some((Vec::new(), stat(1, 1, 0))), None);
            }
            let expected: BTreeSet<String> = paths
                .iter()
                .filter_map(|path| path.strip_prefix(&format!("{parent}/")))
                .filter(|rest| !rest.contains('/'))
                .map(str::to_owned)
                .collect();
            let parent = if parent.is_empty() { "/" } else { &parent };
            let children = mirror.children(parent);
            prop_assert_eq!(children, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
