//! All znodes, in memory: a slab of znodes and one hash index by full path. Children are intrusive lists through the
//! slab, so a znode costs no allocation besides its path and its data.

use hashbrown::{DefaultHashBuilder, HashMap, HashSet, HashTable};
use std::hash::BuildHasher;

use super::path;
use super::sessions::SessionId;
use super::txn::Change;
use super::znode::{Kind, NIL, Znode};

/// The slot of a znode; stable as long as the znode exists.
pub type Slot = u32;

/// The tree of znodes.
#[derive(Debug, Default)]
pub struct Tree {
    slots: Vec<Option<Znode>>,
    free: Vec<Slot>,
    index: HashTable<Slot>,
    hasher: DefaultHashBuilder,
    /// Bytes of paths and data, for `mntr` and metrics.
    bytes: u64,
    ephemerals: HashMap<SessionId, Ephemerals>,
    /// Containers and znodes with a time to live, for the sweep.
    mortal: HashSet<Slot>,
}

/// The ephemeral znodes of one session.
#[derive(Debug, Default)]
struct Ephemerals {
    slots: HashSet<Slot>,
    /// Bytes of their deletions.
    bytes: u64,
}

impl Tree {
    /// The slot of the znode at `path`.
    pub fn slot(&self, path: &str) -> Option<Slot> {
        self.index.find(self.hasher.hash_one(path), |&slot| &*self.at(slot).path == path).copied()
    }

    /// The znode at `path`.
    pub fn get(&self, path: &str) -> Option<&Znode> {
        self.slot(path).map(|slot| self.at(slot))
    }

    /// The znode in a slot that is known to be taken.
    pub fn at(&self, slot: Slot) -> &Znode {
        self.slots[slot as usize].as_ref().expect("the index and the links point at taken slots only")
    }

    /// The same, to change it. Its path and its links stay as they are; its kind changes only through [`Self::put`].
    pub fn at_mut(&mut self, slot: Slot) -> &mut Znode {
        self.slots[slot as usize].as_mut().expect("the index and the links point at taken slots only")
    }

    /// How many znodes there are.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there is none at all.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Bytes of paths and data.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many slots have ever been used: the range that a walk over all slots covers.
    pub fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// The znode in that slot, if it is taken. Walking slots visits each znode that exists throughout exactly once,
    /// whatever is created and deleted meanwhile; snapshots rely on it.
    pub fn peek(&self, slot: usize) -> Option<&Znode> {
        self.slots.get(slot)?.as_ref()
    }

    /// Every znode, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Znode> {
        self.slots.iter().flatten()
    }

    /// Stores a znode at its path, replacing an existing one, whose children stay. Links it below its parent if the
    /// parent exists.
    pub fn put(&mut self, znode: Znode) -> Slot {
        self.bytes += size(&znode);
        if let Some(slot) = self.slot(&znode.path) {
            self.forget_kind(slot);
            self.bytes -= size(self.at(slot));
            let old = self.at_mut(slot);
            old.data = znode.data;
            old.acl = znode.acl;
            old.meta = znode.meta;
            self.note_kind(slot);
            // While a snapshot is replayed, a znode may come before its parent.
            self.link(slot);
            return slot;
        }
        let hash = self.hasher.hash_one(&*znode.path);
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(znode);
                slot
            }
            None => {
                self.slots.push(Some(znode));
                Slot::try_from(self.slots.len() - 1).expect("fewer than 2^32 znodes fit into memory")
            }
        };
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.index.insert_unique(hash, slot, |&slot| {
            hasher.hash_one(slots[slot as usize].as_ref().map_or("", |znode| &*znode.path))
        });
        self.note_kind(slot);
        self.link(slot);
        slot
    }

    /// Links a znode below its parent, if it is not linked yet and the parent exists.
    pub fn link(&mut self, slot: Slot) {
        if self.at(slot).parent != NIL {
            return;
        }
        let Some(parent) = path::parent(&self.at(slot).path).and_then(|parent| self.slot(parent)) else {
            return;
        };
        let first = self.at(parent).first_child;
        let (next, prev) = if first == NIL { (slot, slot) } else { (first, self.at(first).prev) };
        let child = self.at_mut(slot);
        (child.parent, child.next, child.prev) = (parent, next, prev);
        if first == NIL {
            self.at_mut(parent).first_child = slot;
        } else {
            self.at_mut(prev).next = slot;
            self.at_mut(first).prev = slot;
        }
        self.at_mut(parent).children += 1;
    }

    /// Takes a znode out of the tree. It must have no children.
    pub fn remove(&mut self, slot: Slot) -> Znode {
        debug_assert_eq!(self.at(slot).first_child, NIL, "children go first");
        self.unlink(slot);
        self.forget_kind(slot);
        let hash = self.hasher.hash_one(&*self.at(slot).path);
        if let Ok(entry) = self.index.find_entry(hash, |&other| other == slot) {
            entry.remove();
        }
        self.free.push(slot);
        let znode = self.slots[slot as usize].take().expect("the caller found it there");
        self.bytes -= size(&znode);
        znode
    }

    fn unlink(&mut self, slot: Slot) {
        let Znode { parent, next, prev, .. } = *self.at(slot);
        if parent == NIL {
            return;
        }
        if next == slot {
            self.at_mut(parent).first_child = NIL;
        } else {
            self.at_mut(prev).next = next;
            self.at_mut(next).prev = prev;
            if self.at(parent).first_child == slot {
                self.at_mut(parent).first_child = next;
            }
        }
        self.at_mut(parent).children -= 1;
    }

    /// Replaces the data of a znode.
    pub fn set_data(&mut self, slot: Slot, data: Option<Box<[u8]>>) {
        let znode = self.at_mut(slot);
        let before = size(znode);
        znode.data = data;
        let after = size(znode);
        self.bytes = self.bytes - before + after;
    }

    /// The slots of a znode's children, oldest first.
    pub fn children(&self, slot: Slot) -> impl Iterator<Item = Slot> {
        let first = self.at(slot).first_child;
        let mut at = first;
        std::iter::from_fn(move || {
            if at == NIL {
                return None;
            }
            let child = at;
            at = self.at(child).next;
            if at == first {
                at = NIL;
            }
            Some(child)
        })
    }

    /// Everything below a znode, itself excluded, parents before their children.
    pub fn descendants(&self, slot: Slot) -> Vec<Slot> {
        let mut found: Vec<Slot> = self.children(slot).collect();
        let mut at = 0;
        while at < found.len() {
            found.extend(self.children(found[at]));
            at += 1;
        }
        found
    }

    /// The ephemeral znodes of a session.
    pub fn ephemerals(&self, session: SessionId) -> impl Iterator<Item = &Znode> {
        self.ephemerals.get(&session).into_iter().flat_map(|own| &own.slots).map(|&slot| self.at(slot))
    }

    /// Bytes of the transaction that deletes a session's ephemeral znodes.
    pub fn ephemeral_bytes(&self, session: SessionId) -> u64 {
        self.ephemerals.get(&session).map_or(0, |own| own.bytes)
    }

    /// Every session that has ephemeral znodes.
    pub fn ephemeral_owners(&self) -> impl Iterator<Item = SessionId> {
        self.ephemerals.keys().copied()
    }

    /// How many ephemeral znodes there are.
    pub fn ephemeral_count(&self) -> usize {
        self.ephemerals.values().map(|own| own.slots.len()).sum()
    }

    /// Containers and znodes with a time to live.
    pub fn mortal(&self) -> impl Iterator<Item = &Znode> {
        self.mortal.iter().map(|&slot| self.at(slot))
    }

    fn note_kind(&mut self, slot: Slot) {
        match self.at(slot).meta.kind {
            Kind::Persistent => {}
            Kind::Ephemeral(session) => {
                let bytes = Change::delete_bytes(&self.at(slot).path) as u64;
                let own = self.ephemerals.entry(session).or_default();
                if own.slots.insert(slot) {
                    own.bytes += bytes;
                }
            }
            Kind::Container | Kind::Ttl(_) => {
                self.mortal.insert(slot);
            }
        }
    }

    fn forget_kind(&mut self, slot: Slot) {
        match self.at(slot).meta.kind {
            Kind::Persistent => {}
            Kind::Ephemeral(session) => {
                let bytes = Change::delete_bytes(&self.at(slot).path) as u64;
                if let Some(own) = self.ephemerals.get_mut(&session) {
                    if own.slots.remove(&slot) {
                        own.bytes -= bytes;
                    }
                    if own.slots.is_empty() {
                        self.ephemerals.remove(&session);
                    }
                }
            }
            Kind::Container | Kind::Ttl(_) => {
                self.mortal.remove(&slot);
            }
        }
    }
}

fn size(znode: &Znode) -> u64 {
    (znode.path.len() + znode.data.as_ref().map_or(0, |data| data.len())) as u64
}
