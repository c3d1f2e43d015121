//! Keys and parity: HTTP sees what the command line does, and the other way round.

use menagerie_testkit::eventually;
use serde_json::json;

use super::Server;
use crate::queues::Fleet;

#[test]
fn keys_are_drawn_listed_and_revoked() {
    let fleet = Fleet::new("http-keys");
    let server = Server::start(&fleet.user, &[]);
    assert!(fleet.user.ok(&["queue", "key", "list"]).contains("no keys yet"));
    let key = fleet.user.ok(&["queue", "key", "add", "notes", "--note", "for the test"]);
    let key = key.trim();
    let listed = fleet.user.json(&["queue", "key", "list"]);
    assert_eq!(listed[0]["scopes"], json!(["read", "write"]), "more has to be asked for");
    assert_eq!(server.ask(key, "POST", "/v1/notes", "queue_name=mail").0, 403);
    let chief = fleet.user.ok(&["queue", "key", "add", "notes", "--admin"]);
    assert_eq!(server.ask(chief.trim(), "POST", "/v1/notes", "queue_name=mail").0, 201);
    assert_eq!(server.ask(key, "POST", "/v1/notes/mail", "x").0, 201);
    let reader = fleet.user.ok(&["queue", "key", "add", "notes", "--read-only"]);
    assert_eq!(server.ask(reader.trim(), "GET", "/v1/notes/mail", "").0, 200);
    assert_eq!(server.ask(reader.trim(), "POST", "/v1/notes/mail", "x").0, 403);
    fleet.user.fails(
        &["queue", "key", "add", "notes", "--read-only", "--admin"],
        2,
        &["cannot be used with"],
    );
    assert_eq!((&listed[0]["application"], &listed[0]["note"]), (&"notes".into(), &"for the test".into()));
    assert!(!listed.to_string().contains(key), "keys are known to their owners only");
    let id = listed[0]["id"].as_str().expect("it has a name").to_owned();
    fleet.user.ok(&["queue", "key", "revoke", &id]);
    fleet.user.fails(&["queue", "key", "revoke", &id], 1, &["there is no key"]);
    fleet.user.fails(&["queue", "key", "revoke", "nonsense"], 2, &["hexadecimal"]);
    fleet.user.fails(&["queue", "key", "add", "a/b"], 2, &["must not contain"]);
    eventually("the key is refused", || (server.ask(key, "GET", "/v1/notes", "").0 == 401).then_some(()));
    let brought = fleet.user.run_with(&["queue", "key", "add", "notes", "--stdin"], b"a key\n");
    assert_eq!(brought.code, Some(2), "{}", brought.stderr);
    let brought =
        fleet.user.run_with(&["queue", "key", "add", "notes", "--stdin"], b"the-key-they-have-already\n");
    assert_eq!(brought.code, Some(0), "{}", brought.stderr);
    assert_eq!(server.ask("the-key-they-have-already", "GET", "/v1/notes", "").0, 200);
}

#[test]
fn the_command_line_and_http_share_queues() {
    let fleet = Fleet::new("http-parity");
    let config =
        "[applications.default]\nkeys = [\"key-of-the-default-app\"]\nscopes = [\"read\", \"write\"]\n";
    fleet.user.write("menagerie.toml", config);
    let log = fleet.user.folder().join("access.log").display().to_string();
    let server = Server::start(&fleet.user, &["--config", "menagerie.toml", "--access-log", &log]);
    let key = "key-of-the-default-app";
    fleet.create("mail", 1);
    fleet.user.ok(&["queue", "put", "mail", "by hand"]);
    let (code, read) = server.ask(key, "GET", "/v1/default/mail", "");
    assert_eq!((code, &read["messages"][0]["body"]), (200, &"by hand".into()));
    let (code, _) = server.ask(key, "POST", "/v1/default/mail", "by http");
    assert_eq!(code, 201);
    assert!(fleet.user.ok(&["queue", "peek", "mail"]).contains("by http"));
    assert_eq!(server.ask(key, "DELETE", "/v1/default/mail", "").0, 403, "its keys may not delete queues");
    eventually("requests are written down", || {
        let lines = fleet.file("access.log");
        assert!(!lines.contains(key), "keys are never written down");
        assert!(lines.lines().all(|line| line.starts_with("{\"time_ms\":1")), "{lines}");
        (lines.lines().count() == 3 && lines.contains("\"path\":\"/v1/default/mail\"")).then_some(())
    });
}

#[test]
fn a_server_for_other_machines_wants_tls() {
    let fleet = Fleet::new("http-tls");
    fleet.user.fails(&["queue", "serve", "--listen", "0.0.0.0:0"], 2, &["unencrypted", "--tls-cert"]);
    fleet.user.write("bad.toml", "[applications.notes]\nkeys = [\"short\"]\n");
    let serve = ["queue", "serve", "--listen", "127.0.0.1:0", "--config", "bad.toml"];
    fleet.user.fails(&serve, 2, &["bad.toml:2", "at least 16 characters"]);
}
