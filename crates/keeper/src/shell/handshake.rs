//! The first frame of a connection: a new session, an old one to resume, or a refusal.

use std::time::Instant;

use menagerie_wire::{ConnectRequest, ConnectResponse, OpCode, framed};
use tracing::debug;

use super::conn::{Phase, Waiting};
use super::server::{Origin, Server, wall_ms};
use crate::core::{ConnId, SessionId};

impl Server {
    /// Handles the connect request. `false`: close the connection without an answer.
    pub(super) fn greet(&mut self, id: ConnId, frame: &[u8], arrived: Instant) -> bool {
        let Ok(request) = ConnectRequest::decode(frame) else { return false };
        if request.last_zxid_seen > self.state.applied_zxid() {
            // The client has seen a newer state than ours: the data was wiped or rolled back. It must not be served.
            debug!(
                client = format_args!("{:#x}", request.last_zxid_seen),
                ours = format_args!("{:#x}", self.state.applied_zxid()),
                "client refused: it has seen a newer zxid than this server has"
            );
            return false;
        }
        let Some(conn) = self.conn(id) else { return false };
        conn.read_only = request.read_only.map(|_| false);
        if let Some(identity) = conn.stream.certificate_identity() {
            conn.prove(identity);
        }
        if request.session_id == 0 {
            if self.state.sessions.len_with_opening() >= self.state.options.limits.sessions {
                debug!("client refused: too many sessions");
                self.metrics.connections_refused.inc();
                return false;
            }
            self.open(id, request.timeout_ms, arrived);
        } else {
            self.resume(id, &request, arrived);
        }
        true
    }

    fn open(&mut self, id: ConnId, wanted_ms: i32, arrived: Instant) {
        let timeout_ms = self.config.grant_timeout_ms(wanted_ms);
        let time_ms = wall_ms();
        let session = self.state.new_session_id(time_ms);
        let mut password = [0; 16];
        getrandom::fill(&mut password).expect("the operating system has random numbers");
        let txn = self.state.open_session(session, password, timeout_ms, time_ms);
        if let Some(conn) = self.conn(id) {
            conn.phase = Phase::Opening;
            conn.session = Some(session);
            conn.wait(Waiting::Txn);
        }
        let origin = Origin { conn: id, xid: 0, op: OpCode::CreateSession, arrived };
        self.commit(txn, Some(origin));
    }

    fn resume(&mut self, id: ConnId, request: &ConnectRequest<'_>, arrived: Instant) {
        let session_id = SessionId(request.session_id);
        let timeout_ms = self.config.grant_timeout_ms(request.timeout_ms);
        let now = self.now();
        let known = self.state.sessions.get_mut(session_id);
        let known = known.filter(|session| same(&session.password, request.password));
        let closing = known.as_ref().is_some_and(|session| session.closing);
        let Some(session) = known.filter(|_| !closing) else {
            debug!(
                session = format_args!("{session_id:x?}"),
                "session refused: unknown, ended, or wrong password"
            );
            if closing {
                // The end of the session is not durable yet, so a crash could still undo it.
                self.wait_for_earlier_writes(id, arrived);
            }
            self.refuse(id);
            return;
        };
        let before = session.conn.replace(id);
        let same_timeout = session.timeout_ms == timeout_ms;
        self.state.sessions.reschedule(session_id, now);
        if let Some(before) = before {
            self.close(before);
        }
        let Some(conn) = self.conn(id) else { return };
        conn.session = Some(session_id);
        if same_timeout {
            // Writes from the session's old connection may still be in flight. Like the reference, answer the handshake
            // at once and everything else after them.
            self.welcome(id, session_id);
            self.wait_for_earlier_writes(id, arrived);
            return;
        }
        // The answer must also hold after a crash, so it is sent once the change is durable.
        conn.phase = Phase::Opening;
        conn.wait(Waiting::Txn);
        let origin = Origin { conn: id, xid: 0, op: OpCode::CreateSession, arrived };
        if let Some(txn) = self.state.renegotiate(session_id, timeout_ms) {
            self.commit(txn, Some(origin));
        }
    }

    /// Holds back all further answers on this connection until all decisions so far are durable: a client must not read
    /// a state without its own earlier write and then see that write happen.
    fn wait_for_earlier_writes(&mut self, id: ConnId, arrived: Instant) {
        if !self.is_idle() {
            let origin = Origin { conn: id, xid: 0, op: OpCode::CreateSession, arrived };
            self.place_barrier(origin, None);
        }
    }

    /// Answers that the session is gone. Never with a new one instead: the client must learn that its ephemeral znodes
    /// are gone, too.
    fn refuse(&mut self, id: ConnId) {
        if let Some(conn) = self.conn(id) {
            let response = ConnectResponse::refusal(conn.read_only);
            let mut frame = Vec::with_capacity(48);
            framed(&mut frame, |out| response.encode(out));
            conn.reply_in_turn(frame);
        }
        self.close_gently(id);
    }

    /// Answers that the session is open. Called when the session is durable.
    pub(super) fn welcome(&mut self, id: ConnId, session_id: SessionId) {
        let Some(session) = self.state.sessions.get_mut(session_id) else { return };
        session.conn = Some(id);
        let (password, timeout_ms) = (session.password, session.timeout_ms);
        let Some(conn) = self.conn(id) else { return };
        // Requests sent along with the handshake may have ended it already.
        if conn.phase != Phase::Closing {
            conn.phase = Phase::Open;
        }
        let response = ConnectResponse {
            timeout_ms: timeout_ms.cast_signed(),
            session_id: session_id.0,
            password: &password,
            read_only: conn.read_only,
        };
        let mut frame = Vec::with_capacity(48);
        framed(&mut frame, |out| response.encode(out));
        conn.send_raw(&frame);
        self.touch(id);
    }
}

/// Constant-time comparison.
fn same(ours: &[u8; 16], theirs: &[u8]) -> bool {
    theirs.len() == ours.len() && ours.iter().zip(theirs).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}
