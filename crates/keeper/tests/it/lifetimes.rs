//! Znodes that the server removes by itself. The keeper runs in this process, because nobody waits a minute for a sweep.

use std::net::Ipv4Addr;

use menagerie_keeper::{Config, Durability, Keeper};
use menagerie_testkit::{RawClient, eventually};
use menagerie_wire::request::Create;
use menagerie_wire::{Acl, EventKind, OpCode, Request};
use prometheus_client::registry::Registry;
use tempfile::TempDir;

use crate::verbs::{Verbs, accepted};

/// A keeper that sweeps all the time. Stops when it is dropped.
struct Sweeping {
    keeper: Option<Keeper>,
    /// Behind the keeper, which must be gone before its data.
    _data: TempDir,
}

impl Sweeping {
    fn start() -> (Self, RawClient) {
        let data = TempDir::new().unwrap();
        let config = Config {
            durability: Durability::Os,
            sweep_interval_ms: 20,
            ..Config::new(data.path().to_owned(), (Ipv4Addr::LOCALHOST, 0).into())
        };
        let keeper = Keeper::start(config, &mut Registry::default()).unwrap();
        let client = RawClient::open(keeper.address());
        (Self { keeper: Some(keeper), _data: data }, client)
    }
}

impl Drop for Sweeping {
    fn drop(&mut self) {
        let keeper = self.keeper.take().expect("it is dropped once");
        keeper.stopper().stop();
        keeper.wait().expect("it stops cleanly");
    }
}

fn create_mortal(client: &mut RawClient, path: &str, ttl: Option<i64>) {
    let (op, flags) = if ttl.is_some() { (OpCode::CreateTtl, 5) } else { (OpCode::CreateContainer, 4) };
    let create = Create { path, data: None, acl: vec![Acl::open()], flags, ttl };
    accepted(&client.call(&Request::Create { op, create }));
}

/// Waits until at least one whole sweep has begun and ended, shown by a znode that each sweep removes.
fn let_it_sweep(client: &mut RawClient) {
    for _ in 0..2 {
        create_mortal(client, "/canary", Some(1));
        eventually("the canary is swept", || client.find("/canary").is_none().then_some(()));
    }
}

#[test]
fn container_goes_when_it_has_lost_its_last_child_and_not_before() {
    let (_keeper, mut client) = Sweeping::start();
    create_mortal(&mut client, "/never-used", None);
    create_mortal(&mut client, "/in-use", None);
    client.create("/in-use/child", b"");
    create_mortal(&mut client, "/done", None);
    client.create("/done/child", b"");
    let_it_sweep(&mut client);
    assert!(client.find("/done").is_some(), "it has a child");
    client.watch_data("/done");
    client.delete("/done/child");
    eventually("the container is swept", || client.find("/done").is_none().then_some(()));
    let told: Vec<_> = client.take_events().into_iter().map(|event| (event.kind, event.path)).collect();
    assert_eq!(told, [(EventKind::Deleted, "/done".to_owned())]);
    assert!(client.find("/never-used").is_some());
    assert!(client.find("/in-use").is_some());
}

#[test]
fn containers_inside_containers_go_one_after_the_other() {
    let (_keeper, mut client) = Sweeping::start();
    create_mortal(&mut client, "/a", None);
    create_mortal(&mut client, "/a/b", None);
    client.create("/a/b/c", b"");
    client.delete("/a/b/c");
    eventually("both are swept", || client.find("/a").is_none().then_some(()));
}

#[test]
fn znode_with_a_time_to_live_goes_when_it_is_old_and_has_no_children() {
    let (_keeper, mut client) = Sweeping::start();
    // Long enough to get a child in time, short enough to wait for.
    create_mortal(&mut client, "/parent", Some(1000));
    client.create("/parent/child", b"");
    create_mortal(&mut client, "/young", Some(3_600_000));
    create_mortal(&mut client, "/sibling", Some(1000));
    eventually("its younger sibling is swept", || client.find("/sibling").is_none().then_some(()));
    assert!(client.find("/young").is_some());
    assert!(client.find("/parent").is_some(), "it has a child");
    client.delete("/parent/child");
    eventually("it is swept", || client.find("/parent").is_none().then_some(()));
}
