//! What waits for the disk, and what does not.

use menagerie_wire::request::Create;
use menagerie_wire::{Acl, ErrorCode, Id, OpCode, Perms, Request};

use super::rig::Rig;

fn creation(path: &str) -> Request<'_> {
    let create = Create { path, data: None, acl: vec![Acl::open()], flags: 0, ttl: None };
    Request::Create { op: OpCode::Create, create }
}

const GET_A: Request<'static> = Request::GetData { path: "/a", watch: false };
const SYNC: Request<'static> = Request::Sync { path: "/a" };

#[test]
fn nothing_is_answered_or_visible_before_it_is_durable() {
    let mut rig = Rig::new();
    let (mut writer, mut reader) = (rig.open(), rig.open());
    let before = rig.server.state.applied_zxid();
    let write = rig.send(&mut writer, &creation("/a"));
    let group = rig.take_group();
    let read = rig.send(&mut reader, &GET_A);
    assert_eq!(rig.reply(&mut reader), (read, before, ErrorCode::NoNode));
    assert!(rig.is_silent(&writer));
    rig.finish_group(group);
    assert_eq!(rig.reply(&mut writer), (write, before + 1, ErrorCode::Ok));
    let read = rig.send(&mut reader, &GET_A);
    assert_eq!(rig.reply(&mut reader), (read, before + 1, ErrorCode::Ok));
}

#[test]
fn read_behind_a_write_of_the_same_client_waits_for_it() {
    let mut rig = Rig::new();
    let mut client = rig.open();
    let zxid = rig.server.state.applied_zxid() + 1;
    let write = rig.send(&mut client, &creation("/a"));
    let read = rig.send(&mut client, &GET_A);
    assert!(rig.is_silent(&client));
    rig.make_durable();
    assert_eq!(rig.reply(&mut client), (write, zxid, ErrorCode::Ok));
    assert_eq!(rig.reply(&mut client), (read, zxid, ErrorCode::Ok));
}

#[test]
fn read_between_two_writes_of_a_client_sees_the_first_alone() {
    let mut rig = Rig::new();
    let mut client = rig.open();
    let zxid = rig.server.state.applied_zxid() + 1;
    let create = rig.send(&mut client, &creation("/a"));
    let first = rig.take_group();
    let found = rig.send(&mut client, &GET_A);
    let delete = rig.send(&mut client, &Request::Delete { path: "/a", version: 0 });
    let missing = rig.send(&mut client, &GET_A);
    rig.finish_group(first);
    assert_eq!(rig.reply(&mut client), (create, zxid, ErrorCode::Ok));
    assert_eq!(rig.reply(&mut client), (found, zxid, ErrorCode::Ok));
    assert!(rig.is_silent(&client), "the second write is not durable");
    rig.make_durable();
    assert_eq!(rig.reply(&mut client), (delete, zxid + 1, ErrorCode::Ok));
    assert_eq!(rig.reply(&mut client), (missing, zxid + 1, ErrorCode::NoNode));
}

#[test]
fn sync_waits_for_the_writes_of_others_wherever_they_are() {
    for taken in [true, false] {
        let mut rig = Rig::new();
        let (mut writer, mut reader) = (rig.open(), rig.open());
        let zxid = rig.server.state.applied_zxid() + 1;
        rig.send(&mut writer, &creation("/a"));
        let group = taken.then(|| rig.take_group());
        let sync = rig.send(&mut reader, &SYNC);
        let read = rig.send(&mut reader, &GET_A);
        assert!(rig.is_silent(&reader), "the write is not durable");
        if let Some(group) = group {
            rig.finish_group(group);
        }
        rig.make_durable();
        assert_eq!(rig.reply(&mut reader), (sync, zxid, ErrorCode::Ok));
        assert_eq!(rig.reply(&mut reader), (read, zxid, ErrorCode::Ok));
    }
}

#[test]
fn sync_with_nothing_under_way_is_answered_at_once() {
    let mut rig = Rig::new();
    let mut client = rig.open();
    let sync = rig.send(&mut client, &SYNC);
    assert_eq!(rig.reply(&mut client), (sync, rig.server.state.applied_zxid(), ErrorCode::Ok));
}

#[test]
fn credentials_behind_a_write_are_answered_behind_it_but_count_at_once() {
    let mut rig = Rig::new();
    let mut client = rig.open();
    let zxid = rig.server.state.applied_zxid() + 1;
    let write = rig.send(&mut client, &creation("/a"));
    let auth = rig.send(&mut client, &Request::Auth { scheme: "digest", credentials: b"alice:secret" });
    let own = vec![Acl { perms: Perms::ALL, id: Id::new("auth", "") }];
    let closed = rig.send(&mut client, &Request::SetAcl { path: "/a", acl: own, version: -1 });
    assert!(rig.is_silent(&client));
    rig.make_durable();
    assert_eq!(rig.reply(&mut client), (write, zxid, ErrorCode::Ok));
    assert_eq!(rig.reply(&mut client), (auth, 0, ErrorCode::Ok));
    assert_eq!(rig.reply(&mut client), (closed, zxid + 1, ErrorCode::Ok));
}
