//! A world, and what can happen to its sessions and processes.

use std::fs;
use std::net::TcpStream;

use menagerie_kernel::session::IfLate;
use menagerie_testkit::{LONG, SHORT, World, eventually_async};
use menagerie_znodes::Kind;

#[tokio::test]
async fn sessions_of_one_world_see_each_other_and_those_of_another_see_nothing() {
    let (world, other) = (World::new("world"), World::new("world"));
    let session = world.session().await;
    session.term().create("/here", b"", Kind::Persistent, IfLate::Report).await.unwrap();
    let again = world.session_with(|config| config.timeout = SHORT).await;
    assert!(again.term().stat("/here").await.unwrap().is_some());
    assert_eq!(again.config().timeout, SHORT);
    assert!(other.session().await.term().stat("/here").await.unwrap().is_none());
    assert_eq!(world.config(LONG).servers, world.connect_string());
}

#[tokio::test]
async fn what_is_behind_a_proxy_is_cut_off_alone() {
    let world = World::new("world-proxy");
    let (cut_off, proxy) = world.session_through_proxy(SHORT).await;
    let session = world.session().await;
    cut_off.term().create("/mine", b"", Kind::Ephemeral, IfLate::Report).await.unwrap();
    proxy.partition();
    eventually_async("its session is over", async || {
        session.term().stat("/mine").await.unwrap().is_none().then_some(())
    })
    .await;
}

#[test]
fn a_process_behind_a_proxy_finds_the_same_root_and_only_that_way() {
    let world = World::new("world-far");
    let (far, proxy) = world.environment_through_proxy();
    let list = ["zk", "ls", "-n", "/"];
    let create = ["zk", "create", "/made"];
    assert_eq!(world.environment().spawn(&create).wait_for_end().status.code(), Some(0));
    assert_eq!(far.spawn(&list).wait_for_end().stdout, ["made"]);
    proxy.cut();
    let hasty = far.with("MENAGERIE_SESSION_TIMEOUT", "1s");
    assert!(!hasty.spawn(&list).wait_for_end().status.success());
}

#[test]
fn a_killed_daemon_comes_back_on_its_port_and_its_data() {
    let world = World::new("world-daemon");
    let mut journal = world.serve(&["journal"]);
    let token = || fs::read(world.environment().folder().join("data/journal/token")).unwrap();
    let (address, before) = (journal.address(), token());
    journal.kill();
    assert!(TcpStream::connect(address).is_err());
    journal.restart();
    assert_eq!(journal.address(), address);
    TcpStream::connect(address).unwrap();
    assert_eq!(token(), before);
    assert_eq!(journal.stop().status.code(), Some(0));
    journal.restart();
    let run = |args: &[&str]| {
        let end = world.environment().spawn(args).wait_for_end();
        assert!(end.status.success(), "{args:?}: {}", end.stderr);
    };
    run(&["queue", "create", "mail", "--partitions", "1"]);
    let mut worker = world.start(&["worker", "mail", "--settle", "100ms", "--", "true"]);
    let first = worker.id();
    // It still runs: restart kills it first.
    worker.restart();
    assert_ne!(worker.id(), first);
    assert_eq!(worker.stop().status.code(), Some(0));
}

#[test]
#[should_panic(expected = "has not said where it listens")]
fn a_daemon_that_listens_nowhere_has_no_address() {
    let world = World::new("world-nowhere");
    let _journal = world.serve(&["journal"]);
    world.start(&["worker", "mail", "--", "true"]).address();
}
