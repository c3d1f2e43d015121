//! The handshake: neither side accepts a peer that does not know the token, or one that only relays it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use menagerie_journal::client::{Address, Client, identify};
use menagerie_journal::server::TlsFiles;
use menagerie_journal::token::Token;
use menagerie_journal::{Identity, Journal, JournalError};
use menagerie_testkit::Authority;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::copy_bidirectional;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::served::Served;

/// A frame as docs/journal-format.md describes it.
fn frame(number: u64, kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(9 + body.len()).unwrap();
    [&length.to_le_bytes(), number.to_le_bytes().as_slice(), &[kind], body].concat()
}

/// The kind and the body of the next frame.
fn next(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut rest = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut rest).ok()?;
    Some((rest[8], rest.split_off(9)))
}

fn hello(version: u32, nonce: &[u8]) -> Vec<u8> {
    frame(0, 0, &[b"MJNL", version.to_le_bytes().as_slice(), nonce].concat())
}

/// A server that answers the first frame of each client with this, and returns what it is sent then.
fn impostor(answer: Vec<u8>) -> (SocketAddr, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answering = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        next(&mut stream).expect("a hello");
        stream.write_all(&answer).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        rest
    });
    (address, answering)
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_no_token_is_refused() {
    let served = Served::new();
    let client = Client::new(Address { tokens: vec![Token::new("wrong")], ..served.address() });
    assert!(matches!(client.usage().await, Err(JournalError::Denied(_))));
    served.client().usage().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_several_journals_finds_the_right_token_by_itself() {
    let served = Served::new();
    let ours = served.address().tokens.remove(0);
    let tokens = vec![Token::new("of another one"), ours, Token::new("of a third")];
    Client::new(Address { tokens, ..served.address() }).usage().await.unwrap();
}

#[test]
fn a_proof_that_was_overheard_lets_nobody_in() {
    let served = Served::new();
    // A man in the middle, who sees everything.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let between = Address { address: listener.local_addr().unwrap().to_string(), ..served.address() };
    let journal = served.server.address();
    let middle = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut server = TcpStream::connect(journal).unwrap();
        let pass = |from: &mut TcpStream, to: &mut TcpStream| {
            let (kind, body) = next(from).unwrap();
            let frame = frame(0, kind, &body);
            to.write_all(&frame).unwrap();
            frame
        };
        let hello = pass(&mut client, &mut server);
        pass(&mut server, &mut client);
        let proof = pass(&mut client, &mut server);
        pass(&mut server, &mut client);
        (hello, proof)
    });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // The client is accepted, and its request is never relayed.
    let asked = runtime.block_on(Client::new(between).usage());
    assert!(matches!(asked, Err(JournalError::Unreachable { .. })), "{asked:?}");
    let (hello, proof) = middle.join().unwrap();
    let mut stream = served.raw();
    stream.write_all(&hello).unwrap();
    assert_eq!(next(&mut stream).unwrap().0, 0);
    stream.write_all(&proof).unwrap();
    let (kind, why) = next(&mut stream).unwrap();
    let why = String::from_utf8_lossy(&why).into_owned();
    assert!(kind == 1 && why.contains("Denied"), "{why}");
    assert_eq!(next(&mut stream), None, "and closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_know_the_token_is_told_nothing() {
    let ids_nonce_and_proof = [5u32.to_le_bytes().as_slice(), &[7; 96]].concat();
    let token = Token::new("secret");
    for (answer, expected) in [
        // As the protocol requires, except for the proof; as a server of version 2 accepts clients; and garbage.
        (ids_nonce_and_proof, "Denied"),
        (2u32.to_le_bytes().to_vec(), "Protocol"),
        (Vec::new(), "Protocol"),
    ] {
        let (address, answering) = impostor(frame(0, 0, &answer));
        let client = Client::new(Address::plain(address.to_string(), token.clone()));
        let refused = format!("{:?}", client.usage().await.unwrap_err());
        assert!(refused.starts_with(expected), "{refused}");
        drop(client);
        assert_eq!(answering.join().unwrap(), b"", "not even a proof");
    }
}

#[test]
fn other_versions_are_told_so() {
    let served = Served::new();
    for version in [2u32, 4, 6] {
        let mut stream = served.raw();
        // A client of version 2 has its token there.
        stream.write_all(&hello(version, b"\x06secret")).unwrap();
        let (kind, why) = next(&mut stream).unwrap();
        let why = String::from_utf8_lossy(&why).into_owned();
        let told = format!("the server speaks version 5, the client {version}");
        assert!(kind == 1 && why.contains(&told), "{why}");
        assert_eq!(next(&mut stream), None, "and closed");
    }
}

#[test]
fn nothing_is_done_for_who_has_not_proven_anything() {
    let served = Served::new();
    for second in [frame(1, 9, b""), frame(1, 0, b""), frame(1, 12, &[0; 32]), frame(1, 12, b"")] {
        let mut stream = served.raw();
        stream.write_all(&hello(5, &[7; 32])).unwrap();
        assert_eq!(next(&mut stream).unwrap().0, 0, "the server proves first");
        stream.write_all(&second).unwrap();
        let rest: Vec<_> = std::iter::from_fn(|| next(&mut stream)).collect();
        assert!(rest.iter().all(|(kind, _)| *kind == 1), "{rest:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_talks_only_to_the_start_that_it_means() {
    let served = Served::new();
    let identity = served.store.identity();
    let found = identify(&served.address().address, false, Duration::from_secs(60)).await.unwrap();
    assert_eq!(found, identity);
    let expecting = |identity| Client::new(Address { identity: Some(identity), ..served.address() });
    expecting(identity).usage().await.unwrap();
    let (folder, start) = (identity.folder, identity.start);
    for (other, why) in [
        (Identity { folder: start, start }, "another journal"),
        (Identity { folder, start: folder }, "started again"),
    ] {
        let refused = expecting(other).usage().await.unwrap_err();
        assert!(
            matches!(&refused, JournalError::Unreachable { why: told, .. } if told.contains(why)),
            "{refused}"
        );
    }
    let again = Served::on(served);
    assert_eq!(again.store.identity().folder, folder);
    assert_ne!(again.store.identity().start, start);
}

/// A relay with a certificate that the client trusts, which forwards everything to the journal.
async fn passing_on(authority: &Authority, journal: SocketAddr) -> SocketAddr {
    let own = authority.identity("somebody else");
    let server =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![own.certificate], own.key);
    let mut roots = RootCertStore::empty();
    roots.add(authority.certificate()).unwrap();
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let (acceptor, connector) =
        (TlsAcceptor::from(Arc::new(server.unwrap())), TlsConnector::from(Arc::new(client)));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut ours = acceptor.accept(stream).await.unwrap();
            let stream = tokio::net::TcpStream::connect(journal).await.unwrap();
            let name = ServerName::try_from("127.0.0.1").unwrap();
            let mut theirs = connector.connect(name, stream).await.unwrap();
            let _ = copy_bidirectional(&mut ours, &mut theirs).await;
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_a_handshake_that_is_passed_on_is_refused() {
    let authority = Authority::new();
    let files = TlsFiles { cert: authority.file("cert.pem"), key: authority.file("key.pem") };
    let served = Served::with(Some(files));
    let trusting = Address { authority: Some(authority.file("ca.pem")), ..served.address() };
    Client::new(trusting.clone()).usage().await.unwrap();
    let address = passing_on(&authority, served.server.address()).await.to_string();
    let refused = Client::new(Address { address: address.clone(), ..trusting }).usage().await;
    assert!(matches!(refused, Err(JournalError::Denied(_))), "{refused:?}");
    // An identity request is answered, and it does not matter by whom.
    let found = identify(&address, true, Duration::from_secs(60)).await.unwrap();
    assert_eq!(found, served.store.identity());
}
