use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};

use menagerie_testkit::{Authority, Identity};
use rustls::{ClientConnection, StreamOwned};
use serde_json::Value;

use super::{Client, Server, connect};
use crate::queues::Fleet;
use crate::tls::client::connection;

fn path(authority: &Authority, name: &str) -> String {
    authority.file(name).to_str().expect("its name is text").to_owned()
}

fn open(
    address: SocketAddr,
    authority: &Authority,
    identity: Option<Identity>,
    key: &str,
) -> Client<StreamOwned<ClientConnection, TcpStream>> {
    let socket = connect(address).expect("it listens");
    Client::over(StreamOwned::new(connection(address, authority, identity), socket), key)
}

#[test]
fn queues_are_served_over_tls_and_not_beside_it() {
    let fleet = Fleet::new("http-over-tls");
    let key = fleet.user.ok(&["queue", "key", "add", "notes", "--admin"]).trim().to_owned();
    let authority = Authority::new();
    let (cert, private) = (path(&authority, "cert.pem"), path(&authority, "key.pem"));
    let server = Server::start(&fleet.user, &["--tls-cert", &cert, "--tls-key", &private]);
    let mut client = open(server.address, &authority, None, &key);
    let ask = |client: &mut Client<_>, method: &str, path: &str, body: &str| {
        client.ask(method, path, "", body).expect("it answers")
    };
    assert_eq!(ask(&mut client, "POST", "/v1/notes", "queue_name=mail").0, 201);
    // Many records each way, over one connection.
    let large = "x".repeat(1 << 20);
    assert_eq!(ask(&mut client, "POST", "/v1/notes/mail", &large).0, 201);
    let (code, read) = ask(&mut client, "GET", "/v1/notes/mail", "");
    assert_eq!((code, &read["messages"][0]["body"]), (200, &Value::from(large)));
    let last = read["messages"][0]["message_id"].as_str().expect("it has an id").to_owned();
    let mut reader = open(server.address, &authority, None, &key);
    let waiting = std::thread::spawn(move || {
        reader.ask("GET", &format!("/v1/notes/mail?after={last}&wait=60"), "", "").expect("it answers").1
    });
    assert_eq!(ask(&mut client, "POST", "/v1/notes/mail", "hello").0, 201);
    assert_eq!(waiting.join().expect("nobody panics")["messages"][0]["body"], "hello");
    assert_eq!(
        open(server.address, &authority, None, "")
            .ask("GET", "/v1/notes/mail", "", "")
            .expect("it answers")
            .0,
        403
    );

    let plain =
        Client::open(server.address, &key).and_then(|mut client| client.ask("GET", "/v1/notes", "", ""));
    assert!(plain.is_err(), "nothing is said to who does not encrypt: {plain:?}");
    let strange = open(server.address, &Authority::new(), None, &key).ask("GET", "/v1/notes", "", "");
    assert_eq!(strange.expect_err("it is not whom they trust").kind(), ErrorKind::InvalidData);
    assert_eq!(ask(&mut client, "GET", "/v1/notes", "").0, 200, "the others have not disturbed");
}

#[test]
fn where_certificates_are_wanted_a_key_alone_is_not_enough() {
    let fleet = Fleet::new("http-mutual-tls");
    let key = fleet.user.ok(&["queue", "key", "add", "notes", "--admin"]).trim().to_owned();
    let authority = Authority::new();
    let [cert, private, ca] = ["cert.pem", "key.pem", "ca.pem"].map(|name| path(&authority, name));
    let server = Server::start(&fleet.user, &["--tls-cert", &cert, "--tls-key", &private, "--tls-ca", &ca]);
    let ask = |identity: Option<Identity>, key: &str| {
        let asked = open(server.address, &authority, identity, key).ask("GET", "/v1/notes", "", "");
        asked.map(|(code, _)| code)
    };
    assert!(ask(None, &key).is_err());
    assert!(ask(Some(Authority::new().identity("alice")), &key).is_err(), "of another authority");
    assert_eq!(ask(Some(authority.identity("alice")), &key).expect("she is served"), 200);
    assert_eq!(
        ask(Some(authority.identity("alice")), "").expect("she is served"),
        403,
        "nor is a certificate"
    );
}
