//! TLS, for other machines.

use std::net::{SocketAddr, TcpStream};

use menagerie_testkit::{Authority, Identity};
use rustls::{ClientConnection, StreamOwned};

use super::{Web, ask, connect, token};
use crate::cli::User;
use crate::tls::client::connection;

fn path(authority: &Authority, name: &str) -> String {
    authority.file(name).to_str().expect("its name is text").to_owned()
}

fn open(
    address: SocketAddr,
    authority: &Authority,
    identity: Option<Identity>,
) -> StreamOwned<ClientConnection, TcpStream> {
    let socket = connect(address).expect("it listens");
    StreamOwned::new(connection(address, authority, identity), socket)
}

#[test]
fn pages_and_rest_are_served_over_tls_and_not_beside_it() {
    let user = User::new("web-tls");
    let token = token(&user, "read");
    let authority = Authority::new();
    let (cert, key) = (path(&authority, "cert.pem"), path(&authority, "key.pem"));
    let web = Web::start(&user, &["--tls-cert", &cert, "--tls-key", &key]);
    let get = |path: &str, token: &str| {
        ask(open(web.address, &authority, None), "GET", path, token, "").expect("it answers")
    };
    assert!(get("/api/v1/slots", &token).value()["items"].is_array());
    let login = get(&format!("/login?token={token}"), "");
    assert!(login.code == 303 && login.head.contains("; Secure"), "{}", login.head);

    assert!(web.try_get(&token, "/slots").is_err(), "nothing is said to those who do not encrypt");
    let stranger = ask(open(web.address, &Authority::new(), None), "GET", "/", &token, "");
    assert!(stranger.is_err(), "it is not whom they trust");
    assert_eq!(get("/slots", &token).code, 200, "the others have not disturbed");
}

#[test]
fn where_certificates_are_wanted_a_token_alone_is_not_enough() {
    let user = User::new("web-mutual-tls");
    let token = token(&user, "read");
    let authority = Authority::new();
    let [cert, key, ca] = ["cert.pem", "key.pem", "ca.pem"].map(|name| path(&authority, name));
    let web = Web::start(&user, &["--tls-cert", &cert, "--tls-key", &key, "--tls-ca", &ca]);
    let get = |identity| ask(open(web.address, &authority, identity), "GET", "/api/v1/slots", &token, "");
    assert!(get(None).is_err());
    assert!(get(Some(Authority::new().identity("alice"))).is_err(), "of another authority");
    assert_eq!(get(Some(authority.identity("alice"))).expect("she is served").code, 200);
}
