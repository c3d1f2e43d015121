//! The memory of all connections is bounded, and those that hold most are cut off first.

use std::net::Ipv4Addr;

use menagerie_wire::request::{Create, SetWatches};
use menagerie_wire::{Acl, ErrorCode, MultiOp, OpCode, Request, WatchMode};

use super::rig::{Rig, TIMEOUT_MS};

const HELD_BYTES_MAX: usize = 1 << 20;

fn rig() -> Rig {
    Rig::with(|config| config.held_bytes_max = HELD_BYTES_MAX)
}

#[test]
fn half_frames_that_are_too_much_together_cost_those_who_hold_most() {
    let mut rig = rig();
    let mut small = rig.open();
    let large: Vec<_> = (0..3).map(|_| rig.open()).collect();
    rig.server.return_input(small.id, vec![0; 1000]);
    let mut left = large.len();
    for client in &large {
        rig.server.return_input(client.id, vec![0; HELD_BYTES_MAX * 2 / 5]);
        left -= usize::from(rig.is_gone(client));
    }
    assert_eq!(left, 2, "two are within the bound, three are not");
    assert!(!rig.is_gone(&small));
    let ping = rig.send(&mut small, &Request::Sync { path: "/" });
    assert_eq!(rig.reply(&mut small).0, ping);
    // When one has finished its frame, there is room again.
    rig.server.return_input(large[0].id, Vec::new());
    rig.server.return_input(large[1].id, vec![0; HELD_BYTES_MAX * 4 / 5]);
    assert!(!rig.is_gone(&large[1]));
}

#[test]
fn notifications_of_one_transaction_can_be_too_much_for_who_gets_them_all() {
    let mut rig = rig();
    let path = format!("/{}", "x".repeat(10_000));
    let (mut writer, mut watcher, mut modest) = (rig.open(), rig.open(), rig.open());
    let create = Create { path: &path, data: None, acl: vec![Acl::open()], flags: 0, ttl: None };
    rig.send(&mut writer, &Request::Create { op: OpCode::Create, create });
    rig.make_durable();
    rig.reply(&mut writer);
    rig.send(&mut watcher, &Request::AddWatch { path: &path, mode: WatchMode::Persistent as i32 });
    rig.reply(&mut watcher);
    rig.send(&mut modest, &Request::GetData { path: &path, watch: true });
    rig.reply(&mut modest);
    let set = || MultiOp::SetData { path: &path, data: None, version: -1 };
    let multi = rig.send(&mut writer, &Request::Multi((0..200).map(|_| set()).collect()));
    rig.make_durable();
    assert!(rig.is_gone(&watcher), "two megabytes");
    assert_eq!(rig.reply(&mut writer).0, multi);
    assert_eq!(rig.reply(&mut modest).0, -1, "it is told once");
    assert!(rig.server.state.sessions.len() == 3, "sessions live on");
}

#[test]
fn so_many_sessions_and_no_more() {
    let mut rig = Rig::with(|config| config.limits.sessions = 2);
    let mut first = rig.open();
    // The second one is not durable yet when the third one comes.
    let mut second = rig.connect((Ipv4Addr::LOCALHOST, 1).into());
    let new = (0, vec![0; 16]);
    assert!(rig.greet(&second, &new, TIMEOUT_MS));
    let third = rig.connect((Ipv4Addr::LOCALHOST, 1).into());
    assert!(!rig.greet(&third, &new, TIMEOUT_MS), "closed without a word, so that the client tries again");
    rig.make_durable();
    rig.welcomed(&mut second);
    rig.resume(&second);
    rig.send(&mut first, &Request::CloseSession);
    rig.make_durable();
    rig.open();
}

#[test]
fn watches_that_cannot_be_set_again_end_the_connection() {
    let mut rig = Rig::with(|config| config.limits.watch_bytes = 1000);
    let (mut other, mut client) = (rig.open(), rig.open());
    for path in ["/a", "/b", "/c"] {
        rig.send(&mut other, &Request::Exists { path, watch: true });
        assert_eq!(rig.reply(&mut other).2, ErrorCode::NoNode);
    }
    let read = rig.send(&mut client, &Request::Exists { path: "/a", watch: true });
    let zxid = rig.server.state.applied_zxid();
    assert_eq!(rig.reply(&mut client), (read, zxid, ErrorCode::QuotaExceeded), "this one will not wait");
    let watches = SetWatches { exist: vec!["/a"], ..SetWatches::default() };
    let set = rig.send(&mut client, &Request::SetWatches(watches));
    assert_eq!(rig.reply(&mut client), (set, zxid, ErrorCode::QuotaExceeded));
    assert!(rig.is_gone(&client), "it would wait for ever");
}
