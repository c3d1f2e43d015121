//! Migration from qdo.

use super::Fleet;

#[test]
fn cursors_of_qdo_are_taken_over_and_repeat_rather_than_skip() {
    let fleet = Fleet::new("qdo");
    let user = &fleet.user;
    for (path, data) in [
        ("/mozilla-qdo/queues/mail-out-1", "1330365230.03807"),
        ("/mozilla-qdo/queues/mail-out-2", "0.0"),
        ("/mozilla-qdo/queues/qdo_status-1", "5.0"),
    ] {
        user.ok(&["zk", "create", "-p", path, data]);
    }
    user.fails(&["queue", "import-qdo", "--from", "/nothing"], 1, &["no cursors of qdo below /nothing"]);
    let preview = user.json(&["queue", "import-qdo", "--dry-run"]);
    assert_eq!(preview[0]["what"], "to be imported");
    assert_eq!(preview[2]["what"], "passed over: qdo keeps it for itself");
    let imported = user.json(&["queue", "import-qdo"]);
    assert_eq!(
        (&imported[0]["new"], &imported[0]["what"]),
        (&"1330365230.0380647".into(), &"imported".into())
    );
    assert_eq!(imported[2]["new"], serde_json::Value::Null);
    let view = fleet.show("mail-out");
    assert_eq!(view["partitions"].as_array().map(Vec::len), Some(2));
    assert_eq!(view["partitions"][0]["cursor"], "1330365230.0380647");
    // Importing again changes nothing, even after workers have gone on.
    fleet.put("mail-out", 0..4);
    let _worker = fleet.worker("mail-out", &[]);
    fleet.wait_until_drained("mail-out");
    let again = user.json(&["queue", "import-qdo"]);
    assert_eq!(again[0]["what"], "left alone: it has moved since");
    assert_eq!(fleet.lag("mail-out"), 0);
    let preview = user.json(&["queue", "import-qdo", "--dry-run"]);
    assert_eq!(preview[0]["what"], "left alone: it has moved since");
}

#[test]
fn what_cannot_be_a_queue_is_passed_over_and_later_partitions_come_along() {
    let fleet = Fleet::new("qdo-odd");
    let user = &fleet.user;
    let old = |name: &str| user.ok(&["zk", "create", "-p", &format!("/mozilla-qdo/queues/{name}"), "1.5"]);
    for name in ["größe-1", "mail-1", "mail.failed-1"] {
        old(name);
    }
    let what = |args: &[&str]| {
        let told = user.json(&[&["queue", "import-qdo"], args].concat());
        let said = |row: &serde_json::Value| {
            let name = row["from"].as_str().and_then(|from| from.rsplit('/').next()).unwrap_or_default();
            (name.to_owned(), row["what"].as_str().unwrap_or_default().to_owned())
        };
        told.as_array().expect("a list").iter().map(said).collect::<std::collections::BTreeMap<_, _>>()
    };
    for (args, expected) in
        [(&["--dry-run"][..], "to be imported"), (&[], "imported"), (&["--dry-run"], "was there already")]
    {
        let told = what(args);
        assert!(told["mail.failed-1"].starts_with("passed over: "), "{told:?}");
        assert_eq!((&*told["größe-1"], &*told["mail-1"]), (expected, expected), "{told:?}");
    }
    assert_eq!(fleet.show("größe")["partitions"].as_array().map(Vec::len), Some(1));
    old("mail-3");
    assert_eq!(what(&[])["mail-3"], "imported");
    let partitions = &fleet.show("mail")["partitions"];
    assert_eq!(partitions.as_array().map(Vec::len), Some(3));
    assert_ne!(partitions[2]["cursor"], partitions[1]["cursor"], "qdo did not have the second one");
}
