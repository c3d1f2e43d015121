//! Whoever can write to ZooKeeper learns none of our secrets.

use std::io::Read as _;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use menagerie_testkit::{Authority, DEADLINE};
use serde_json::json;

use super::Fleet;
use crate::cli::User;
use crate::stranger::Stranger;

const SECRET: &str = "root:$6$secret-of-this-machine";
const TOKEN: &str = "4f2d7c3aa1b6449e8d0f5b6c7d8e9f00112233445566778899aabbccddeeff00";

/// A server that only listens, and reports everything that one client sends.
fn eavesdropper() -> (SocketAddr, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            // Silence means that the client has sent everything it sends unasked.
            stream.set_read_timeout(Some(Duration::from_secs(1))).expect("a socket has options");
            let mut heard = Vec::new();
            let _ = stream.read_to_end(&mut heard);
            let _ = tell.send(heard);
        }
    });
    (address, told)
}

/// Registers a journal `main` at this address, by hand.
fn register(user: &User, address: SocketAddr, token_file: &str) {
    let (folder, start) = (format!("{:032x}", 1), format!("{:032x}", 2));
    let entry = json!({
        "start": start, "name": "main", "host": "web-1", "address": address.to_string(), "tls": false,
        "token_file": token_file,
    });
    let path = format!("/menagerie/journals/{folder}/{start}");
    user.ok(&["zk", "create", "-p", &path, &entry.to_string()]);
}

fn contains(heard: &[u8], text: &str) -> bool {
    heard.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_registered_journal_is_sent_neither_a_file_that_it_names_nor_our_token() {
    let user = User::new("queues-trust");
    let secret = user.write("shadow", SECRET);
    user.write("data/journal/token", TOKEN);
    let (address, heard) = eavesdropper();
    register(&user, address, &secret);
    user.fails(
        &["queue", "create", "mail", "--partitions", "1"],
        69,
        &["journal", "it closed the connection"],
    );
    let heard = heard.recv_timeout(DEADLINE).expect("it was asked");
    assert!(!heard.is_empty());
    for (what, text) in [("the file", SECRET), ("our token", TOKEN)] {
        assert!(!contains(&heard, text), "it was sent {what}: {:?}", String::from_utf8_lossy(&heard));
    }
}

#[test]
fn who_names_an_authority_does_not_speak_without_tls() {
    let authority = Authority::new();
    let ca = authority.file("ca.pem").to_str().expect("its name is text").to_owned();
    let fleet = Fleet::with_queue("plain", "mail", 1);
    let put = ["queue", "put", "mail", "x", "--journal-ca", &ca];
    fleet.user.fails(&put, 69, &["without TLS", "--journal-ca"]);
}

#[test]
fn commands_of_the_journals_user_need_no_token_file_and_others_do() {
    let fleet = Fleet::with_queue("told", "mail", 1);
    let servers = fleet.user.servers.clone().expect("it has servers");
    // Another home, another data folder: only the user is the same.
    User::at(&servers).ok(&["queue", "put", "mail", "x"]);
    let Some(stranger) = Stranger::at(&servers) else { return };
    let (code, stderr) = stranger.run(&["queue", "put", "mail", "y"]);
    assert_eq!(code, Some(69), "{stderr}");
    assert!(stderr.contains("we have no token for it"), "{stderr}");
}
