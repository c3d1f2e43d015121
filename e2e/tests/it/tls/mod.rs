//! TLS: who may connect, as whom, and what is on the wire.

pub mod client;

use menagerie_testkit::{Authority, Keeper, RawClient, Server, eventually, four_letter_word, free_port};
use menagerie_wire::request::Create;
use menagerie_wire::{Acl, ErrorCode, Id, OpCode, Perms, Request, Response};
use std::net::SocketAddr;

use self::client::TlsClient;
use crate::ask::{create, done, get, set};

/// A keeper that offers TLS, with certificates of this authority; it requires client certificates only with `mutual`.
fn start(authority: &Authority, trust: Trust) -> (Server, SocketAddr) {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let [cert, key, ca] = ["cert.pem", "key.pem", "ca.pem"]
        .map(|name| authority.file(name).to_str().expect("its name is text").to_owned());
    let mut keeper = Keeper::new();
    keeper = keeper.args(["--tls-listen", &address.to_string(), "--tls-cert", &cert, "--tls-key", &key]);
    if trust == Trust::Mutual {
        keeper = keeper.args(["--tls-ca", &ca]);
    }
    (keeper.start(), address)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    ServerOnly,
    Mutual,
}

fn identities(client: &mut TlsClient) -> Vec<Id> {
    let reply = client.call(Request::WhoAmI);
    match reply.response(OpCode::WhoAmI) {
        Ok(Response::Identities(ids)) => ids,
        other => panic!("whoAmI answers with {other:?}"),
    }
}

#[test]
fn client_without_a_certificate_is_served_where_none_is_wanted() {
    let authority = Authority::new();
    let (server, address) = start(&authority, Trust::ServerOnly);
    let mut client = TlsClient::open(address, &authority, None).expect("it is served");
    assert_eq!(client.call(create("/over-tls", &[7; 100_000])).header.err, ErrorCode::Ok);
    // Both listeners serve the same data.
    let mut plain = RawClient::open(server.address());
    assert_eq!(crate::ask::read_znode(&mut plain, "/over-tls").expect("it is there").0, [7; 100_000]);
    assert!(identities(&mut client).iter().all(|id| id.scheme != "x509"));
}

#[test]
fn client_must_show_a_certificate_of_the_authority_where_one_is_wanted() {
    let authority = Authority::new();
    let (server, address) = start(&authority, Trust::Mutual);
    assert!(TlsClient::open(address, &authority, None).is_err(), "without a certificate");
    let stranger = Authority::new().identity("alice");
    assert!(TlsClient::open(address, &authority, Some(stranger)).is_err(), "of another authority");
    let alice = authority.identity("alice");
    let mut client = TlsClient::open(address, &authority, Some(alice)).expect("she is served");
    assert_eq!(client.call(create("/hers", b"")).header.err, ErrorCode::Ok);
    assert_eq!(four_letter_word(server.address(), "ruok"), "imok");
}

#[test]
fn certificate_is_an_identity_that_access_lists_can_name() {
    let authority = Authority::new();
    let (server, address) = start(&authority, Trust::Mutual);
    let open =
        |name| TlsClient::open(address, &authority, Some(authority.identity(name))).expect("a session");
    let mut alice = open("alice");
    // As RFC 2253 writes it: the most specific part first, whatever the order in the certificate.
    let subject = Id::new("x509", "CN=alice,O=Menagerie");
    assert!(identities(&mut alice).contains(&subject), "{:?}", identities(&mut alice));
    let acl = vec![Acl { perms: Perms::ALL, id: subject }];
    let hers = Create { path: "/hers", data: Some(b""), acl, flags: 0, ttl: None };
    assert_eq!(alice.call(Request::Create { op: OpCode::Create, create: hers }).header.err, ErrorCode::Ok);
    assert_eq!(alice.call(set("/hers", b"mine")).header.err, ErrorCode::Ok);
    assert_eq!(open("alice").call(get("/hers")).header.err, ErrorCode::Ok, "by another certificate of hers");
    assert_eq!(open("bob").call(get("/hers")).header.err, ErrorCode::NoAuth);
    assert_eq!(RawClient::open(server.address()).call(&get("/hers")).header.err, ErrorCode::NoAuth);
}

#[test]
fn each_frame_has_a_record_of_its_own() {
    let authority = Authority::new();
    let (_server, address) = start(&authority, Trust::ServerOnly);
    let mut client = TlsClient::open(address, &authority, None).expect("a session");
    client.call(create("/a", b""));
    // Session tickets and the like have arrived by now.
    let before = client.data_records();
    client.call_all(&[get("/a"), get("/a"), get("/none"), get("/a")]);
    assert_eq!(client.data_records() - before, 4, "four replies, produced together");
}

#[test]
fn renewed_certificate_is_used_without_a_restart() {
    let authority = Authority::new();
    let (server, address) = start(&authority, Trust::ServerOnly);
    let mut old = TlsClient::open(address, &authority, None).expect("a session");
    let renewed = authority.renew_server();
    assert_ne!(old.server_certificate(), renewed);
    let mut new = eventually("new connections see the new certificate", || {
        // Between the two writes the files did not match; the old ones are used then.
        let client = TlsClient::open(address, &authority, None).expect("a session");
        (client.server_certificate() == renewed).then_some(client)
    });
    for client in [&mut old, &mut new] {
        assert_eq!(client.call(Request::Exists { path: "/", watch: false }).header.err, ErrorCode::Ok);
    }
    // Invalid files change nothing.
    std::fs::write(authority.file("cert.pem"), "garbage").expect("a file can be written");
    done(&mut RawClient::open(server.address()), &create("/still", b""));
    let still = TlsClient::open(address, &authority, None).expect("a session");
    assert_eq!(still.server_certificate(), renewed);
}
