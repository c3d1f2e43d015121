//! Who we are, and what is ours: digest authentication, TLS, mutual TLS.

use std::net::SocketAddr;

use menagerie_kernel::session::{Auth, IfLate, Rights, Tls};
use menagerie_kernel::{CallError, Config, ConnectError, Session};
use menagerie_testkit::{Authority, Keeper, Server, free_port};
use menagerie_znodes::{Kind, kernel};

use crate::world::{LONG, World};

#[tokio::test]
async fn what_a_user_creates_is_closed_to_others() {
    let world = World::new("auth");
    let mut config = world.config(LONG);
    config.auth = Some(Auth { digest: "fleet:secret".to_owned() });
    let ours = Session::connect(config.clone()).await.unwrap();
    ours.term().create("/private", b"x", Kind::Persistent, IfLate::Report).await.unwrap();

    let stranger = Session::connect({
        let mut config = world.config(LONG);
        config.rights = Rights::Observer;
        config
    });
    let denied =
        ConnectError::Denied { servers: world.config(LONG).servers, why: "not authorized".to_owned() };
    assert_eq!(stranger.await.err(), Some(denied));

    let again = Session::connect(config).await.unwrap();
    assert_eq!(again.term().get("/private").await.unwrap().0, b"x");
}

#[tokio::test]
async fn open_namespace_admits_everybody_but_what_a_user_made_in_it_stays_closed() {
    let world = World::new("mixed");
    let open = world.session().await;
    let mut config = world.config(LONG);
    config.auth = Some(Auth { digest: "fleet:secret".to_owned() });
    let ours = Session::connect(config).await.unwrap();
    ours.term().create("/private", b"x", Kind::Persistent, IfLate::Report).await.unwrap();
    let denied = CallError::Denied { path: "/private".to_owned() };
    assert_eq!(open.term().get("/private").await, Err(denied));
    assert!(open.term().get(kernel::generation().path()).await.is_ok());
}

fn tls_keeper(authority: &Authority, mutual: bool) -> (Server, SocketAddr) {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let file = |name| authority.file(name).display().to_string();
    let (listen, certificate, key, ca) =
        (address.to_string(), file("cert.pem"), file("key.pem"), file("ca.pem"));
    let mut keeper =
        Keeper::new().args(["--tls-listen", &listen, "--tls-cert", &certificate, "--tls-key", &key]);
    if mutual {
        keeper = keeper.args(["--tls-ca", &ca]);
    }
    (keeper.start(), address)
}

fn tls_config(address: SocketAddr, authority: &Authority) -> (Config, Tls) {
    let mut config = Config::new(address.to_string(), "/menagerie");
    config.timeout = LONG;
    let ca = std::fs::read_to_string(authority.file("ca.pem")).unwrap();
    (config, Tls { ca, identity: None })
}

#[tokio::test]
async fn session_over_tls_believes_its_authority_alone() {
    let authority = Authority::new();
    let (_server, address) = tls_keeper(&authority, false);
    let (mut config, tls) = tls_config(address, &authority);
    config.tls = Some(tls);
    let session = Session::connect(config.clone()).await.unwrap();
    assert!(session.term().stat("/generation").await.unwrap().is_some());
    let (_, stranger) = tls_config(address, &Authority::new());
    config.tls = Some(stranger);
    assert!(matches!(Session::connect(config.clone()).await, Err(ConnectError::Unreachable { .. })));
    config.tls = Some(Tls { ca: "not a certificate".to_owned(), identity: None });
    assert!(matches!(Session::connect(config).await, Err(ConnectError::Tls { .. })));
}

#[tokio::test]
async fn server_that_wants_a_certificate_gets_ours() {
    let authority = Authority::new();
    let (_server, address) = tls_keeper(&authority, true);
    let (mut config, mut tls) = tls_config(address, &authority);
    config.tls = Some(tls.clone());
    assert!(matches!(Session::connect(config.clone()).await, Err(ConnectError::Unreachable { .. })));
    tls.identity = Some(authority.identity("host-1").pem);
    config.tls = Some(tls);
    assert!(Session::connect(config).await.is_ok());
}
