//! Every fault, as a client and as its server see it. Each test has its own proxy; all share the ensemble.

use std::time::{Duration, Instant};

use menagerie_testkit::{
    Connect, DEADLINE, Incoming, OpCode, Proxy, RawClient, Refusal, ensemble, eventually, four_letter_word,
};
use menagerie_wire::Request;

use crate::ask::{create, creation, exists};

/// Wait this long to see that nothing arrives: far longer than an answer on loopback takes.
const SILENCE: Duration = Duration::from_millis(150);

fn proxy() -> Proxy {
    Proxy::new(ensemble().addresses()[0])
}

/// A client that bypasses the proxy.
fn witness() -> RawClient {
    RawClient::open(ensemble().addresses()[0])
}

fn is_closed(client: &mut RawClient) -> bool {
    matches!(client.reply(DEADLINE), Some(Incoming::Closed))
}

#[test]
fn without_faults_a_proxy_is_not_felt() {
    let (proxy, path) = (proxy(), ensemble().fresh_path("plain"));
    let mut client = RawClient::open(proxy.address());
    create(&mut client, &format!("{path}/a"), 0);
    assert!(exists(&mut client, &format!("{path}/a")));
    assert!(four_letter_word(proxy.address(), "srvr").contains("Mode: "));
    eventually("the word's connection is gone", || (proxy.connections() == 1).then_some(()));
    client.end_session();
    eventually("the client's connection is gone", || (proxy.connections() == 0).then_some(()));
}

#[test]
fn requests_are_counted_by_operation() {
    let (proxy, path) = (proxy(), ensemble().fresh_path("counted"));
    let mut client = RawClient::open(proxy.address());
    client.ping();
    create(&mut client, &format!("{path}/a"), 0);
    create(&mut client, &format!("{path}/b"), 0);
    let expected = [(OpCode::CreateSession, 1), (OpCode::Create, 2), (OpCode::Ping, 1)];
    assert_eq!(proxy.requests(), expected.into_iter().map(|(op, n)| (op.code(), n)).collect());
    assert_eq!(proxy.requests_of(OpCode::Create), 2);
    assert_eq!(proxy.take_requests().len(), 3);
    assert_eq!(proxy.requests_of(OpCode::Create), 0);
}

#[test]
fn a_lost_connection_can_be_opened_again_at_once() {
    let proxy = proxy();
    let mut client = RawClient::open(proxy.address());
    proxy.lose_connections();
    assert!(is_closed(&mut client));
    assert_eq!(proxy.connections(), 0);
    let again = RawClient::connect(proxy.address(), &client.resumption()).unwrap();
    assert_eq!(again.session().id, client.session().id);
}

#[test]
fn a_cut_lasts_until_it_is_healed() {
    let proxy = proxy();
    let mut client = RawClient::open(proxy.address());
    proxy.cut();
    assert!(is_closed(&mut client));
    assert!(matches!(RawClient::connect(proxy.address(), &client.resumption()), Err(Refusal::Closed)));
    proxy.heal();
    RawClient::connect(proxy.address(), &client.resumption()).unwrap();
}

#[test]
fn a_delay_holds_for_each_way_and_keeps_the_order() {
    let proxy = proxy();
    let mut client = RawClient::open(proxy.address());
    proxy.delay(Duration::from_millis(60));
    let start = Instant::now();
    for _ in 0..100 {
        client.send(&Request::Exists { path: "/", watch: false });
    }
    for xid in 1..=100 {
        match client.reply(DEADLINE) {
            Some(Incoming::Reply(reply)) => assert_eq!(reply.header.xid, xid),
            other => panic!("no reply: {other:?}"),
        }
    }
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(120), "{took:?}");
    assert!(took < Duration::from_secs(5), "delays add up over requests: {took:?}");
}

#[test]
fn held_requests_reach_the_server_when_healed() {
    let (proxy, path) = (proxy(), ensemble().fresh_path("requests-held"));
    let path = format!("{path}/a");
    let mut client = RawClient::open(proxy.address());
    proxy.hold_requests();
    client.send(&creation(&path, 0));
    assert_eq!(client.reply(SILENCE), None);
    assert!(!exists(&mut witness(), &path));
    assert_eq!(proxy.requests_of(OpCode::Create), 0);
    proxy.heal();
    assert!(matches!(client.reply(DEADLINE), Some(Incoming::Reply(_))));
    assert!(exists(&mut witness(), &path));
}

#[test]
fn held_replies_do_not_keep_the_server_from_acting() {
    let (proxy, path) = (proxy(), ensemble().fresh_path("replies-held"));
    let path = format!("{path}/a");
    let mut client = RawClient::open(proxy.address());
    proxy.hold_replies();
    client.send(&creation(&path, 0));
    let mut witness = witness();
    eventually("the znode is there", || exists(&mut witness, &path).then_some(()));
    assert_eq!(client.reply(SILENCE), None);
    proxy.heal();
    assert!(matches!(client.reply(DEADLINE), Some(Incoming::Reply(_))));
}

#[test]
fn a_partition_is_silent_both_ways_and_closes_nothing() {
    let proxy = proxy();
    let mut client = RawClient::open(proxy.address());
    proxy.partition();
    client.send(&Request::Ping);
    assert_eq!(client.reply(SILENCE), None);
    assert_eq!(proxy.connections(), 1);
    proxy.heal();
    assert!(matches!(client.reply(DEADLINE), Some(Incoming::Reply(_))));
}

#[test]
fn a_dropped_reply_is_to_a_request_that_took_effect() {
    let (proxy, path) = (proxy(), ensemble().fresh_path("reply-dropped"));
    let path = format!("{path}/a");
    let mut client = RawClient::open(proxy.address());
    proxy.drop_reply_of(OpCode::Create);
    client.ping();
    assert!(!exists(&mut client, &path), "other requests are answered");
    client.send(&creation(&path, 0));
    assert!(is_closed(&mut client));
    assert!(exists(&mut witness(), &path));
    assert_eq!(proxy.dropped_replies(), 1);

    // Once only: the session goes on, and so does the rest.
    let mut again = RawClient::connect(proxy.address(), &client.resumption()).unwrap();
    create(&mut again, &format!("{path}/b"), 0);
    proxy.drop_next_reply();
    again.ping();
    again.send(&Request::Exists { path: "/", watch: false });
    assert!(is_closed(&mut again));
    assert_eq!(proxy.dropped_replies(), 2);
}

#[test]
fn while_replies_are_dropped_sessions_can_still_be_resumed() {
    let (proxy, path) = (proxy(), ensemble().fresh_path("replies-dropped"));
    let mut client = RawClient::open(proxy.address());
    proxy.drop_replies();
    for name in ["a", "b"] {
        client.send(&creation(&format!("{path}/{name}"), 0));
        assert!(is_closed(&mut client));
        client = RawClient::connect(proxy.address(), &client.resumption()).unwrap();
    }
    proxy.heal();
    assert!(exists(&mut client, &format!("{path}/a")) && exists(&mut client, &format!("{path}/b")));
}

#[test]
fn a_proxy_without_a_server_closes_what_it_accepts() {
    let proxy = proxy();
    let address = ensemble().addresses()[0];
    proxy.forward_to((address.ip(), menagerie_testkit::free_port()).into());
    assert!(matches!(RawClient::connect(proxy.address(), &Connect::default()), Err(Refusal::Closed)));
    proxy.forward_to(address);
    RawClient::open(proxy.address());
}
