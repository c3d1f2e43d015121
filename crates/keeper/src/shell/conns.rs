//! All connections, and what they make us hold together.

use std::net::IpAddr;

use hashbrown::HashMap;
use menagerie_wire::{ErrorCode, Event, Perms, ReplyHeader, event};

use super::conn::{Conn, Flushed, Phase};
use crate::core::acl;
use crate::core::{ConnId, Notice, SessionId};

/// When this much was added to buffers since they were last flushed, sockets are offered it before more is added.
const UNFLUSHED_BYTES_MAX: usize = 16 << 20;

/// The connections.
pub struct Conns {
    by_id: HashMap<ConnId, Conn>,
    per_address: HashMap<IpAddr, usize>,
    /// Those that have something to send.
    dirty: Vec<ConnId>,
    balance: Balance,
}

/// A connection that was offered what it has to send.
#[derive(Debug, Clone, Copy)]
pub struct Offered {
    /// Which one.
    pub id: ConnId,
    /// The session that it serves.
    pub session: Option<SessionId>,
    /// How far that got.
    pub flushed: Flushed,
    /// It was to be closed when everything is out, and it is.
    pub done: bool,
}

/// What is in the buffers of all connections: half frames, requests that wait, replies and notifications that were not sent.
#[derive(Debug, Default)]
struct Balance {
    /// Of so many connections.
    conns: usize,
    held_bytes: usize,
    /// Beyond this, connections that hold more than their share are cut off.
    held_bytes_max: usize,
    /// `held_bytes` when everything was last flushed.
    flushed_bytes: usize,
}

impl Conns {
    /// None yet.
    pub fn new(held_bytes_max: usize) -> Self {
        Self {
            by_id: HashMap::new(),
            per_address: HashMap::new(),
            dirty: Vec::new(),
            balance: Balance { held_bytes_max, ..Balance::default() },
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.by_id.len()
    }

    /// How many come from there.
    pub fn count_from(&self, address: IpAddr) -> usize {
        self.per_address.get(&address).copied().unwrap_or(0)
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Conn> {
        self.by_id.values()
    }

    /// One that is still there.
    pub fn get(&self, id: ConnId) -> Option<&Conn> {
        self.by_id.get(&id)
    }

    /// The same, to change it. What is added to its buffers counts after [`Self::touch`].
    pub fn get_mut(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.by_id.get_mut(&id)
    }

    /// Adds one.
    pub fn insert(&mut self, conn: Conn) {
        *self.per_address.entry(conn.peer.ip()).or_default() += 1;
        self.by_id.insert(conn.id, conn);
        self.balance.conns = self.by_id.len();
    }

    /// Takes one out.
    pub fn remove(&mut self, id: ConnId) -> Option<Conn> {
        let conn = self.by_id.remove(&id)?;
        self.balance.held_bytes -= conn.counted_bytes;
        self.balance.conns = self.by_id.len();
        if let Some(count) = self.per_address.get_mut(&conn.peer.ip()) {
            *count -= 1;
            if *count == 0 {
                self.per_address.remove(&conn.peer.ip());
            }
        }
        Some(conn)
    }

    /// Puts a connection on the list of those that have something to send, and counts what is in its buffers.
    pub fn touch(&mut self, id: ConnId) {
        if let Some(conn) = self.by_id.get_mut(&id) {
            self.balance.count(conn, &mut self.dirty);
            mark_dirty(conn, &mut self.dirty);
        }
    }

    /// Counts what is in the buffers of a connection.
    pub fn recount(&mut self, id: ConnId) {
        if let Some(conn) = self.by_id.get_mut(&id) {
            self.balance.count(conn, &mut self.dirty);
        }
    }

    /// Sends what the next connection that has something to send will take; `None` when there is none left.
    pub fn flush_next(&mut self) -> Option<Offered> {
        loop {
            let id = self.dirty.pop()?;
            let Some(conn) = self.by_id.get_mut(&id) else { continue };
            conn.dirty = false;
            let flushed = conn.flush();
            if flushed != Flushed::Dead {
                self.balance.count(conn, &mut self.dirty);
            }
            let done = conn.phase == Phase::Closing && conn.is_drained() && !conn.has_waiting();
            return Some(Offered { id, session: conn.session, flushed, done });
        }
    }

    /// Whether it is time to offer sockets what was added to buffers.
    pub fn is_swollen(&self) -> bool {
        self.balance.held_bytes > self.balance.flushed_bytes + UNFLUSHED_BYTES_MAX
    }

    /// Everything was offered to sockets.
    pub fn note_flushed(&mut self) {
        self.balance.flushed_bytes = self.balance.held_bytes;
    }

    /// Appends a notification to what its connection is sent.
    pub fn notify(&mut self, notice: &Notice<'_>) {
        let Some(conn) = self.by_id.get_mut(&notice.conn) else { return };
        if let Some(readers) = notice.readers
            && !acl::permits(readers, &conn.ids, Perms::READ)
        {
            return;
        }
        conn.send_event(|out| {
            ReplyHeader { xid: event::EVENT_XID, zxid: notice.zxid, err: ErrorCode::Ok }.encode(out);
            Event { kind: notice.kind, path: notice.path }.encode(out);
        });
        self.balance.count(conn, &mut self.dirty);
        mark_dirty(conn, &mut self.dirty);
    }
}

fn mark_dirty(conn: &mut Conn, dirty: &mut Vec<ConnId>) {
    if !conn.dirty {
        conn.dirty = true;
        dirty.push(conn.id);
    }
}

impl Balance {
    /// Counts what is in the buffers of a connection now. Together with the others it may be too much: then it is the end of
    /// those that hold more than an equal share.
    fn count(&mut self, conn: &mut Conn, dirty: &mut Vec<ConnId>) {
        let held = conn.held_bytes();
        self.held_bytes = self.held_bytes + held - conn.counted_bytes;
        conn.counted_bytes = held;
        if self.held_bytes > self.held_bytes_max && held > self.held_bytes_max / self.conns.max(1) {
            conn.cut_off();
            mark_dirty(conn, dirty);
        }
    }
}
