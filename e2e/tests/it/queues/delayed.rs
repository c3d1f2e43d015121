//! Delayed messages: shown, and cancelled.

use menagerie_testkit::eventually;
use serde_json::{Value, json};

use super::Fleet;

/// Ids of the messages put: all that scripts find on standard output.
fn ids(put: &str) -> Vec<String> {
    put.lines().map(str::to_owned).collect()
}

#[test]
fn delayed_messages_are_listed_and_cancelled() {
    let mut fleet = Fleet::with_queue("delayed", "mail", 3);
    let user = &fleet.user;
    assert_eq!(user.ok(&["queue", "delayed", "mail"]), "no message is delayed\n");
    let put = user.ok(&["queue", "put", "mail", "late", "later", "--at", "2100-01-01T00:00:00Z"]);
    let mut put = ids(&put);
    assert!(put.iter().all(|id| id.len() == 36), "{put:?}");
    let soon = ["queue", "put", "mail", "soon", "-p", "2", "--delay", "1d", "-o", "json"];
    let told: Value = serde_json::from_str(&user.ok(&soon)).unwrap();
    assert_eq!(told["delayed"], true);
    put.insert(0, told["id"].as_str().unwrap().to_owned());
    let table = user.ok(&["queue", "delayed", "mail"]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("DUE ") && lines.len() == 4, "{table}");
    assert!(lines[1].contains("mail-2     4      soon"), "{table}");
    assert!(lines[2].starts_with(&format!("2100-01-01T00:00:00.000Z  {}", put[1])), "{table}");
    let list = user.json(&["queue", "delayed", "mail"]);
    let listed: Vec<&str> = list.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(listed, put);
    assert_eq!((&list[2]["body"], &list[2]["bytes"]), (&"later".into(), &5.into()));
    assert_eq!(list[2]["due"], "4102444800.0000000");
    assert_eq!(user.json(&["queue", "delayed", "mail", "-n", "1"]).as_array().unwrap().len(), 1);
    assert_eq!(user.json(&["queue", "delayed", "mail", "-p", "2"])[0]["body"], "soon");
    let get = |more: &[&str]| user.ok(&[&["queue", "get", "mail", &put[0]], more].concat());
    let shown: Value = serde_json::from_str(&get(&["-o", "json"])).unwrap();
    assert_eq!(
        (get(&[]), &shown["position"], &shown["id"]),
        ("soon".to_owned(), &Value::Null, &put[0].as_str().into())
    );
    let cancelled = user.json(&["queue", "cancel", "mail", &put[1]]);
    assert_eq!(cancelled, json!({"queue": "mail", "cancelled": 1}));
    user.fails(&["queue", "cancel", "mail", &put[1]], 1, &["there is no message", "queue delayed mail"]);
    user.fails(&["queue", "cancel", "mail", "4102444800.0"], 2, &["version 8"]);
    user.fails(&["queue", "cancel", "mail"], 2, &["--all"]);
    user.fails(&["queue", "cancel", "nowhere", "--all"], 2, &["there is no queue nowhere"]);
    // Purge concerns due messages.
    user.ok(&["queue", "purge", "mail"]);
    fleet.crash_journal();
    let user = &fleet.user;
    let list = eventually("the journal is back", || {
        let done = user.run(&["queue", "delayed", "mail", "-o", "json"]);
        serde_json::from_str::<Value>(&done.text()).ok()
    });
    assert_eq!((&list[0]["id"], &list[1]["id"]), (&put[0].as_str().into(), &put[2].as_str().into()));
    assert_eq!(user.json(&["queue", "cancel", "mail", "--all"]), json!({"queue": "mail", "cancelled": 2}));
    assert_eq!(fleet.show("mail")["delayed"], 0);
    // Purge concerns due messages, unless told otherwise.
    user.ok(&["queue", "put", "mail", "now"]);
    user.ok(&["queue", "put", "mail", "never", "--delay", "1h"]);
    let purged = user.json(&["queue", "purge", "mail", "--delayed"]);
    assert_eq!(purged, json!({"queue": "mail", "forgotten": 1, "cancelled": 1}));
    assert_eq!((fleet.lag("mail"), &fleet.show("mail")["delayed"]), (0, &0.into()));
}

#[test]
fn what_is_cancelled_is_never_handled_and_what_is_handled_cannot_be_cancelled() {
    let fleet = Fleet::with_queue("cancelled", "mail", 2);
    let user = &fleet.user;
    let put = user.ok(&["queue", "put", "mail", "1", "2", "3", "4", "--delay", "3s"]);
    let put = ids(&put);
    let mut cancelled = Vec::new();
    for (id, number) in put.iter().zip(1..=2) {
        // On a slow machine it may be too late.
        if user.run(&["queue", "cancel", "mail", id]).code == Some(0) {
            cancelled.push(number);
        }
    }
    let worker = fleet.worker("mail", &[]);
    eventually("the others are handled", || (fleet.handled().len() + cancelled.len() == 4).then_some(()));
    fleet.wait_until_drained("mail");
    drop(worker);
    let mut all: Vec<u32> = fleet.handled().iter().map(|handled| handled.body).chain(cancelled).collect();
    all.sort_unstable();
    assert_eq!(all, [1, 2, 3, 4], "each of them once");
    assert_eq!(fleet.show("mail")["delayed"], 0);
    user.fails(&["queue", "cancel", "mail", &put[3]], 1, &["is due and can be taken back no more"]);
}
