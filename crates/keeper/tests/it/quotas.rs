//! Quotas, in the znodes that other tools use for them.

use menagerie_testkit::{Keeper, RawClient};
use menagerie_wire::ErrorCode;

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
