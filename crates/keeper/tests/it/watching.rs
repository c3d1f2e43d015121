//! Watches, over the socket.

use menagerie_testkit::{DEADLINE, Incoming, Keeper, Notification, RawClient, Server};
use menagerie_wire::request::{Create, SetWatches, xid};
use menagerie_wire::{Acl, ErrorCode, EventKind, Id, MultiOp, OpCode, Perms, Request, Response, WatcherKind};

use crate::verbs::{Verbs, accepted, creation};

fn start() -> (Server, RawClient, RawClient) {
    let keeper = Keeper::new().start();
    let (writer, watcher) = (RawClient::open(keeper.address()), RawClient::open(keeper.address()));
    (keeper, writer, watcher)
}

fn event(kind: EventKind, path: &str, zxid: i64) -> Notification {
    Notification { zxid, kind, path: path.to_owned() }
}

#[test]
fn one_shot_watch_tells_once() {
    let (_keeper, mut writer, mut watcher) = start();
    watcher.watch_data("/a");
    let created = writer.create("/a", b"");
    writer.set("/a", b"1");
    assert_eq!(watcher.notifications(), [event(EventKind::Created, "/a", created)]);
    assert_eq!(watcher.notifications(), []);
}

#[test]
fn deletion_tells_each_watcher_once_however_many_watches_it_set() {
    let (_keeper, mut writer, mut watcher) = start();
    writer.create("/a", b"");
    writer.create("/a/b", b"");
    watcher.watch_data("/a/b");
    watcher.watch_data("/a/b");
    watcher.call(&Request::GetData { path: "/a/b", watch: true });
    watcher.watch_children("/a/b");
    watcher.watch_children("/a");
    let deleted = writer.delete("/a/b");
    let expected =
        [event(EventKind::Deleted, "/a/b", deleted), event(EventKind::ChildrenChanged, "/a", deleted)];
    assert_eq!(watcher.notifications(), expected);
}

#[test]
fn reads_of_a_missing_znode_set_no_watch_but_exists_does() {
    let (_keeper, mut writer, mut watcher) = start();
    for request in [
        Request::GetData { path: "/a", watch: true },
        Request::GetChildren { path: "/a", watch: true },
        Request::GetChildren2 { path: "/a", watch: true },
    ] {
        assert_eq!(watcher.call(&request).header.err, ErrorCode::NoNode);
    }
    writer.create("/a", b"");
    assert_eq!(watcher.notifications(), []);
}

#[test]
fn persistent_watch_tells_of_the_znode_and_its_children_every_time() {
    let (_keeper, mut writer, mut watcher) = start();
    watcher.add_watch("/a", 0);
    let zxids = [writer.create("/a", b""), writer.set("/a", b"1"), writer.create("/a/b", b"")];
    writer.set("/a/b", b"1");
    let expected = [
        event(EventKind::Created, "/a", zxids[0]),
        event(EventKind::DataChanged, "/a", zxids[1]),
        event(EventKind::ChildrenChanged, "/a", zxids[2]),
    ];
    assert_eq!(watcher.notifications(), expected);
}

#[test]
fn recursive_watch_tells_of_the_whole_subtree_and_not_of_sets_of_children() {
    let (_keeper, mut writer, mut watcher) = start();
    watcher.add_watch("/a", 1);
    let zxids = [writer.create("/a", b""), writer.create("/a/b", b""), writer.set("/a/b", b"1")];
    writer.create("/ab", b"");
    let deleted = writer.delete("/a/b");
    let expected = [
        event(EventKind::Created, "/a", zxids[0]),
        event(EventKind::Created, "/a/b", zxids[1]),
        event(EventKind::DataChanged, "/a/b", zxids[2]),
        event(EventKind::Deleted, "/a/b", deleted),
    ];
    assert_eq!(watcher.notifications(), expected);
}

#[test]
fn events_of_one_multi_carry_its_zxid() {
    let (_keeper, mut writer, mut watcher) = start();
    watcher.add_watch("/", 1);
    let create = |path| match creation(path, b"", 0) {
        Request::Create { op, create } => MultiOp::Create { op, create },
        other => panic!("not a creation: {other:?}"),
    };
    let ops = vec![create("/a"), create("/a/b"), MultiOp::SetData { path: "/a", data: None, version: -1 }];
    let zxid = accepted(&writer.call(&Request::Multi(ops)));
    let expected = [
        event(EventKind::Created, "/a", zxid),
        event(EventKind::Created, "/a/b", zxid),
        event(EventKind::DataChanged, "/a", zxid),
    ];
    assert_eq!(watcher.notifications(), expected);
}

#[test]
fn who_may_not_read_a_znode_is_not_told_of_it() {
    let (keeper, mut writer, mut stranger) = start();
    let mut friend = RawClient::open(keeper.address());
    for client in [&mut writer, &mut friend] {
        accepted(&client.call(&Request::Auth { scheme: "digest", credentials: b"alice:secret" }));
    }
    for client in [&mut stranger, &mut friend] {
        client.add_watch("/", 1);
        client.watch_data("/secret");
    }
    let own = vec![Acl { perms: Perms::ALL, id: Id::new("auth", "") }];
    let create = Create { path: "/secret", data: None, acl: own, flags: 0, ttl: None };
    let secret = accepted(&writer.call(&Request::Create { op: OpCode::Create, create }));
    let open = writer.create("/open", b"");
    assert_eq!(stranger.notifications(), [event(EventKind::Created, "/open", open)]);
    let all = [event(EventKind::Created, "/secret", secret), event(EventKind::Created, "/open", open)];
    assert_eq!(friend.notifications(), all);
}

#[test]
fn add_watch_is_answered_with_a_code_of_four_bytes() {
    let (_keeper, _, mut watcher) = start();
    let reply = watcher.call(&Request::AddWatch { path: "/a", mode: 0 });
    assert_eq!(reply.response(OpCode::AddWatch), Ok(Response::Code(ErrorCode::Ok)));
    assert_eq!(reply.body, [0; 4], "Java clients hang up on an empty body");
}

#[test]
fn removed_watch_tells_nothing() {
    let (_keeper, mut writer, mut watcher) = start();
    writer.create("/a", b"");
    let kind = WatcherKind::Any as i32;
    let remove = Request::RemoveWatches { path: "/a", kind };
    let check = Request::CheckWatches { path: "/a", kind };
    assert_eq!(watcher.call(&remove).header.err, ErrorCode::NoWatcher);
    watcher.watch_data("/a");
    watcher.add_watch("/a", 1);
    assert_eq!(watcher.call(&check).header.err, ErrorCode::Ok);
    assert_eq!(watcher.call(&remove).header.err, ErrorCode::Ok);
    assert_eq!(watcher.call(&check).header.err, ErrorCode::NoWatcher);
    writer.set("/a", b"1");
    assert_eq!(watcher.notifications(), []);
}

#[test]
fn watches_set_again_tell_what_was_missed_before_they_are_answered() {
    let (_keeper, mut writer, mut watcher) = start();
    for path in ["/same", "/changed", "/deleted", "/family"] {
        writer.create(path, b"");
    }
    let seen = watcher.ping();
    writer.set("/changed", b"1");
    writer.delete("/deleted");
    writer.create("/family/child", b"");
    writer.create("/created", b"");
    watcher.send(&Request::SetWatches(SetWatches {
        relative_zxid: seen,
        data: vec!["/same", "/changed", "/deleted"],
        exist: vec!["/created", "/missing"],
        child: vec!["/family", "/same", "/deleted"],
        ..SetWatches::default()
    }));
    let mut events = Vec::new();
    let reply = loop {
        match watcher.recv(DEADLINE) {
            Some(Incoming::Event(event)) => events.push(event),
            Some(Incoming::Reply(reply)) => break reply,
            other => panic!("no reply: {other:?}"),
        }
    };
    assert_eq!((reply.header.xid, reply.header.err), (xid::SET_WATCHES, ErrorCode::Ok));
    // The event reports a difference and not one transaction, so it has no zxid.
    let expected = [
        event(EventKind::DataChanged, "/changed", -1),
        event(EventKind::Deleted, "/deleted", -1),
        event(EventKind::Created, "/created", -1),
        event(EventKind::ChildrenChanged, "/family", -1),
        event(EventKind::Deleted, "/deleted", -1),
    ];
    assert_eq!(events, expected);
    // Unchanged watches are set again.
    let zxids = [writer.set("/same", b"1"), writer.create("/missing", b""), writer.create("/same/x", b"")];
    let expected = [
        event(EventKind::DataChanged, "/same", zxids[0]),
        event(EventKind::Created, "/missing", zxids[1]),
        event(EventKind::ChildrenChanged, "/same", zxids[2]),
    ];
    assert_eq!(watcher.notifications(), expected);
}

#[test]
fn persistent_watches_set_again_work_on() {
    let (_keeper, mut writer, mut watcher) = start();
    let request = Request::SetWatches2(SetWatches {
        persistent: vec!["/p"],
        recursive: vec!["/r"],
        ..SetWatches::default()
    });
    accepted(&watcher.call(&request));
    let zxids = [writer.create("/p", b""), writer.create("/r", b""), writer.create("/r/x", b"")];
    let expected = [
        event(EventKind::Created, "/p", zxids[0]),
        event(EventKind::Created, "/r", zxids[1]),
        event(EventKind::Created, "/r/x", zxids[2]),
    ];
    assert_eq!(watcher.notifications(), expected);
}

#[test]
fn watches_and_identities_end_with_the_connection_but_the_session_does_not() {
    let (keeper, mut writer, mut watcher) = start();
    watcher.watch_data("/a");
    watcher.add_watch("/", 1);
    accepted(&watcher.call(&Request::Auth { scheme: "digest", credentials: b"u:p" }));
    watcher.create_ephemeral("/here");
    watcher.take_events();
    let back = watcher.resumption();
    watcher.hang_up();
    let mut watcher = RawClient::connect(keeper.address(), &back).expect("the session lives");
    writer.create("/a", b"");
    assert_eq!(watcher.notifications(), []);
    assert!(watcher.find("/here").is_some());
    let whoami = watcher.call(&Request::WhoAmI);
    let Ok(Response::Identities(ids)) = whoami.response(OpCode::WhoAmI) else { panic!("not identities") };
    assert!(ids.iter().all(|id| id.scheme == "ip"), "{ids:?}");
}
