//! Tokens and the audit trail on the command line.

use menagerie_testkit::eventually;
use serde_json::{Value, json};

use super::{Web, token};
use crate::cli::User;

#[test]
fn tokens_are_shown_once_listed_without_their_secret_and_revoked() {
    let user = User::new("web-tokens");
    let web = Web::start(&user, &[]);
    assert!(user.ok(&["token", "list"]).contains("no tokens yet"));
    let done = user.run(&["token", "create", "ci", "--scope", "queues:submit,read", "--scope", "operate"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let secret = done.text().trim().to_owned();
    assert!(secret.starts_with("mng_") && secret.len() == 68, "the token is all of stdout: {secret}");
    assert!(done.stderr.contains("not shown again") && !done.stderr.contains(&secret), "{}", done.stderr);
    let made = user.json(&["token", "create", "person"]);
    assert_eq!(made["scopes"], json!(["read"]), "more has to be asked for");
    let keys: Vec<&String> = made.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["id", "name", "scopes", "token"]);

    let listed = user.json(&["token", "list"]);
    assert_eq!((&listed[0]["name"], &listed[1]["name"]), (&"ci".into(), &"person".into()));
    assert_eq!(listed[0]["scopes"], json!(["read", "queues:submit", "operate"]));
    assert!(listed[0]["by"].is_string() && listed[0]["created_ms"].is_u64(), "{listed}");
    let id = listed[0]["id"].as_str().expect("it has an id");
    let table = user.ok(&["token", "list"]);
    let stored = user.ok(&["zk", "get", &format!("/menagerie/tokens/{id}")]);
    user.ok(&["zk", "export", "exported"]);
    let exported = std::fs::read(user.folder().join("exported")).expect("it was written");
    let exported = String::from_utf8_lossy(&exported).into_owned();
    for text in [&table, &listed.to_string(), &stored, &exported] {
        assert!(!text.contains(&secret[4..]), "only its owner knows it: {text}");
    }
    assert!(stored.contains("sha256") && exported.contains(id), "{stored}");

    assert_eq!(web.get(&secret, "/slots").code, 200);
    user.ok(&["token", "revoke", id]);
    eventually("it is refused", || (web.get(&secret, "/slots").code == 401).then_some(()));
    assert_eq!(user.json(&["token", "list"]).as_array().map(Vec::len), Some(1));
    user.fails(&["token", "revoke", id], 1, &["there is no token", "token list"]);
    user.fails(&["token", "revoke", "a/b"], 2, &["must not contain"]);
    user.fails(&["token", "create", "a b"], 2, &["must not contain"]);
    for wrong in ["write", "mail:read", "", "read,,operate"] {
        user.fails(&["token", "create", "x", "--scope", wrong], 2, &["is no scope"]);
    }
}

#[test]
fn the_audit_trail_tells_who_did_what_from_where_and_how_it_ended() {
    let user = User::new("web-audit");
    assert!(user.ok(&["audit"]).contains("nobody has changed anything"));
    assert_eq!(user.json(&["audit"]), json!([]));
    user.ok(&["slots", "create", "deploy", "--max", "2"]);
    let web = Web::start(&user, &[]);
    let token = token(&user, "operate");
    web.post(&token, "/slots/deploy/freeze", r#"{"reason":"a fire"}"#).value();
    assert_eq!(web.post(&token, "/slots/none/thaw", "{}").code, 404);
    let entries = user.json(&["audit"]);
    let fields = |entry: &Value| {
        ["who", "from", "act", "target", "outcome"].map(|field| entry[field].as_str().map(str::to_owned))
    };
    let expected = |values: [&str; 5]| values.map(|value| Some(value.to_owned()));
    let failed = ["tester", "127.0.0.1", "slots.thaw", "/api/v1/slots/none/thaw", "failed"];
    assert_eq!(fields(&entries[0]), expected(failed), "the newest comes first");
    let done = ["tester", "127.0.0.1", "slots.freeze", "/api/v1/slots/deploy/freeze", "done"];
    assert_eq!(fields(&entries[1]), expected(done));
    assert!(entries[1]["detail"].as_str().is_some_and(|detail| detail.contains("a fire")), "{entries}");
    let table = user.ok(&["audit", "-n", "1"]);
    assert!(table.contains("slots.thaw") && !table.contains("slots.freeze"), "{table}");
    // What the command line does is in the histories of the engines, not here.
    user.ok(&["slots", "thaw", "deploy"]);
    assert_eq!(user.json(&["audit"]).as_array().map(Vec::len), Some(2));
    let history = user.json(&["slots", "history", "deploy"]);
    assert!(history.to_string().contains("tester@127.0.0.1 (web)"), "{history}");
}
