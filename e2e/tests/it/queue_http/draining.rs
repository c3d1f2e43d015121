//! A server that is asked to stop.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use menagerie_testkit::eventually;
use rustix::process::Signal;

use super::{Server, connect};
use crate::cli::User;
use crate::queues::Fleet;

const CONFIG: &str = "[applications.notes]\nkeys = [\"key-in-the-configuration\"]\n";
const KEY: &str = "key-in-the-configuration";

#[test]
fn request_that_is_in_flight_is_answered_before_the_server_ends() {
    let fleet = Fleet::of(User::new("http-draining"));
    fleet.user.write("menagerie.toml", CONFIG);
    let mut server = Server::start(&fleet.user, &["--config", "menagerie.toml"]);
    assert_eq!(server.ask(KEY, "POST", "/v1/notes", "queue_name=mail").0, 201);
    let mut stream = connect(server.address).expect("it listens");
    let head = format!(
        "POST /v1/notes/mail HTTP/1.1\r\nHost: queue\r\nAuthorization: Application {KEY}\r\nContent-Length: 5\r\n\
         Expect: 100-continue\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).expect("it asks for the body");
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");

    server.process.signal(Signal::TERM);
    eventually("it lets nobody else in", || TcpStream::connect(server.address).is_err().then_some(()));
    stream.write_all(b"hello").expect("it still reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert_eq!(server.process.wait_for_end().status.code(), Some(0));
}
