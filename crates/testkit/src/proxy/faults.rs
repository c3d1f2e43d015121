//! What a proxy does to the units that pass through it.

use std::collections::BTreeMap;
use std::time::Duration;

use menagerie_wire::{MultiOp, OpCode, Reader, Request};

use super::units::Unit;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the client to the server.
    Requests,
    /// From the server to the client.
    Replies,
}

/// What happens to a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Forward,
    /// Swallow it and close its connection.
    Drop,
}

/// Which reply will be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Trap {
    #[default]
    None,
    /// That of the next request, of this kind if given.
    Next(Option<OpCode>),
    /// The one with this xid on this link: its request has passed.
    Reply {
        link: u64,
        xid: i32,
    },
    All,
}

/// A proxy's faults and counters.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) cut: bool,
    pub(super) delay: Duration,
    requests_held: bool,
    replies_held: bool,
    /// Hold requests of this kind, and everything after them, once this many have passed.
    hold_at: Option<(OpCode, usize)>,
    /// Requests that may still pass before everything is cut.
    pub(super) requests_left: Option<usize>,
    trap: Trap,
    /// Whether to cut everything as soon as a reply was lost.
    cut_at_loss: bool,
    pub(super) requests: BTreeMap<i32, usize>,
    pub(super) dropped: usize,
}

impl Faults {
    pub(super) fn hold(&mut self, direction: Direction) {
        match direction {
            Direction::Requests => self.requests_held = true,
            Direction::Replies => self.replies_held = true,
        }
    }

    pub(super) fn holds(&self, direction: Direction) -> bool {
        match direction {
            Direction::Requests => self.requests_held,
            Direction::Replies => self.replies_held,
        }
    }

    pub(super) fn hold_after(&mut self, passed: usize, op: OpCode) {
        self.hold_at = Some((op, passed));
    }

    /// Whether to hold this unit, the next in its direction.
    pub(super) fn holds_back(&mut self, direction: Direction, unit: &Unit) -> bool {
        if let (Direction::Requests, Unit::Frame(frame), Some((op, left))) =
            (direction, unit, &mut self.hold_at)
            && int(frame, 8) == Some(op.code())
            && !only_checks(frame)
        {
            match left.checked_sub(1) {
                Some(fewer) => *left = fewer,
                None => (self.hold_at, self.requests_held) = (None, true),
            }
        }
        self.holds(direction)
    }

    pub(super) fn drop_next(&mut self, op: Option<OpCode>) {
        self.trap = Trap::Next(op);
    }

    pub(super) fn cut_at_reply_of(&mut self, op: OpCode) {
        self.trap = Trap::Next(Some(op));
        self.cut_at_loss = true;
    }

    pub(super) fn drop_all(&mut self) {
        self.trap = Trap::All;
    }

    /// Ends the faults and keeps the counters.
    pub(super) fn heal(&mut self) {
        let (requests, dropped) = (std::mem::take(&mut self.requests), self.dropped);
        *self = Self { requests, dropped, ..Self::default() };
    }

    /// Decides on a unit that is about to be forwarded.
    pub(super) fn judge(&mut self, link: u64, direction: Direction, unit: &Unit) -> Verdict {
        match (direction, unit) {
            (Direction::Requests, Unit::Opening(_)) => {
                self.count(OpCode::CreateSession.code());
                Verdict::Forward
            }
            (Direction::Requests, Unit::Frame(frame)) => {
                // Layout: length, xid, operation.
                if let (Some(xid), Some(op)) = (int(frame, 4), int(frame, 8)) {
                    if self.is_last(xid) {
                        return Verdict::Drop;
                    }
                    self.count(op);
                    if !only_checks(frame) {
                        self.note_request(link, xid, op);
                    }
                }
                Verdict::Forward
            }
            (Direction::Replies, Unit::Frame(frame)) => self.judge_reply(link, int(frame, 4)),
            (Direction::Replies, Unit::Opening(_)) | (_, Unit::Bytes(_) | Unit::End) => Verdict::Forward,
        }
    }

    /// Counts a request down; cuts when none is left.
    fn is_last(&mut self, xid: i32) -> bool {
        // Negative xids are those of pings and the like.
        let Some(left) = self.requests_left.filter(|_| xid >= 0) else { return false };
        self.requests_left = left.checked_sub(1);
        self.cut |= self.requests_left.is_none();
        self.cut
    }

    fn count(&mut self, op: i32) {
        *self.requests.entry(op).or_default() += 1;
    }

    fn note_request(&mut self, link: u64, xid: i32, op: i32) {
        // Negative xids are those of pings and the like.
        if let Trap::Next(wanted) = self.trap
            && xid >= 0
            // Sessions probe the granted time-out and close the probe at any time; no test means that by "next".
            && wanted.map_or(op != OpCode::CloseSession.code(), |wanted| wanted.code() == op)
        {
            self.trap = Trap::Reply { link, xid };
        }
    }

    fn judge_reply(&mut self, link: u64, xid: Option<i32>) -> Verdict {
        let dropped = match self.trap {
            Trap::None | Trap::Next(_) => false,
            Trap::Reply { link: on, xid: number } => on == link && xid == Some(number),
            Trap::All => xid.is_some_and(|xid| xid >= 0),
        };
        if !dropped {
            return Verdict::Forward;
        }
        self.dropped += 1;
        self.cut |= self.cut_at_loss;
        if self.trap != Trap::All {
            self.trap = Trap::None;
        }
        Verdict::Drop
    }
}

/// Whether it is a `multi` that changes nothing: sessions send such heartbeats at any time, so no test means one.
fn only_checks(frame: &[u8]) -> bool {
    let body = frame.get(12..).filter(|_| int(frame, 8) == Some(OpCode::Multi.code()));
    let multi = body.map(|body| Request::decode(OpCode::Multi, &mut Reader::new(body)));
    matches!(multi, Some(Ok(Request::Multi(ops))) if ops.iter().all(|op| matches!(op, MultiOp::Check { .. })))
}

fn int(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(xid: i32, op: OpCode) -> Unit {
        Unit::Frame([8, xid, op.code()].map(i32::to_be_bytes).concat())
    }

    fn reply(xid: i32) -> Unit {
        Unit::Frame([4, xid].map(i32::to_be_bytes).concat())
    }

    #[test]
    fn exactly_the_reply_of_the_request_meant_is_lost() {
        let mut faults = Faults::default();
        faults.drop_next(Some(OpCode::Create2));
        for (link, unit) in [
            (1, request(1, OpCode::GetData)),
            (1, request(2, OpCode::Create2)),
            (2, request(2, OpCode::Create2)),
        ] {
            faults.judge(link, Direction::Requests, &unit);
        }
        let verdicts = [(1, 1), (2, 2), (1, -2), (1, 2), (1, 2)]
            .map(|(link, xid)| faults.judge(link, Direction::Replies, &reply(xid)));
        use Verdict::{Drop, Forward};
        assert_eq!(verdicts, [Forward, Forward, Forward, Drop, Forward]);
        assert_eq!(faults.dropped, 1);
        assert_eq!(faults.requests, BTreeMap::from([(4, 1), (15, 2)]));
    }

    #[test]
    fn everything_is_cut_at_the_reply_meant() {
        let mut faults = Faults::default();
        faults.cut_at_reply_of(OpCode::Create2);
        faults.judge(1, Direction::Requests, &request(1, OpCode::Create2));
        assert!(!faults.cut, "its request passes");
        assert_eq!(faults.judge(1, Direction::Replies, &reply(1)), Verdict::Drop);
        assert!(faults.cut);
        faults.heal();
        faults.drop_next(None);
        faults.judge(1, Direction::Requests, &request(2, OpCode::Create2));
        assert_eq!(faults.judge(1, Direction::Replies, &reply(2)), Verdict::Drop);
        assert!(!faults.cut);
    }

    #[test]
    fn from_the_request_meant_on_all_are_held() {
        let mut faults = Faults::default();
        faults.hold_after(1, OpCode::GetData);
        let held = [OpCode::Exists, OpCode::GetData, OpCode::GetData, OpCode::Exists]
            .map(|op| faults.holds_back(Direction::Requests, &request(1, op)));
        assert_eq!(held, [false, false, true, true]);
        assert!(!faults.holds(Direction::Replies));
        faults.heal();
        assert!(!faults.holds_back(Direction::Requests, &request(1, OpCode::GetData)));
    }

    #[test]
    fn heartbeats_are_not_meant() {
        let multi = |xid, ops| {
            let mut frame = vec![0; 4];
            Request::Multi(ops).encode(xid, &mut frame);
            Unit::Frame(frame)
        };
        let check = || MultiOp::Check { path: "/", version: -1 };
        let heartbeat = multi(1, vec![check()]);
        let write = multi(2, vec![check(), MultiOp::Delete { path: "/a", version: -1 }]);
        let mut faults = Faults::default();
        faults.drop_next(Some(OpCode::Multi));
        for unit in [&heartbeat, &write] {
            faults.judge(1, Direction::Requests, unit);
        }
        let verdicts = [1, 2].map(|xid| faults.judge(1, Direction::Replies, &reply(xid)));
        assert_eq!(verdicts, [Verdict::Forward, Verdict::Drop]);
        faults.hold_after(0, OpCode::Multi);
        let held = [&heartbeat, &write].map(|unit| faults.holds_back(Direction::Requests, unit));
        assert_eq!(held, [false, true]);
    }

    #[test]
    fn after_so_many_requests_everything_is_cut() {
        let mut faults = Faults { requests_left: Some(1), ..Faults::default() };
        let verdicts = [(-2, OpCode::Ping), (7, OpCode::GetData), (8, OpCode::GetData)]
            .map(|(xid, op)| faults.judge(1, Direction::Requests, &request(xid, op)));
        assert_eq!(verdicts, [Verdict::Forward, Verdict::Forward, Verdict::Drop]);
        assert!(faults.cut);
        assert_eq!(faults.requests, BTreeMap::from([(OpCode::Ping.code(), 1), (OpCode::GetData.code(), 1)]));
    }

    #[test]
    fn when_all_replies_are_lost_pings_and_events_are_not() {
        let mut faults = Faults::default();
        faults.drop_all();
        let verdicts = [-2, -1, 7, 8].map(|xid| faults.judge(1, Direction::Replies, &reply(xid)));
        assert_eq!(verdicts, [Verdict::Forward, Verdict::Forward, Verdict::Drop, Verdict::Drop]);
        faults.heal();
        assert_eq!(faults.judge(1, Direction::Replies, &reply(9)), Verdict::Forward);
        assert_eq!(faults.dropped, 2);
    }
}
