//! Who may connect.

use std::net::SocketAddr;

use super::rig::{CONNECTIONS_MAX, Rig};

#[test]
fn one_address_gets_so_many_connections_and_no_more_but_loopback_gets_all_it_wants() {
    let mut rig = Rig::new();
    let from = |text: &str| -> SocketAddr { text.parse().unwrap() };
    let (peer, neighbour) = (from("192.0.2.1:1000"), from("192.0.2.2:1000"));
    let clients: Vec<_> = (0..CONNECTIONS_MAX)
        .map(|_| {
            assert!(rig.server.admits(peer));
            rig.connect(peer)
        })
        .collect();
    assert!(!rig.server.admits(peer));
    assert!(!rig.server.admits(from("192.0.2.1:2000")), "the port does not matter");
    assert!(rig.server.admits(neighbour));
    rig.server.close(clients[0].id);
    assert!(rig.server.admits(peer), "one has left");
    for loopback in ["127.0.0.1:1000", "[::1]:1000", "[::ffff:127.0.0.1]:1000"] {
        for _ in 0..=CONNECTIONS_MAX {
            rig.connect(from(loopback));
        }
        assert!(rig.server.admits(from(loopback)), "{loopback}");
    }
}
