//! One id for life.

use std::collections::HashSet;

use menagerie_testkit::eventually;
use serde_json::Value;

use super::Fleet;

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

#[test]
fn one_id_names_a_message_from_put_to_done() {
    let fleet = Fleet::with_queue("one-id", "mail", 3);
    let user = &fleet.user;
    let put = user.ok(&["queue", "put", "mail", "order 17", "--key", "customer-7", "--delay", "2s"]);
    let id = put.split_whitespace().next().expect("an id");
    let is_it = |shown: &Value| assert_eq!(shown["id"], id, "{shown}");
    let delayed = user.json(&["queue", "delayed", "mail"]);
    // On a slow machine it may be due by now.
    delayed.as_array().into_iter().flatten().for_each(is_it);
    assert_eq!(user.ok(&["queue", "get", "mail", id]), "order 17");

    let task =
        "echo $MENAGERIE_MESSAGE_ID >> seen; [ -e mended ] || exit 65; echo $MENAGERIE_MESSAGE_ID >> done";
    let _worker = fleet.starting("mail", &[], &["sh", "-c", task]);
    let failed = eventually("it has failed", || {
        user.json(&["queue", "failed", "mail"]).as_array().and_then(|all| all.first().cloned())
    });
    is_it(&failed);
    assert_eq!((&failed["via"], &failed["key"]), (&"cli".into(), &"customer-7".into()));
    assert!(failed["by"].as_str().is_some_and(|by| by.contains('@')), "{failed}");
    assert!(user.ok(&["queue", "failed", "mail"]).contains(id));
    lines(&user.ok(&["queue", "tail", "mail", "-o", "json"])).iter().for_each(is_it);
    lines(&user.ok(&["queue", "peek", "mail.failed", "-o", "json"])).iter().for_each(is_it);
    let first = lines(&user.ok(&["queue", "get", "mail", id, "-o", "json"])).remove(0);

    user.write("mended", "");
    user.ok(&["queue", "retry", "mail", id]);
    assert_eq!(fleet.wait_for_file("done").trim(), id);
    assert_eq!(fleet.file("seen").lines().collect::<Vec<_>>(), [id, id]);
    let last = lines(&user.ok(&["queue", "get", "mail", id, "-o", "json"])).remove(0);
    is_it(&last);
    assert_eq!((&first["timestamp"], &first["partition"]), (&last["timestamp"], &last["partition"]));
    assert_ne!(first["position"], last["position"], "it stands elsewhere now");
    user.fails(&["queue", "forget", "mail", id], 1, &["there is no message"]);
    user.fails(&["queue", "cancel", "mail", id], 1, &["is due and can be taken back no more"]);
}

#[test]
fn each_message_put_at_once_has_its_own_id_everywhere() {
    let fleet = Fleet::with_queue("own-ids", "mail", 3);
    let user = &fleet.user;
    fleet.create("news", 3);
    let put = [
        user.ok(&["queue", "put", "mail", "A", "B", "C"]),
        user.ok(&["queue", "put", "news", "A", "B", "C"]),
    ]
    .concat();
    let put: Vec<&str> = put.lines().collect();
    assert_eq!(put.iter().collect::<HashSet<_>>().len(), 6, "{put:?}");
    for (id, body) in put.iter().zip(["A", "B", "C"]) {
        assert_eq!(user.ok(&["queue", "get", "mail", id]), body);
        user.fails(&["queue", "get", "news", id], 1, &["there is no message", "another queue"]);
    }
    for verb in ["peek", "tail"] {
        let shown = lines(&user.ok(&["queue", verb, "mail", "-o", "json"]));
        let mut ids: Vec<&str> = shown.iter().filter_map(|one| one["id"].as_str()).collect();
        ids.sort_by_key(|id| put.iter().position(|put| put == id));
        assert_eq!(ids, put[..3]);
        let text = user.ok(&["queue", verb, "mail"]);
        let position = shown[0]["position"].as_str().expect("a position");
        assert!(text.contains(position) && put[..3].iter().all(|id| text.contains(id)), "{text}");
    }
}
