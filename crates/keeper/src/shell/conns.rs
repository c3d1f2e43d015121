//! All connections, and the budget for the memory of their buffers.

use std::net::IpAddr;

use hashbrown::HashMap;
use menagerie_wire::{ErrorCode, Event, Perms, ReplyHeader, event};

use super::conn::{Conn, Flushed, Phase};
use crate::core::acl;
use crate::core::{ConnId, Notice, SessionId};

/// Once this much has been added to buffers since the last flush, they are flushed before more is added.
const UNFLUSHED_BYTES_MAX: usize = 16 << 20;

/// The connections.
pub struct Conns {
    by_id: HashMap<ConnId, Conn>,
    per_address: HashMap<IpAddr, usize>,
    /// Those that have something to send.
    dirty: Vec<ConnId>,
    budget: BufferBudget,
}

/// The outcome of flushing one connection.
#[derive(Debug, Clone, Copy)]
pub struct FlushReport {
    /// The connection.
    pub id: ConnId,
    /// The session that it serves.
    pub session: Option<SessionId>,
    /// How much the socket took.
    pub flushed: Flushed,
    /// The connection is closing, and its last reply is out.
    pub done: bool,
}

/// Bytes in the buffers of all connections: incomplete frames, waiting requests, unsent replies and notifications.
#[derive(Debug, Default)]
struct BufferBudget {
    /// How many connections share it.
    conns: usize,
    held_bytes: usize,
    /// Above this, connections that hold more than an equal share are cut off.
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
            budget: BufferBudget { held_bytes_max, ..BufferBudget::default() },
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.by_id.len()
    }

    /// How many come from this address.
    pub fn count_from(&self, address: IpAddr) -> usize {
        self.per_address.get(&address).copied().unwrap_or(0)
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Conn> {
        self.by_id.values()
    }

    /// A connection, if it still exists.
    pub fn get(&self, id: ConnId) -> Option<&Conn> {
        self.by_id.get(&id)
    }

    /// The same, to change it. Call [`Self::touch`] or [`Self::recount`] after adding to its buffers.
    pub fn get_mut(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.by_id.get_mut(&id)
    }

    /// Adds one.
    pub fn insert(&mut self, conn: Conn) {
        *self.per_address.entry(conn.peer.ip()).or_default() += 1;
        self.by_id.insert(conn.id, conn);
        self.budget.conns = self.by_id.len();
    }

    /// Takes one out.
    pub fn remove(&mut self, id: ConnId) -> Option<Conn> {
        let conn = self.by_id.remove(&id)?;
        self.budget.held_bytes -= conn.counted_bytes;
        self.budget.conns = self.by_id.len();
        if let Some(count) = self.per_address.get_mut(&conn.peer.ip()) {
            *count -= 1;
            if *count == 0 {
                self.per_address.remove(&conn.peer.ip());
            }
        }
        Some(conn)
    }

    /// Puts a connection on the list of those that have something to send, and updates the budget.
    pub fn touch(&mut self, id: ConnId) {
        if let Some(conn) = self.by_id.get_mut(&id) {
            self.budget.count(conn, &mut self.dirty);
            mark_dirty(conn, &mut self.dirty);
        }
    }

    /// Updates the budget after a connection's buffers have changed.
    pub fn recount(&mut self, id: ConnId) {
        if let Some(conn) = self.by_id.get_mut(&id) {
            self.budget.count(conn, &mut self.dirty);
        }
    }

    /// Flushes the next connection that has something to send; `None` when there is none left.
    pub fn flush_next(&mut self) -> Option<FlushReport> {
        loop {
            let id = self.dirty.pop()?;
            let Some(conn) = self.by_id.get_mut(&id) else { continue };
            conn.dirty = false;
            let flushed = conn.flush();
            if flushed != Flushed::Dead {
                self.budget.count(conn, &mut self.dirty);
            }
            let done = conn.phase == Phase::Closing && conn.is_drained() && !conn.has_waiting();
            return Some(FlushReport { id, session: conn.session, flushed, done });
        }
    }

    /// Whether so much was added to buffers that they should be flushed now.
    pub fn is_flush_due(&self) -> bool {
        self.budget.held_bytes > self.budget.flushed_bytes + UNFLUSHED_BYTES_MAX
    }

    /// Records that all buffers have just been flushed.
    pub fn note_flushed(&mut self) {
        self.budget.flushed_bytes = self.budget.held_bytes;
    }

    /// Appends a notification to its connection's output.
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
        self.budget.count(conn, &mut self.dirty);
        mark_dirty(conn, &mut self.dirty);
    }
}

fn mark_dirty(conn: &mut Conn, dirty: &mut Vec<ConnId>) {
    if !conn.dirty {
        conn.dirty = true;
        dirty.push(conn.id);
    }
}

impl BufferBudget {
    /// Updates the sum with the connection's current buffers. If the sum is too large, cuts off the connection if it
    /// holds more than an equal share: clients that hold little do not pay for those that hold much.
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
