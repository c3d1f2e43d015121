//! Receiving and acknowledging through the binary, across servers that are killed or stopped.

use menagerie_testkit::eventually;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::Server;
use crate::cli::User;
use crate::queues::Fleet;

const QUEUE: &str = "/v1/notes/mail";

fn fleet(name: &str) -> (Fleet, String) {
    let fleet = Fleet::of(User::new(name).with("MENAGERIE_SESSION_TIMEOUT", "2s"));
    fleet.user.write("menagerie.toml", "[worker]\nsettle = \"100ms\"\n");
    let key = fleet.user.ok(&["queue", "key", "add", "notes"]).trim().to_owned();
    fleet.create("notes:mail", 2);
    (fleet, key)
}

fn server(fleet: &Fleet) -> Server {
    Server::start(&fleet.user, &["--config", "menagerie.toml"])
}

fn say(server: &Server, key: &str, verb: &str, body: &Value) -> (u16, Value) {
    server.ask(key, "POST", &format!("{QUEUE}/{verb}"), &body.to_string())
}

fn receive(server: &Server, key: &str) -> Value {
    let (code, reply) = say(server, key, "receive", &json!({"wait": 60, "visible_after": "10m"}));
    assert_eq!(code, 200, "{reply}");
    reply["messages"][0].clone()
}

fn ack(server: &Server, key: &str, message: &Value) -> (u16, Value) {
    say(server, key, "ack", &json!({"receipts": [message["receipt"]]}))
}

#[test]
fn a_receipt_of_a_killed_server_is_refused_and_its_message_comes_again() {
    let (fleet, key) = fleet("http-receive-killed");
    let (mut first, second) = (server(&fleet), server(&fleet));
    let id = fleet.user.ok(&["queue", "put", "notes:mail", "hello", "--partition", "1"]);
    let before = receive(&first, &key);
    assert_eq!(before["message_id"], id.trim().replace('-', ""), "it is the id that `put` printed");
    first.process.kill();
    let after = receive(&second, &key);
    assert_eq!((&after["message_id"], &after["attempt"]), (&before["message_id"], &json!(2)));
    let (code, refused) = ack(&second, &key, &before);
    assert_eq!(code, 409, "{refused}");
    assert!(refused["error_msg"]["receipts.0"].as_str().is_some_and(|why| why.contains("another server")));
    assert_eq!(ack(&second, &key, &after).0, 200);
    assert_eq!(ack(&second, &key, &after).0, 409, "a receipt counts once");
    fleet.wait_until_drained("notes:mail");
}

#[test]
fn a_server_that_is_stopped_gives_its_partitions_to_workers() {
    let (fleet, key) = fleet("http-receive-stopped");
    let mut server = server(&fleet);
    fleet.user.ok(&["queue", "put", "notes:mail", "one", "--partition", "1"]);
    fleet.user.ok(&["queue", "put", "notes:mail", "two", "--partition", "2"]);
    let received = receive(&server, &key);
    let workers = fleet.user.ok(&["queue", "workers"]);
    assert!(workers.contains("-http-") && workers.contains("notes:mail"), "{workers}");
    let worker = fleet.user.spawn(&[
        "worker",
        "notes:mail",
        "--settle",
        "100ms",
        "--",
        "sh",
        "-c",
        "cat >> handled; echo >> handled",
    ]);
    crate::queues::ready(&worker);
    server.process.signal(Signal::TERM);
    assert_eq!(server.process.wait_for_end().status.code(), Some(0));
    eventually("the worker has handled both", || {
        let handled = fleet.file("handled");
        (handled.contains("one") && handled.contains("two")).then_some(())
    });
    assert!(received["receipt"].is_string());
}
