//! A session that resumes on another connection sees all its earlier writes.

use menagerie_wire::request::{Create, SetWatches};
use menagerie_wire::{Acl, ErrorCode, MultiOp, OpCode, Request};

use super::rig::{Rig, TIMEOUT_MS};

const GET_A: Request<'static> = Request::GetData { path: "/a", watch: false };
/// The number under which notifications come.
const EVENT: i32 = -1;

fn create(path: &str) -> Create<'_> {
    Create { path, data: None, acl: vec![Acl::open()], flags: 0, ttl: None }
}

fn creation(path: &str) -> Request<'_> {
    Request::Create { op: OpCode::Create, create: create(path) }
}

#[test]
fn read_on_the_new_connection_waits_for_writes_of_the_old_one_wherever_they_are() {
    let multi = Request::Multi(vec![MultiOp::Create { op: OpCode::Create, create: create("/a") }]);
    for write in [creation("/a"), multi] {
        for (taken, cut) in [(true, true), (true, false), (false, true), (false, false)] {
            let mut rig = Rig::new();
            let mut old = rig.open();
            let zxid = rig.server.state.applied_zxid() + 1;
            rig.send(&mut old, &write);
            let group = taken.then(|| rig.take_group());
            if cut {
                rig.server.close(old.id);
            }
            let mut new = rig.resume(&old);
            let read = rig.send(&mut new, &GET_A);
            assert!(rig.is_silent(&new), "the session's write is not durable");
            if let Some(group) = group {
                rig.finish_group(group);
            }
            rig.make_durable();
            assert_eq!(rig.reply(&mut new), (read, zxid, ErrorCode::Ok));
        }
    }
}

#[test]
fn session_with_nothing_under_way_is_answered_at_once() {
    let mut rig = Rig::new();
    let old = rig.open();
    let mut new = rig.resume(&old);
    let read = rig.send(&mut new, &GET_A);
    assert_eq!(rig.reply(&mut new), (read, rig.server.state.applied_zxid(), ErrorCode::NoNode));
}

#[test]
fn watches_set_again_are_compared_with_what_was_under_way() {
    let mut rig = Rig::new();
    let mut old = rig.open();
    rig.send(&mut old, &creation("/a"));
    rig.make_durable();
    let seen = rig.server.state.applied_zxid();
    rig.send(&mut old, &Request::SetData { path: "/a", data: Some(b"new"), version: -1 });
    let group = rig.take_group();
    let mut new = rig.resume(&old);
    let watches = SetWatches { relative_zxid: seen, data: vec!["/a"], ..SetWatches::default() };
    let set = rig.send(&mut new, &Request::SetWatches(watches));
    assert!(rig.is_silent(&new));
    rig.finish_group(group);
    rig.make_durable();
    assert_eq!(rig.reply(&mut new), (EVENT, -1, ErrorCode::Ok), "it has missed the change");
    assert_eq!(rig.reply(&mut new), (set, seen + 1, ErrorCode::Ok));
}

#[test]
fn writes_and_reads_on_the_new_connection_keep_their_order() {
    let mut rig = Rig::new();
    let mut old = rig.open();
    let zxid = rig.server.state.applied_zxid() + 1;
    rig.send(&mut old, &creation("/a"));
    let group = rig.take_group();
    let mut new = rig.resume(&old);
    let found = rig.send(&mut new, &GET_A);
    let delete = rig.send(&mut new, &Request::Delete { path: "/a", version: -1 });
    let missing = rig.send(&mut new, &GET_A);
    rig.finish_group(group);
    rig.make_durable();
    assert_eq!(rig.reply(&mut new), (found, zxid, ErrorCode::Ok));
    assert_eq!(rig.reply(&mut new), (delete, zxid + 1, ErrorCode::Ok));
    assert_eq!(rig.reply(&mut new), (missing, zxid + 1, ErrorCode::NoNode));
}

#[test]
fn session_may_move_again_before_its_write_is_durable() {
    let mut rig = Rig::new();
    let mut first = rig.open();
    let zxid = rig.server.state.applied_zxid() + 1;
    rig.send(&mut first, &creation("/a"));
    let group = rig.take_group();
    let mut second = rig.resume(&first);
    rig.send(&mut second, &GET_A);
    let mut third = rig.resume(&second);
    let read = rig.send(&mut third, &GET_A);
    assert!(rig.is_silent(&third));
    rig.finish_group(group);
    rig.make_durable();
    assert_eq!(rig.reply(&mut third), (read, zxid, ErrorCode::Ok));
}

#[test]
fn new_time_out_is_granted_behind_what_was_under_way() {
    let mut rig = Rig::new();
    let mut old = rig.open();
    let zxid = rig.server.state.applied_zxid() + 1;
    rig.send(&mut old, &creation("/a"));
    let group = rig.take_group();
    let mut new = rig.ask_to_resume(&old, TIMEOUT_MS + 1);
    let read = rig.send(&mut new, &GET_A);
    rig.finish_group(group);
    assert!(rig.is_silent(&new), "its time-out is not durable");
    rig.make_durable();
    rig.welcomed(&mut new);
    assert_eq!(new.session, old.session);
    assert_eq!(rig.reply(&mut new), (read, zxid, ErrorCode::Ok));
}

#[test]
fn session_whose_end_is_under_way_is_refused_when_that_is_durable() {
    for taken in [true, false] {
        let mut rig = Rig::new();
        let mut old = rig.open();
        rig.send(&mut old, &Request::CloseSession);
        let group = taken.then(|| rig.take_group());
        let mut new = rig.ask_to_resume(&old, TIMEOUT_MS);
        assert!(rig.is_silent(&new), "after a crash the session would still be there");
        if let Some(group) = group {
            rig.finish_group(group);
        }
        rig.make_durable();
        rig.welcomed(&mut new);
        assert_eq!(new.session.0, 0, "the session is gone");
    }
}
