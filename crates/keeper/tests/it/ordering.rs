//! The contract about order: replies, zxids, and what is visible when.

use menagerie_testkit::{DEADLINE, Incoming, Keeper, RawClient, Reply};
use menagerie_wire::{ErrorCode, MultiOp, OpCode, Request, Response};

use crate::verbs::{Verbs, accepted, assert_closed, creation, found};

#[track_caller]
fn next_reply(client: &mut RawClient) -> Reply {
    match client.reply(DEADLINE) {
        Some(Incoming::Reply(reply)) => reply,
        other => panic!("no reply: {other:?}"),
    }
}

#[test]
fn pipelined_requests_are_answered_in_their_order_each_as_if_the_one_before_was_done() {
    const ROUNDS: i32 = 200;
    let keeper = Keeper::new().start();
    let mut client = RawClient::open(keeper.address());
    client.create("/a", b"");
    let mut sent = Vec::new();
    for round in 0..ROUNDS {
        let data = round.to_be_bytes();
        for request in [
            Request::SetData { path: "/a", data: Some(&data), version: round },
            Request::GetData { path: "/a", watch: false },
            creation("/a/n-", b"", 2),
            Request::Exists { path: "/missing", watch: false },
            Request::Sync { path: "/a" },
        ] {
            sent.push(client.send(&request));
        }
    }
    for (at, xid) in sent.into_iter().enumerate() {
        let (round, reply) = (at as i32 / 5, next_reply(&mut client));
        assert_eq!(reply.header.xid, xid);
        match at % 5 {
            0 => assert_eq!(reply.header.err, ErrorCode::Ok),
            1 => {
                let found = found(&reply).expect("it is there");
                assert_eq!((found.data, found.stat.version), (round.to_be_bytes().to_vec(), round + 1));
            }
            2 => {
                let path = format!("/a/n-{round:010}");
                assert_eq!(reply.response(OpCode::Create), Ok(Response::Path(&path)));
            }
            3 => assert_eq!(reply.header.err, ErrorCode::NoNode),
            _ => assert_eq!(reply.response(OpCode::Sync), Ok(Response::Path("/a"))),
        }
    }
}

#[test]
fn every_write_uses_up_one_zxid_also_when_refused_and_reads_use_none() {
    let keeper = Keeper::new().start();
    let mut client = RawClient::open(keeper.address());
    let start = client.ping();
    let mut expect = |request: Request<'_>, err, used| {
        let reply = client.call(&request);
        assert_eq!((reply.header.err, reply.header.zxid), (err, start + used), "{request:?}");
    };
    expect(creation("/a", b"", 0), ErrorCode::Ok, 1);
    expect(creation("/a", b"", 0), ErrorCode::NodeExists, 2);
    expect(Request::GetData { path: "/a", watch: false }, ErrorCode::Ok, 2);
    expect(Request::GetData { path: "/b", watch: false }, ErrorCode::NoNode, 2);
    expect(Request::Delete { path: "/b", version: -1 }, ErrorCode::NoNode, 3);
    expect(Request::SetData { path: "/a", data: None, version: 7 }, ErrorCode::BadVersion, 4);
    let broken = vec![
        MultiOp::SetData { path: "/a", data: None, version: -1 },
        MultiOp::Delete { path: "/b", version: -1 },
    ];
    expect(Request::Multi(broken), ErrorCode::Ok, 5);
    expect(Request::Multi(vec![]), ErrorCode::Ok, 6);
    expect(Request::Reconfig, ErrorCode::ReconfigDisabled, 7);
    expect(Request::Sync { path: "/" }, ErrorCode::Ok, 7);
    expect(Request::Ping, ErrorCode::Ok, 7);
}

#[test]
fn what_one_client_was_told_is_done_every_other_client_sees() {
    let keeper = Keeper::new().start();
    let (mut writer, mut reader) = (RawClient::open(keeper.address()), RawClient::open(keeper.address()));
    writer.create("/a", b"");
    for version in 1..300 {
        let zxid = writer.set("/a", b"x");
        let reply = reader.call(&Request::GetData { path: "/a", watch: false });
        assert!(reply.header.zxid >= zxid);
        assert_eq!(found(&reply).expect("it is there").stat.version, version);
    }
}

#[test]
fn watcher_is_notified_before_any_reply_shows_it_the_change() {
    let keeper = Keeper::new().start();
    let (mut writer, mut watcher) = (RawClient::open(keeper.address()), RawClient::open(keeper.address()));
    writer.create("/a", b"");
    for round in 0..100 {
        let before = watcher.call(&Request::GetData { path: "/a", watch: true });
        let seen = found(&before).expect("it is there").stat.version;
        assert_eq!(seen, round);
        writer.send(&Request::SetData { path: "/a", data: None, version: -1 });
        let mut notified = false;
        // Asks until it sees the change, whenever that comes.
        loop {
            let xid = watcher.send(&Request::GetData { path: "/a", watch: false });
            let mut incoming = watcher.recv(DEADLINE);
            while let Some(Incoming::Event(event)) = &incoming {
                assert!(!notified, "a second event: {event:?}");
                notified = true;
                incoming = watcher.recv(DEADLINE);
            }
            let Some(Incoming::Reply(reply)) = incoming else { panic!("no reply: {incoming:?}") };
            assert_eq!(reply.header.xid, xid);
            if found(&reply).expect("it is there").stat.version > seen {
                assert!(notified, "the change was visible before the notification");
                break;
            }
        }
        accepted(&next_reply(&mut writer));
    }
}

#[test]
fn writer_that_watches_its_own_path_is_notified_before_it_is_answered() {
    let keeper = Keeper::new().start();
    let mut client = RawClient::open(keeper.address());
    for request in [
        creation("/a", b"", 0),
        Request::SetData { path: "/a", data: None, version: -1 },
        Request::Delete { path: "/a", version: -1 },
    ] {
        client.watch_data("/a");
        let xid = client.send(&request);
        let Some(Incoming::Event(event)) = client.recv(DEADLINE) else { panic!("the event comes first") };
        let Some(Incoming::Reply(reply)) = client.recv(DEADLINE) else { panic!("the reply comes second") };
        assert_eq!((reply.header.xid, reply.header.err), (xid, ErrorCode::Ok));
        assert_eq!(reply.header.zxid, event.zxid, "events carry the zxid of their cause");
    }
}

#[test]
fn ephemeral_znodes_are_gone_before_the_client_that_closes_is_answered() {
    let keeper = Keeper::new().start();
    let mut other = RawClient::open(keeper.address());
    other.create("/members", b"");
    for _ in 0..20 {
        let mut client = RawClient::open(keeper.address());
        for name in ["a", "b", "c"] {
            client.create_ephemeral(&format!("/members/{name}"));
        }
        other.watch_data("/members/b");
        let zxid = client.close();
        let stat = other.find("/members").expect("it is there").stat;
        assert_eq!((stat.num_children, stat.pzxid), (0, zxid), "all went in one transaction");
        let events = other.take_events();
        assert_eq!(events.iter().map(|event| event.zxid).collect::<Vec<_>>(), [zxid]);
    }
}

#[test]
fn requests_behind_the_end_of_the_session_are_not_answered() {
    let keeper = Keeper::new().start();
    let mut client = RawClient::open(keeper.address());
    let end = client.send(&Request::CloseSession);
    client.send(&creation("/late", b"", 0));
    assert_eq!(next_reply(&mut client).header.xid, end);
    assert_closed(&mut client);
    assert_eq!(RawClient::open(keeper.address()).find("/late"), None);
}
