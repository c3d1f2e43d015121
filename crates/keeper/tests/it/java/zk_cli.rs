//! ZooKeeper's own shell.

use menagerie_testkit::{Keeper, ZOOKEEPER_JARS, java};

use super::text;

/// What is typed, and what must appear for it, on standard output and on standard error. Everything appears in this
/// order.
const SESSION: [(&str, &[&str], &[&str]); 25] = [
    ("create /zk one", &[], &["Created /zk\n"]),
    ("create -s /zk/n- two", &[], &["Created /zk/n-0000000000"]),
    ("create -e /zk/eph three", &[], &["Created /zk/eph"]),
    ("create -c /zk/container", &[], &["Created /zk/container"]),
    ("create -t 100000 /zk/ttl", &[], &["Created /zk/ttl"]),
    ("get -s /zk", &["one\ncZxid = ", "cversion = 4\n", "dataLength = 3\nnumChildren = 4\n"], &[]),
    ("ls -R /zk", &["/zk\n/zk/container\n/zk/eph\n/zk/n-0000000000\n/zk/ttl\n"], &[]),
    ("set /zk four", &[], &[]),
    ("set -v 0 /zk five", &[], &["version No is not valid : /zk"]),
    ("stat /zk", &["cZxid = ", "dataVersion = 1\n", "ephemeralOwner = 0x0\ndataLength = 4\n"], &[]),
    ("getAcl /zk", &["'world,'anyone\n: cdrwa\n"], &[]),
    ("addauth digest alice:secret", &[], &[]),
    ("create /zk/own mine auth:alice:cdrwa", &[], &["Created /zk/own"]),
    ("getAcl /zk/own", &["'digest,'alice:aYXlLOpEooaV1cRAvUL1fp9Qt7E=\n: cdrwa\n"], &[]),
    ("whoami", &["Auth scheme: User\n", "digest: alice\n"], &[]),
    ("setquota -n 10 /zk", &[], &[]),
    (
        "listquota /zk",
        &["Output quota for /zk count=10,bytes=-1", "Output stat for /zk count=6,bytes=16"],
        &[],
    ),
    ("delquota /zk", &[], &[]),
    ("addWatch -m PERSISTENT_RECURSIVE /w", &[], &[]),
    ("create /w", &[], &["Created /w"]),
    ("getEphemerals /zk", &["[/zk/eph]\n"], &[]),
    ("getAllChildrenNumber /zk", &["5\n"], &[]),
    ("delete /zk/n-0000000000", &[], &[]),
    ("deleteall /zk", &[], &[]),
    ("ls /", &["[w, zookeeper]\n"], &[]),
];

#[test]
fn zookeepers_own_shell_works() {
    let keeper = Keeper::new().start();
    let input: String =
        SESSION.iter().map(|(typed, ..)| format!("{typed}\n")).chain(["quit\n".to_owned()]).collect();
    let address = keeper.address().to_string();
    let args = ["org.apache.zookeeper.ZooKeeperMain", "-waitforconnection", "-server", &address];
    let run = java(&ZOOKEEPER_JARS, &args, &input);
    let (stdout, stderr) = (text(&run.stdout), text(&run.stderr));
    assert_in_order("standard output", &stdout, SESSION.iter().flat_map(|(_, out, _)| *out));
    assert_in_order("standard error", &stderr, SESSION.iter().flat_map(|(.., err)| *err));
    // Another thread of the shell prints it, whenever that comes to it.
    assert!(stdout.contains("type:NodeCreated path:/w"), "the watch is not told of:\n{stdout}");
}

fn assert_in_order<'a>(name: &str, said: &str, expected: impl Iterator<Item = &'a &'a str>) {
    let mut rest = said;
    for part in expected {
        match rest.split_once(part) {
            Some((_, behind)) => rest = behind,
            None => panic!("{name} does not say {part:?} where it should:\n{said}"),
        }
    }
}
