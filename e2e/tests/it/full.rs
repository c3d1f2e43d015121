//! A full disk: the keeper stops with a clear message, and nothing acknowledged is lost.

use std::net::SocketAddr;

use menagerie_testkit::{DEADLINE, Incoming, Keeper, Process, RawClient, Server};
use menagerie_wire::ErrorCode;

use crate::ask::{create, read_znode};

/// Makes every write beyond 2 MB into a file fail instead of ending the process, then execs the keeper. A limit on
/// file sizes needs no privileges, unlike a small file system; the error is then "file too large" instead of "no
/// space left", which `strace.rs` tests.
const LIMITED: [&str; 4] = ["sh", "-c", "trap '' XFSZ; ulimit -f 4000; exec \"$@\"", "sh"];

/// Creates znodes until the keeper answers no more; returns how many it acknowledged.
pub fn create_until_the_end(server: &Server) -> usize {
    let mut client = RawClient::open(server.address());
    for at in 0.. {
        client.send(&create(&format!("/{at}"), &[7; 20_000]));
        match client.reply(DEADLINE) {
            Some(Incoming::Reply(reply)) => assert_eq!(reply.header.err, ErrorCode::Ok),
            Some(Incoming::Closed) => return at,
            other => panic!("neither an answer nor the end: {other:?}"),
        }
        assert!(at < 10_000, "the disk does not get full");
    }
    unreachable!("it ends when the keeper does")
}

/// Starts an unrestricted keeper on the data of an ended one, and checks that everything acknowledged is there.
pub fn assert_all_there(server: &Server, acknowledged: usize) {
    let data = server.data().to_str().expect("its name is text");
    let keeper = Process::menagerie(["keeper", "--listen", "127.0.0.1:0", "--data", data]);
    let address: SocketAddr = keeper.wait_until_listening("keeper");
    let mut client = RawClient::open(address);
    for at in 0..acknowledged {
        let (data, _) = read_znode(&mut client, &format!("/{at}")).unwrap_or_else(|| panic!("/{at} is lost"));
        assert_eq!(data, [7; 20_000]);
    }
    // It continues where it stopped.
    assert_eq!(client.call(&create("/more", b"")).header.err, ErrorCode::Ok);
}

#[test]
fn keeper_stops_with_a_clear_message_and_loses_nothing() {
    let mut server = Keeper::new().under(LIMITED).start();
    let acknowledged = create_until_the_end(&server);
    assert!(acknowledged > 0, "there was room at first");
    let end = server.wait_for_end();
    assert_eq!(end.status.code(), Some(74), "{}", end.stderr);
    for word in ["error: ", "because: ", "File too large", "help: "] {
        assert!(end.stderr.contains(word), "{word:?} is missing in:\n{}", end.stderr);
    }
    assert_all_there(&server, acknowledged);
}
