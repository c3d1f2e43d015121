//! Quotas, in the znodes that other tools use for them.

use menagerie_testkit::{DEADLINE, Incoming, Keeper, RawClient, Server};
use menagerie_wire::request::Create;
use menagerie_wire::{Acl, ErrorCode, MultiOp, MultiResult, OpCode, Request, Response};

use crate::verbs::{Verbs, creation};

const LIMITS: &str = "/zookeeper/quota/a/zookeeper_limits";
const STATS: &str = "/zookeeper/quota/a/zookeeper_stats";

fn set_quota(client: &mut RawClient, limits: &str) {
    client.create("/zookeeper/quota/a", b"");
    client.create(LIMITS, limits.as_bytes());
    client.create(STATS, b"count=0,bytes=0");
}

fn used(client: &mut RawClient) -> String {
    String::from_utf8(client.find(STATS).expect("it is there").data).unwrap()
}

#[test]
fn znodes_and_bytes_are_counted_also_across_a_restart() {
    let mut keeper = Keeper::new().start();
    let mut client = RawClient::open(keeper.address());
    client.create("/a", b"12345");
    set_quota(&mut client, "count=3,bytes=100");
    assert_eq!(used(&mut client), "count=1,bytes=5");
    client.create("/a/b", b"123");
    client.create("/a/b/c", b"");
    client.create("/elsewhere", b"123");
    assert_eq!(used(&mut client), "count=3,bytes=8");
    client.set("/a", b"1");
    client.delete("/a/b/c");
    assert_eq!(used(&mut client), "count=2,bytes=4");
    keeper.kill();
    keeper.restart();
    let mut client = RawClient::open(keeper.address());
    assert_eq!(used(&mut client), "count=2,bytes=4");
    client.create("/a/d", b"12");
    assert_eq!(used(&mut client), "count=3,bytes=6");
}

#[test]
fn hard_limits_refuse_only_when_they_are_enforced() {
    for (args, expected) in [(&[][..], ErrorCode::Ok), (&["--enforce-quota"], ErrorCode::QuotaExceeded)] {
        let keeper = Keeper::new().args(args.iter().copied()).start();
        let mut client = RawClient::open(keeper.address());
        client.create("/a", b"");
        set_quota(&mut client, "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=2");
        client.create("/a/b", b"");
        assert_eq!(client.call(&creation("/a/c", b"", 0)).header.err, expected);
        client.delete("/a/b");
        client.create("/a/d", b"");
    }
}

fn start_enforcing() -> (Server, RawClient) {
    let keeper = Keeper::new().args(["--enforce-quota"]).start();
    let mut client = RawClient::open(keeper.address());
    client.create("/a", b"");
    (keeper, client)
}

fn hard(count: i64, bytes: i64) -> String {
    format!("count=-1,bytes=-1=;byteHardLimit={bytes};countHardLimit={count}")
}

/// What each of the requests is answered when all are sent at once.
fn codes(client: &mut RawClient, requests: &[Request<'_>]) -> Vec<ErrorCode> {
    for request in requests {
        client.send(request);
    }
    let mut code = || match client.reply(DEADLINE) {
        Some(Incoming::Reply(reply)) => reply.header.err,
        other => panic!("no reply: {other:?}"),
    };
    requests.iter().map(|_| code()).collect()
}

fn create_in_multi<'a>(path: &'a str, data: &'a [u8]) -> MultiOp<'a> {
    let create = Create { path, data: Some(data), acl: vec![Acl::open()], flags: 0, ttl: None };
    MultiOp::Create { op: OpCode::Create, create }
}

/// The codes of a multi's results.
fn multi(client: &mut RawClient, ops: Vec<MultiOp<'_>>) -> Vec<ErrorCode> {
    let reply = client.call(&Request::Multi(ops));
    let Ok(Response::Multi(results)) = reply.response(OpCode::Multi) else { panic!("no results: {reply:?}") };
    let code = |result: &MultiResult<'_>| match result {
        MultiResult::Error(code) => *code,
        _ => ErrorCode::Ok,
    };
    results.iter().map(code).collect()
}

const OVER: ErrorCode = ErrorCode::QuotaExceeded;
const UNTRIED: ErrorCode = ErrorCode::RuntimeInconsistency;

#[test]
fn multi_counts_what_it_has_done_itself() {
    let (_keeper, mut client) = start_enforcing();
    set_quota(&mut client, &hard(3, 10));
    let creations = ["/a/1", "/a/2", "/a/3", "/a/4"].map(|path| create_in_multi(path, b""));
    assert_eq!(multi(&mut client, creations.to_vec()), [ErrorCode::Ok, ErrorCode::Ok, OVER, UNTRIED]);
    assert_eq!(used(&mut client), "count=1,bytes=0", "none of it happened");
    let set = |data| MultiOp::SetData { path: "/a", data: Some(data), version: -1 };
    let growing = vec![set(&[0; 6]), create_in_multi("/a/1", &[0; 4]), set(&[0; 7])];
    assert_eq!(multi(&mut client, growing), [ErrorCode::Ok, ErrorCode::Ok, OVER]);
    assert_eq!(used(&mut client), "count=1,bytes=0");
}

#[test]
fn multi_that_makes_room_first_may_use_it() {
    let (_keeper, mut client) = start_enforcing();
    client.create("/a/1", b"12345");
    set_quota(&mut client, &hard(2, 5));
    let swap = vec![MultiOp::Delete { path: "/a/1", version: -1 }, create_in_multi("/a/2", b"12345")];
    assert_eq!(multi(&mut client, swap), [ErrorCode::Ok; 2]);
    assert_eq!(used(&mut client), "count=2,bytes=5");
}

#[test]
fn writes_under_way_count() {
    let (_keeper, mut client) = start_enforcing();
    set_quota(&mut client, &hard(3, -1));
    let creations = ["/a/1", "/a/2", "/a/3", "/a/4"].map(|path| creation(path, b"", 0));
    assert_eq!(codes(&mut client, &creations), [ErrorCode::Ok, ErrorCode::Ok, OVER, OVER]);
    assert_eq!(used(&mut client), "count=3,bytes=0");
    let exchange =
        [Request::Delete { path: "/a/1", version: -1 }, creation("/a/5", b"", 0), creation("/a/6", b"", 0)];
    assert_eq!(codes(&mut client, &exchange), [ErrorCode::Ok, ErrorCode::Ok, OVER]);
}

#[test]
fn quota_under_way_counts() {
    let (_keeper, mut client) = start_enforcing();
    let limits = hard(2, -1);
    let requests = [
        creation("/a/1", b"", 0),
        creation("/zookeeper/quota/a", b"", 0),
        creation(LIMITS, limits.as_bytes(), 0),
        creation(STATS, b"", 0),
        creation("/a/2", b"", 0),
    ];
    let ok = ErrorCode::Ok;
    assert_eq!(codes(&mut client, &requests), [ok, ok, ok, ok, OVER]);
    assert_eq!(used(&mut client), "count=2,bytes=0");
}

#[test]
fn znode_below_two_quotas_counts_for_both() {
    let (_keeper, mut client) = start_enforcing();
    client.create("/a/b", b"");
    set_quota(&mut client, &hard(3, -1));
    client.create("/zookeeper/quota/a/b", b"");
    client.create("/zookeeper/quota/a/b/zookeeper_limits", hard(10, -1).as_bytes());
    client.create("/zookeeper/quota/a/b/zookeeper_stats", b"");
    client.create("/a/b/1", b"");
    assert_eq!(used(&mut client), "count=3,bytes=0");
    assert_eq!(client.call(&creation("/a/b/2", b"", 0)).header.err, OVER, "the outer one is full");
}

#[test]
fn nobody_but_the_keeper_counts() {
    let (mut keeper, mut client) = start_enforcing();
    set_quota(&mut client, &hard(1, -1));
    client.set(STATS, b"count=-100,bytes=-100");
    assert_eq!(used(&mut client), "count=1,bytes=0");
    assert_eq!(client.call(&creation("/a/1", b"", 0)).header.err, OVER);
    keeper.kill();
    keeper.restart();
    let mut client = RawClient::open(keeper.address());
    assert_eq!(used(&mut client), "count=1,bytes=0");
}
