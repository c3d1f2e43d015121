//! ZooKeeper is away for a while, or has expired our session.

use std::thread;
use std::time::{Duration, Instant};

use menagerie_testkit::{Ensemble, eventually};
use serde_json::Value;

use super::{Client, Server};
use crate::cli::User;
use crate::queues::Fleet;

/// Longest wait for ZooKeeper.
const PATIENCE: Duration = Duration::from_secs(40);
const KEY: &str = "key-in-the-configuration";
const CONFIG: &str = "[applications.notes]\nkeys = [\"key-in-the-configuration\"]\n";

fn bodies(read: &Value) -> Vec<&str> {
    let messages = read["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    messages.iter().filter_map(|message| message["body"].as_str()).collect()
}

#[test]
fn zookeeper_that_is_away_is_told_and_all_goes_on_when_it_is_back() {
    let mut servers = Ensemble::from_env().start_own();
    let user = User::at(servers.chroot("http-outage")).with("MENAGERIE_SESSION_TIMEOUT", "2s");
    let fleet = Fleet::of(user);
    fleet.user.write("menagerie.toml", CONFIG);
    let stored = fleet.user.ok(&["queue", "key", "add", "notes", "--admin"]).trim().to_owned();
    let server = Server::start(&fleet.user, &["--config", "menagerie.toml"]);
    assert_eq!(server.ask(KEY, "POST", "/v1/notes", "queue_name=mail").0, 201);
    assert_eq!(server.ask(&stored, "POST", "/v1/notes/mail", "before").0, 201);
    for number in 0..servers.addresses().len() {
        servers.kill(number);
    }
    eventually("what nobody tells us any more is not believed", || {
        (server.ask(KEY, "GET", "/v1/notes/mail", "").0 == 500).then_some(())
    });
    for (key, method, path) in [
        (KEY, "GET", "/v1/notes"),
        (KEY, "POST", "/v1/notes"),
        (KEY, "POST", "/v1/notes/mail"),
        (KEY, "PUT", "/v1/notes/mail"),
        (KEY, "DELETE", "/v1/notes/mail"),
        (stored.as_str(), "GET", "/v1/notes/mail"),
        ("nobody-knows-this-one", "GET", "/v1/notes/mail"),
        ("", "GET", "/v1/notes/mail"),
    ] {
        let began = Instant::now();
        let (code, said) = server.ask(key, method, path, "queue_name=more");
        assert_eq!(
            (code, &said["error_msg"]["storage"]),
            (500, &"ZooKeeper does not answer".into()),
            "{said}"
        );
        assert!(began.elapsed() < PATIENCE, "{method} {path}");
        assert_eq!(server.ask("", "GET", "/__heartbeat__", "").0, 200, "it is there itself");
    }
    servers.restart_all();
    for key in [KEY, &stored] {
        eventually("it is served again", || {
            (server.ask(key, "POST", "/v1/notes/mail", key).0 == 201).then_some(())
        });
    }
    assert_eq!(server.ask(KEY, "GET", "/v1/notes/mail", "").1["messages"].as_array().map(Vec::len), Some(3));
    assert_eq!(server.ask("nobody-knows-this-one", "GET", "/v1/notes/mail", "").0, 401);
    assert_eq!(server.ask(KEY, "POST", "/v1/notes", "queue_name=more").0, 201);
}

#[test]
fn who_waits_has_the_message_although_zookeeper_was_away() {
    let mut servers = Ensemble::from_env().start_own();
    let user = User::at(servers.chroot("http-outage-wait")).with("MENAGERIE_SESSION_TIMEOUT", "2s");
    let fleet = Fleet::of(user);
    fleet.user.write("menagerie.toml", CONFIG);
    let server = Server::start(&fleet.user, &["--config", "menagerie.toml"]);
    assert_eq!(server.ask(KEY, "POST", "/v1/notes", "queue_name=mail").0, 201);
    let address = server.address;
    let waiting = thread::spawn(move || {
        eventually("the reader has it", || {
            let mut client = Client::open(address, KEY).expect("it listens");
            let (code, read) = client.ask("GET", "/v1/notes/mail?wait=5", "", "").expect("it answers");
            assert!([200, 500].contains(&code), "{read}");
            (bodies(&read) == ["at last"]).then_some(())
        });
    });
    servers.restart_all();
    eventually("it is posted", || {
        (server.ask(KEY, "POST", "/v1/notes/mail", "at last").0 == 201).then_some(())
    });
    waiting.join().expect("it has the message");
}

/// The registered servers, if ZooKeeper answers.
fn listed(user: &User) -> Option<String> {
    let done = user.run(&["zk", "ls", "--names", "/menagerie/components/queue"]);
    let is_answer = done.code == Some(0) || done.stderr.contains("does not exist");
    is_answer.then(|| done.text().trim().to_owned())
}

#[test]
fn a_server_whose_session_has_ended_begins_another_and_knows_what_has_happened() {
    let user = User::new("queues-http-expired").with("MENAGERIE_SESSION_TIMEOUT", "2s");
    let fleet = Fleet::of(user);
    fleet.user.write("menagerie.toml", CONFIG);
    let stored = fleet.user.ok(&["queue", "key", "add", "notes", "--admin"]).trim().to_owned();
    let id = fleet.user.json(&["queue", "key", "list"])[0]["id"].as_str().expect("it has a name").to_owned();
    let server = Server::start(&fleet.user, &["--config", "menagerie.toml"]);
    assert_eq!(server.ask(&stored, "POST", "/v1/notes", "queue_name=mail").0, 201);
    let first = eventually("it is registered", || listed(&fleet.user).filter(|names| !names.is_empty()));
    server.process.pause();
    eventually("its session has ended", || listed(&fleet.user).filter(String::is_empty));
    fleet.user.ok(&["queue", "key", "revoke", &id]);
    let other = fleet.user.ok(&["queue", "key", "add", "notes", "--admin"]).trim().to_owned();
    server.process.resume();
    eventually("the key is refused", || {
        let code = server.ask(&stored, "GET", "/v1/notes/mail", "").0;
        assert_ne!(code, 200, "what it knew is not believed for a moment longer than the session");
        (code == 401).then_some(())
    });
    eventually("the new one is not", || {
        (server.ask(&other, "POST", "/v1/notes/mail", "x").0 == 201).then_some(())
    });
    let again =
        eventually("it is registered again", || listed(&fleet.user).filter(|names| !names.is_empty()));
    assert_ne!(first, again, "in a session of its own");
}
