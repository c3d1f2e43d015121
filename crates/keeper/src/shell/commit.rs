//! Handles a durable group: apply, notify, reply, in the order of zxids.

use std::time::Instant;

use menagerie_wire::{ErrorCode, MultiResult, OpCode, ReplyHeader, Response};

use super::conn::{Conn, Phase, Waiting};
use super::server::{Group, Item, Origin, Server};
use crate::core::{Change, ConnId, Outcome, Txn};

impl Server {
    /// Makes a durable group visible. `sequence` is its last record in the log.
    pub fn apply(&mut self, group: Group, sequence: u64) {
        for item in group.items {
            match item {
                Item::Txn(txn, origin) => self.apply_txn(txn, origin),
                Item::Barrier(origin) => self.pass_barrier(origin),
            }
            self.flush_if_due();
        }
        self.applied_sequence = sequence;
        self.metrics.note_state(&self.state);
    }

    fn apply_txn(&mut self, txn: Txn, origin: Option<Origin>) {
        for tee in &mut self.tees {
            tee.copy(&txn);
        }
        let Txn { zxid, changes, outcome, .. } = txn;
        let ended = changes.iter().find_map(|change| match change {
            Change::CloseSession { id } => self.state.sessions.get(*id).and_then(|session| session.conn),
            _ => None,
        });
        let now = self.now();
        let (state, conns) = self.split();
        state.apply(zxid, changes, now, &mut |notice| conns.notify(&notice));
        if let Some(origin) = origin {
            self.reply(origin, zxid, &outcome);
        }
        // A client that closed its session gets its reply first; any other just loses the connection.
        match ended {
            Some(conn) if origin.is_none_or(|origin| origin.conn != conn) => self.close(conn),
            Some(conn) => self.close_gently(conn),
            None => {}
        }
    }

    fn reply(&mut self, origin: Origin, zxid: i64, outcome: &Outcome) {
        self.metrics.observe(origin.op, origin.arrived);
        let Some(conn) = self.conn(origin.conn) else { return };
        let waited = conn.next_waiting();
        debug_assert!(matches!(waited, Some(Waiting::Txn)), "replies come in the order of requests");
        if *outcome == Outcome::SessionOpened {
            if let Some(session) = conn.session {
                self.welcome(origin.conn, session);
            }
        } else {
            send_outcome(conn, origin, zxid, outcome);
        }
        self.touch(origin.conn);
        self.answer_waiting(origin.conn);
    }

    /// Answers requests that waited for a write, up to the next write.
    fn answer_waiting(&mut self, id: ConnId) {
        let arrived = Instant::now();
        while let Some(conn) = self.conn(id).filter(|conn| conn.can_answer()) {
            match conn.next_waiting() {
                Some(Waiting::Frame(frame, _)) => self.answer(id, &frame, arrived),
                Some(Waiting::Reply(reply)) => conn.send_raw(&reply),
                Some(Waiting::Txn | Waiting::Barrier(_)) | None => {}
            }
        }
        self.touch(id);
    }

    fn pass_barrier(&mut self, origin: Origin) {
        let Some(conn) = self.conn(origin.conn) else { return };
        match conn.next_waiting() {
            Some(Waiting::Barrier(Some(frame))) => self.answer(origin.conn, &frame, origin.arrived),
            Some(Waiting::Barrier(None)) => {}
            other => debug_assert!(other.is_none(), "replies come in the order of requests"),
        }
        self.answer_waiting(origin.conn);
    }
}

fn send_outcome(conn: &mut Conn, origin: Origin, zxid: i64, outcome: &Outcome) {
    if conn.phase == Phase::Greeting {
        return;
    }
    let xid = origin.xid;
    if let Outcome::Refused(err) = outcome {
        conn.send_header(xid, zxid, *err);
        return;
    }
    conn.send(|out| {
        ReplyHeader { xid, zxid, err: ErrorCode::Ok }.encode(out);
        response(outcome, origin.op).encode(out);
    });
}

fn response(outcome: &Outcome, op: OpCode) -> Response<'_> {
    match outcome {
        Outcome::Created { path, stat, with_stat: true } => Response::Created2 { path, stat: *stat },
        Outcome::Created { path, .. } => Response::Path(path),
        Outcome::Stat(stat) => Response::Stat(*stat),
        Outcome::Multi(outcomes) => Response::Multi(outcomes.iter().map(multi_result).collect()),
        Outcome::Refused(_)
        | Outcome::Deleted
        | Outcome::Checked
        | Outcome::SessionOpened
        | Outcome::SessionClosed => {
            debug_assert!(op != OpCode::Create, "a creation answers with its path");
            Response::Empty
        }
    }
}

fn multi_result(outcome: &Outcome) -> MultiResult<'_> {
    match outcome {
        Outcome::Created { path, stat, with_stat: true } => MultiResult::Created2 { path, stat: *stat },
        Outcome::Created { path, .. } => MultiResult::Created { path },
        Outcome::Deleted => MultiResult::Deleted,
        Outcome::Stat(stat) => MultiResult::DataSet(*stat),
        Outcome::Checked => MultiResult::Checked,
        Outcome::Refused(code) => MultiResult::Error(*code),
        Outcome::Multi(_) | Outcome::SessionOpened | Outcome::SessionClosed => {
            MultiResult::Error(ErrorCode::RuntimeInconsistency)
        }
    }
}
