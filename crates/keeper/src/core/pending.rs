//! What has been decided but is not durable yet, laid over the tree: later writes are judged against it, readers never
//! see it.

use hashbrown::HashMap;

use super::acl::AclRef;
use super::znode::Meta;

/// As much of a znode as judging a write takes.
#[derive(Debug, Clone)]
pub struct View {
    /// Its metadata.
    pub meta: Meta,
    /// Its access list.
    pub acl: AclRef,
    /// How many children it has.
    pub children: i32,
    /// Bytes of data.
    pub data_length: i32,
}

#[derive(Debug, Clone)]
struct Entry {
    /// `None`: deleted.
    view: Option<View>,
    /// The last transaction that decided about it.
    zxid: i64,
}

/// Decided states that are still on their way to disk.
#[derive(Debug, Default)]
pub struct Pending {
    entries: HashMap<Box<str>, Entry>,
    /// What stood there before, while a transaction may still be taken back.
    undo: Option<Vec<(Box<str>, Option<Entry>)>>,
}

impl Pending {
    /// What was decided about `path`: nothing, that it is gone, or its state.
    pub fn get(&self, path: &str) -> Option<Option<&View>> {
        // The common case of a lone writer: nothing pending, nothing hashed.
        if self.entries.is_empty() {
            return None;
        }
        self.entries.get(path).map(|entry| entry.view.as_ref())
    }

    /// Notes a decision of transaction `zxid`.
    pub fn set(&mut self, path: &str, view: Option<View>, zxid: i64) {
        let before = self.entries.insert(path.into(), Entry { view, zxid });
        if let Some(undo) = &mut self.undo {
            undo.push((path.into(), before));
        }
    }

    /// From here on decisions can be taken back together.
    pub fn begin(&mut self) {
        self.undo = Some(Vec::new());
    }

    /// Keeps all decisions since [`Self::begin`].
    pub fn keep(&mut self) {
        self.undo = None;
    }

    /// Takes back all decisions since [`Self::begin`].
    pub fn take_back(&mut self) {
        for (path, before) in self.undo.take().unwrap_or_default().into_iter().rev() {
            match before {
                Some(entry) => self.entries.insert(path, entry),
                None => self.entries.remove(&path),
            };
        }
    }

    /// Transaction `zxid` has been applied: unless something later was decided, the tree says it all.
    pub fn settle(&mut self, path: &str, zxid: i64) {
        if self.entries.get(path).is_some_and(|entry| entry.zxid <= zxid) {
            self.entries.remove(path);
        }
    }

    /// All decisions, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&View>)> {
        self.entries.iter().map(|(path, entry)| (&**path, entry.view.as_ref()))
    }

    /// Whether nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
