//! Decisions that are not durable yet, as an overlay on the tree: later writes are judged against it, readers never see
//! it.

use hashbrown::HashMap;

use super::acl::AclRef;
use super::znode::Meta;

/// A znode as decided: as much of it as judging a write takes.
#[derive(Debug, Clone)]
pub struct DecidedZnode {
    /// Its metadata.
    pub meta: Meta,
    /// Its access list.
    pub acl: AclRef,
    /// Number of children.
    pub children: i32,
    /// Bytes of data.
    pub data_length: i32,
}

#[derive(Debug, Clone)]
struct Decision {
    /// `None`: deleted.
    znode: Option<DecidedZnode>,
    /// The last transaction that decided about it.
    zxid: i64,
}

/// Decided states that are not durable yet.
#[derive(Debug, Default)]
pub struct Pending {
    decisions: HashMap<Box<str>, Decision>,
    /// The previous decisions, while a transaction may still be rolled back.
    undo: Option<Vec<(Box<str>, Option<Decision>)>>,
}

impl Pending {
    /// The decision about `path`, if any: that it is deleted, or its state.
    pub fn get(&self, path: &str) -> Option<Option<&DecidedZnode>> {
        // The common case of a lone writer: nothing pending, nothing hashed.
        if self.decisions.is_empty() {
            return None;
        }
        self.decisions.get(path).map(|decision| decision.znode.as_ref())
    }

    /// Records a decision of transaction `zxid`.
    pub fn set(&mut self, path: &str, znode: Option<DecidedZnode>, zxid: i64) {
        let before = self.decisions.insert(path.into(), Decision { znode, zxid });
        if let Some(undo) = &mut self.undo {
            undo.push((path.into(), before));
        }
    }

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
        for (path, before) in self.undo.take().unwrap_or_default().into_iter().rev() {
            match before {
                Some(decision) => self.decisions.insert(path, decision),
                None => self.decisions.remove(&path),
            };
        }
    }

    /// Transaction `zxid` has been applied: drops its decision, unless a later one was made.
    pub fn settle(&mut self, path: &str, zxid: i64) {
        if self.decisions.get(path).is_some_and(|decision| decision.zxid <= zxid) {
            self.decisions.remove(path);
        }
    }

    /// All decisions, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&DecidedZnode>)> {
        self.decisions.iter().map(|(path, decision)| (&**path, decision.znode.as_ref()))
    }

    /// Whether no decision is in flight.
    pub fn is_empty(&self) -> bool {
        self.decisions.is_empty()
    }
}
