//! Handles each frame of a client.

use std::time::Instant;

use menagerie_wire::request::xid;
use menagerie_wire::{ErrorCode, OpCode, Reader, ReplyHeader, Request, RequestHeader, framed};

use super::conn::{Phase, Waiting};
use super::conns::Conns;
use super::server::{Origin, Server, wall_ms};
use crate::core::acl;
use crate::core::prepare::is_write;
use crate::core::state::State;
use crate::core::{Caller, ConnId, SessionId};

/// What to do with the connection after a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Go on.
    Continue,
    /// Close it at once.
    Close,
}

impl Server {
    /// Handles one frame of a connection.
    pub fn receive(&mut self, id: ConnId, frame: &[u8], arrived: Instant) -> Next {
        let now = self.now();
        let Some(conn) = self.conn(id) else { return Next::Close };
        conn.received += 1;
        let phase = conn.phase;
        if let Some(session) = conn.session {
            self.state.sessions.touch(session, now);
        }
        self.metrics.packets_received.inc();
        match phase {
            Phase::Greeting if self.greet(id, frame, arrived) => Next::Continue,
            Phase::Greeting => Next::Close,
            Phase::Opening | Phase::Open => self.accept(id, frame, arrived),
            // The session's end is in flight; requests after it are not answered.
            Phase::Closing => Next::Continue,
        }
    }

    /// Accepts a request: decides writes at once, and answers everything else once all before it is answered.
    fn accept(&mut self, id: ConnId, frame: &[u8], arrived: Instant) -> Next {
        let mut reader = Reader::new(frame);
        let Ok(header) = RequestHeader::decode(&mut reader) else { return Next::Close };
        let op = OpCode::from_code(header.op).filter(|op| *op != OpCode::CreateSession);
        let decoded = op.map(|op| (op, Request::decode(op, &mut reader)));
        match &decoded {
            Some((_, Ok(Request::Auth { scheme, credentials }))) => {
                self.authenticate(id, header.xid, scheme, credentials);
                return Next::Continue;
            }
            // Malformed credentials end the connection, as in the reference.
            Some((OpCode::Auth | OpCode::Sasl, Err(_))) => return Next::Close,
            // A malformed reconfiguration is refused before it counts as a write, as in the reference.
            Some((OpCode::Reconfig, Err(_))) => {}
            Some((op, request)) if is_write(*op) => {
                self.decide(id, header.xid, *op, request.as_ref().ok(), arrived);
                return Next::Continue;
            }
            Some((OpCode::Sync, Ok(_))) if !self.is_idle() => {
                let origin = Origin { conn: id, xid: header.xid, op: OpCode::Sync, arrived };
                self.place_barrier(origin, Some(frame.to_vec()));
                return Next::Continue;
            }
            _ => {}
        }
        if self.conn(id).is_some_and(|conn| conn.has_waiting()) {
            let (state, conns) = self.split();
            let Some(conn) = conns.get_mut(id) else { return Next::Close };
            let answer = match (&decoded, conn.session) {
                (Some((_, Ok(request))), Some(session)) => {
                    state.answer_bytes(Caller { session, ids: &conn.ids }, request)
                }
                _ => 0,
            };
            conn.wait(Waiting::Frame(frame.to_vec(), answer));
        } else {
            self.answer(id, frame, arrived);
        }
        Next::Continue
    }

    /// Decides a write (`None`: one that could not be decoded) and adds it to the group.
    fn decide(&mut self, id: ConnId, xid: i32, op: OpCode, request: Option<&Request<'_>>, arrived: Instant) {
        let time_ms = wall_ms();
        let (state, conns) = self.split();
        let Some(conn) = conns.get_mut(id) else { return };
        let txn = match (request, conn.session) {
            (Some(request), Some(session)) => {
                state.prepare(Caller { session, ids: &conn.ids }, request, time_ms)
            }
            _ => state.refuse(ErrorCode::Marshalling, time_ms),
        };
        conn.wait(Waiting::Txn);
        if op == OpCode::CloseSession {
            conn.phase = Phase::Closing;
        }
        self.commit(txn, Some(Origin { conn: id, xid, op, arrived }));
    }

    fn authenticate(&mut self, id: ConnId, xid: i32, scheme: &str, credentials: &[u8]) {
        let superuser = self.state.options.superuser_digest.clone();
        let Some(conn) = self.conn(id) else { return };
        let proved = acl::authenticate(scheme, credentials, &conn.ids[0], superuser.as_deref());
        let accepted =
            proved.is_some_and(|identities| identities.into_iter().all(|identity| conn.prove(identity)));
        let err = if accepted { ErrorCode::Ok } else { ErrorCode::AuthFailed };
        let mut reply = Vec::new();
        framed(&mut reply, |out| ReplyHeader { xid, zxid: 0, err }.encode(out));
        conn.reply_in_turn(reply);
        self.touch(id);
        if !accepted {
            self.close_gently(id);
        }
    }

    /// Answers a request that is not a write; everything before it has been answered.
    pub(super) fn answer(&mut self, id: ConnId, frame: &[u8], arrived: Instant) {
        let mut reader = Reader::new(frame);
        let Ok(header) = RequestHeader::decode(&mut reader) else { return };
        let zxid = self.state.applied_zxid();
        let op = OpCode::from_code(header.op).filter(|op| *op != OpCode::CreateSession);
        let Some(op) = op else {
            if let Some(conn) = self.conn(id) {
                conn.send_header(header.xid, -1, ErrorCode::Unimplemented);
            }
            self.close_gently(id);
            return;
        };
        let request = Request::decode(op, &mut reader);
        let (state, conns) = self.split();
        let Some(session) = conns.get(id).and_then(|conn| conn.session) else { return };
        let code =
            respond(state, conns, RequestContext { id, session, header, op, zxid }, request.as_ref().ok());
        self.metrics.observe(op, arrived);
        self.touch(id);
        if code == ErrorCode::QuotaExceeded && matches!(op, OpCode::SetWatches | OpCode::SetWatches2) {
            // Clients ignore the code of this reply and would wait for events that never come.
            self.close_gently(id);
        }
    }
}

struct RequestContext {
    id: ConnId,
    session: SessionId,
    header: RequestHeader,
    op: OpCode,
    zxid: i64,
}

/// Sends the answer to `request` (`None`: it could not be decoded), after notifications that are due before it. Returns
/// its code.
fn respond(
    state: &mut State,
    conns: &mut Conns,
    context: RequestContext,
    request: Option<&Request<'_>>,
) -> ErrorCode {
    let RequestContext { id, session, header, op, zxid } = context;
    let ids = conns.get(id).map(|conn| conn.ids.clone()).unwrap_or_default();
    let xid = if op == OpCode::Ping { xid::PING } else { header.xid };
    let result = match request {
        None => Err(ErrorCode::Marshalling),
        Some(Request::Sync { path }) => Ok(menagerie_wire::Response::Path(path)),
        Some(Request::Sasl) => {
            if let Some(conn) = conns.get_mut(id) {
                conn.send(|out| {
                    ReplyHeader { xid, zxid: 0, err: ErrorCode::Ok }.encode(out);
                    menagerie_wire::Write::put_buffer(out, None);
                });
            }
            return ErrorCode::Ok;
        }
        Some(request) => {
            state.read(id, Caller { session, ids: &ids }, request, &mut |notice| conns.notify(&notice))
        }
    };
    let code = result.as_ref().err().copied().unwrap_or(ErrorCode::Ok);
    let Some(conn) = conns.get_mut(id) else { return code };
    match result {
        Ok(response) => conn.send(|out| {
            ReplyHeader { xid, zxid, err: code }.encode(out);
            response.encode(out);
        }),
        Err(err) => conn.send_header(xid, zxid, err),
    }
    code
}
