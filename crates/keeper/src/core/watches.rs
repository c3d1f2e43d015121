//! Watches: which connection watches which path.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use menagerie_wire::{ErrorCode, EventKind, WatchMode, WatcherKind};

use super::limits::Limits;
use super::path;
use super::state::ConnId;

/// The watches of one connection on one path, as a set of kinds: setting one twice changes nothing, and different kinds
/// coexist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Kinds(u8);

impl Kinds {
    const DATA: Self = Self(1);
    const CHILD: Self = Self(2);
    const PERSISTENT: Self = Self(4);
    const RECURSIVE: Self = Self(8);
    const ALL: Self = Self(15);

    fn of(kind: WatcherKind) -> Self {
        match kind {
            WatcherKind::Data => Self::DATA,
            WatcherKind::Children => Self::CHILD,
            WatcherKind::Any => Self::ALL,
            WatcherKind::Persistent => Self::PERSISTENT,
            WatcherKind::PersistentRecursive => Self::RECURSIVE,
        }
    }

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// Approximate memory of a watch besides its path: entries in two hash tables, and the table of the path's watchers.
pub const WATCH_BYTES: usize = 256;

/// All watches of all connections.
#[derive(Debug)]
pub struct Watches {
    by_path: HashMap<Arc<str>, HashMap<ConnId, Kinds>>,
    by_conn: HashMap<ConnId, Own>,
    /// Number of recursive watches: with none, ancestors need not be checked.
    recursive: usize,
    /// Bytes of all watches.
    bytes: usize,
    limits: Limits,
}

/// The watches of one connection.
#[derive(Debug, Default)]
struct Own {
    paths: HashSet<Arc<str>>,
    bytes: usize,
}

/// There is no room for another watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl From<Full> for ErrorCode {
    fn from(_: Full) -> Self {
        Self::QuotaExceeded
    }
}

fn cost(path: &str) -> usize {
    path.len() + WATCH_BYTES
}

impl Watches {
    /// No watches yet, with these limits.
    pub fn new(limits: Limits) -> Self {
        Self { by_path: HashMap::new(), by_conn: HashMap::new(), recursive: 0, bytes: 0, limits }
    }

    /// A one-shot watch on existence and data.
    pub fn watch_data(&mut self, path: &str, conn: ConnId) -> Result<(), Full> {
        self.add(path, conn, Kinds::DATA)
    }

    /// A one-shot watch on the set of children.
    pub fn watch_children(&mut self, path: &str, conn: ConnId) -> Result<(), Full> {
        self.add(path, conn, Kinds::CHILD)
    }

    /// A persistent watch.
    pub fn watch_always(&mut self, path: &str, conn: ConnId, mode: WatchMode) -> Result<(), Full> {
        self.add(
            path,
            conn,
            match mode {
                WatchMode::Persistent => Kinds::PERSISTENT,
                WatchMode::PersistentRecursive => Kinds::RECURSIVE,
            },
        )
    }

    fn add(&mut self, path: &str, conn: ConnId, kinds: Kinds) -> Result<(), Full> {
        let here = match self.by_path.get_mut(path).and_then(|conns| conns.get_mut(&conn)) {
            Some(here) => here,
            None => self.add_pair(path, conn)?,
        };
        let is_recursive = kinds.has(Kinds::RECURSIVE) && !here.has(Kinds::RECURSIVE);
        *here = here.with(kinds);
        self.recursive += usize::from(is_recursive);
        Ok(())
    }

    /// Adds a path that the connection does not watch yet.
    fn add_pair(&mut self, path: &str, conn: ConnId) -> Result<&mut Kinds, Full> {
        let cost = cost(path);
        let own = self.by_conn.get(&conn).map_or(0, |own| own.bytes);
        if own + cost > self.limits.watch_bytes_per_connection || self.bytes + cost > self.limits.watch_bytes
        {
            return Err(Full);
        }
        self.bytes += cost;
        // All indexes and connections share one copy of the path.
        let path: Arc<str> = match self.by_path.get_key_value(path) {
            Some((known, _)) => known.clone(),
            None => path.into(),
        };
        let own = self.by_conn.entry(conn).or_default();
        own.bytes += cost;
        own.paths.insert(path.clone());
        Ok(self.by_path.entry(path).or_default().entry(conn).or_default())
    }

    /// Whether the connection has such a watch.
    pub fn has(&self, path: &str, conn: ConnId, kind: WatcherKind) -> bool {
        self.by_path
            .get(path)
            .and_then(|conns| conns.get(&conn))
            .is_some_and(|kinds| kinds.has(Kinds::of(kind)))
    }

    /// Removes such watches; returns whether there was one.
    pub fn remove(&mut self, path: &str, conn: ConnId, kind: WatcherKind) -> bool {
        let had = self.has(path, conn, kind);
        if had {
            self.clear(path, conn, Kinds::of(kind));
        }
        had
    }

    fn clear(&mut self, path: &str, conn: ConnId, kinds: Kinds) {
        let Some(conns) = self.by_path.get_mut(path) else { return };
        let Some(here) = conns.get_mut(&conn) else { return };
        if here.has(Kinds::RECURSIVE) && kinds.has(Kinds::RECURSIVE) {
            self.recursive -= 1;
        }
        *here = here.without(kinds);
        if *here != Kinds::default() {
            return;
        }
        conns.remove(&conn);
        if conns.is_empty() {
            self.by_path.remove(path);
        }
        self.bytes -= cost(path);
        if let Some(own) = self.by_conn.get_mut(&conn) {
            own.paths.remove(path);
            own.bytes -= cost(path);
            if own.paths.is_empty() {
                self.by_conn.remove(&conn);
            }
        }
    }

    /// Removes all watches of a connection.
    pub fn drop_conn(&mut self, conn: ConnId) {
        let own = self.by_conn.remove(&conn).unwrap_or_default();
        self.bytes -= own.bytes;
        for path in own.paths {
            if let Some(conns) = self.by_path.get_mut(&path) {
                if conns.remove(&conn).is_some_and(|kinds| kinds.has(Kinds::RECURSIVE)) {
                    self.recursive -= 1;
                }
                if conns.is_empty() {
                    self.by_path.remove(&path);
                }
            }
        }
    }

    /// Calls `notify` once for each connection that watches this event. Removes one-shot watches that fired.
    pub fn fire(&mut self, kind: EventKind, at: &str, mut notify: impl FnMut(ConnId)) {
        let (wanted, used_up) = match kind {
            EventKind::Created | EventKind::DataChanged => {
                (Kinds::DATA.with(Kinds::PERSISTENT).with(Kinds::RECURSIVE), Kinds::DATA)
            }
            EventKind::Deleted => (Kinds::ALL, Kinds::DATA.with(Kinds::CHILD)),
            // Recursive watches report each child by its own event.
            EventKind::ChildrenChanged => (Kinds::CHILD.with(Kinds::PERSISTENT), Kinds::CHILD),
        };
        let mut told = HashSet::new();
        let mut used = Vec::new();
        for (conn, kinds) in self.by_path.get(at).into_iter().flatten() {
            if kinds.has(wanted) {
                told.insert(*conn);
                notify(*conn);
            }
            if kinds.has(used_up) {
                used.push(*conn);
            }
        }
        if self.recursive > 0 && kind != EventKind::ChildrenChanged {
            for above in path::ancestry(at).skip(1) {
                for (conn, kinds) in self.by_path.get(above).into_iter().flatten() {
                    if kinds.has(Kinds::RECURSIVE) && told.insert(*conn) {
                        notify(*conn);
                    }
                }
            }
        }
        for conn in used {
            self.clear(at, conn, used_up);
        }
    }

    /// How many (connection, path) pairs are watched.
    pub fn len(&self) -> usize {
        self.by_conn.values().map(|own| own.paths.len()).sum()
    }

    /// Whether nothing is watched.
    pub fn is_empty(&self) -> bool {
        self.by_conn.is_empty()
    }

    /// How many connections watch something, and how many paths are watched.
    pub fn spread(&self) -> (usize, usize) {
        (self.by_conn.len(), self.by_path.len())
    }

    /// Every connection with the paths that it watches.
    pub fn by_connection(&self) -> impl Iterator<Item = (ConnId, impl Iterator<Item = &str>)> {
        self.by_conn.iter().map(|(conn, own)| (*conn, own.paths.iter().map(|path| &**path)))
    }

    /// Whether both indexes agree, and everything is within the limits.
    pub(super) fn is_coherent(&self) -> bool {
        let pairs: usize = self.by_path.values().map(HashMap::len).sum();
        let recursive =
            self.by_path.values().flat_map(HashMap::values).filter(|k| k.has(Kinds::RECURSIVE)).count();
        let is_sound = |conn: &ConnId, own: &Own| {
            own.bytes == own.paths.iter().map(|path| cost(path)).sum::<usize>()
                && own.bytes <= self.limits.watch_bytes_per_connection
                && own
                    .paths
                    .iter()
                    .all(|path| self.by_path.get(path).is_some_and(|conns| conns.contains_key(conn)))
        };
        pairs == self.len()
            && recursive == self.recursive
            && self.bytes == self.by_conn.values().map(|own| own.bytes).sum::<usize>()
            && self.bytes <= self.limits.watch_bytes
            && self.by_conn.iter().all(|(conn, own)| is_sound(conn, own))
    }
}
