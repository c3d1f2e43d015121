//! Much at once: what a client may build up within all limits must not be too much for the keeper.

use menagerie_testkit::{Keeper, RawClient, Server, eventually};
use menagerie_wire::{ErrorCode, MultiOp, Request};

use crate::ask::{EPHEMERAL, create, create_as, delete, done, look, open_with_timeout};
use crate::process::peak_rss_mb;

/// The paths of these many ephemeral znodes add up to more than a record of the log may hold (64 MiB).
const EPHEMERALS: usize = 75;

fn long_path(at: usize) -> String {
    format!("/{at}-{}", "x".repeat(1_000_000))
}

fn create_ephemerals(client: &mut RawClient) {
    for at in 0..EPHEMERALS {
        done(client, &create_as(&long_path(at), b"", EPHEMERAL));
    }
}

#[track_caller]
fn assert_all_gone(server: &Server) {
    let mut witness = RawClient::open(server.address());
    for at in [0, EPHEMERALS / 2, EPHEMERALS - 1] {
        eventually("ephemeral znodes go", || look(&mut witness, &long_path(at)).is_none().then_some(()));
    }
}

#[test]
fn session_with_many_long_ephemerals_can_be_closed() {
    let mut server = Keeper::new().start();
    let mut client = RawClient::open(server.address());
    create_ephemerals(&mut client);
    done(&mut client, &Request::CloseSession);
    assert_all_gone(&server);
    server.kill();
    server.restart();
    assert_all_gone(&server);
}

#[test]
fn session_with_many_long_ephemerals_can_expire() {
    let mut server = Keeper::new().args(["--tick", "100"]).start();
    let mut client = open_with_timeout(server.address(), 2000);
    create_ephemerals(&mut client);
    assert_all_gone(&server);
    server.kill();
    server.restart();
    assert_all_gone(&server);
}

#[test]
fn small_request_cannot_ask_for_an_endless_reply() {
    let server = Keeper::new().start();
    let mut client = RawClient::open(server.address());
    done(&mut client, &create("/large", &vec![7; 1_000_000]));
    let reads = vec![MultiOp::GetData { path: "/large", watch: false }; 5_000];
    let reply = client.call(&Request::MultiRead(reads));
    assert_ne!(reply.header.err, ErrorCode::Ok, "five gigabytes");
    let peak = peak_rss_mb(server.pid());
    assert!(peak < 256, "the attempt took {peak} MB");
    done(&mut client, &delete("/large"));
}
