//! Opening and ending sessions: transactions like any other.

use hashbrown::HashSet;

use super::path;
use super::prepare::Draft;
use super::sessions::{Password, SessionId};
use super::state::State;
use super::txn::{Change, Outcome, Txn};
use super::znode::Kind;

impl State {
    /// Decides that a session begins.
    pub fn open_session(&mut self, id: SessionId, password: Password, timeout_ms: u32, time_ms: i64) -> Txn {
        self.sessions.announce(id);
        let mut draft = self.draft(time_ms);
        draft.push(Change::OpenSession { id, password, timeout_ms });
        draft.finish(Ok(Outcome::SessionOpened))
    }

    /// Decides that a session gets another time-out. Uses no zxid: to clients this is not a write.
    pub fn renegotiate(&mut self, id: SessionId, timeout_ms: u32) -> Option<Txn> {
        let password = self.sessions.get(id)?.password;
        let change = Change::OpenSession { id, password, timeout_ms };
        let bytes = Txn::EMPTY_BYTES + change.bytes();
        Some(Txn { zxid: self.last_zxid, changes: vec![change], outcome: Outcome::SessionOpened, bytes })
    }

    /// Decides that a session has expired. `None` if its end is decided already.
    pub fn expire_session(&mut self, id: SessionId, time_ms: i64) -> Option<Txn> {
        if !self.sessions.accepts(id) {
            return None;
        }
        let mut draft = self.draft(time_ms);
        let outcome = self.close_session(id, &mut draft);
        Some(draft.finish(Ok(outcome)))
    }

    pub(super) fn close_session(&mut self, id: SessionId, draft: &mut Draft) -> Outcome {
        self.sessions.begin_close(id);
        for path in self.ephemerals_to_be(id) {
            let Some(parent_path) = path::parent(&path).map(str::to_owned) else { continue };
            if let Some(parent) = self.decided(&parent_path) {
                self.remove(path, &parent_path, parent, draft);
            }
        }
        draft.push(Change::CloseSession { id });
        Outcome::SessionClosed
    }

    /// The ephemeral znodes that a session will have when all decisions are durable. Sorted, because decisions must not
    /// depend on the order of a hash table.
    fn ephemerals_to_be(&self, id: SessionId) -> Vec<Box<str>> {
        let mut paths: HashSet<Box<str>> = self.tree.ephemerals(id).map(|znode| znode.path.clone()).collect();
        for (path, znode) in self.pending.iter() {
            if znode.is_some_and(|znode| znode.meta.kind == Kind::Ephemeral(id)) {
                paths.insert(path.into());
            } else {
                paths.remove(path);
            }
        }
        let mut paths: Vec<_> = paths.into_iter().collect();
        paths.sort_unstable();
        paths
    }
}
