//! What people who come from qdo bring along.

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
    // Once more changes nothing, also when workers have gone on since.
    fleet.put("mail-out", 0..4);
    let _worker = fleet.worker("mail-out", &[]);
    fleet.drained("mail-out");
    let again = user.json(&["queue", "import-qdo"]);
    assert_eq!(again[0]["what"], "left alone: it has moved since");
    assert_eq!(fleet.lag("mail-out"), 0);
}
