//! `menagerie status`.

use super::User;

#[test]
fn status_shows_who_is_registered_and_how_zookeeper_is() {
    let user = User::new("status");
    assert!(user.ok(&["status"]).contains("nobody is registered"));
    user.ok(&["zk", "create", "-p", "/menagerie/generation", "42"]);
    let payload = r#"{"hostname":"web-1","state":"running","version":"1.2","extra":[1]}"#;
    user.ok(&["zk", "create", "-p", "/menagerie/components/worker/web-10000000000", payload]);
    user.ok(&["zk", "create", "-p", "/menagerie/components/scheduler/odd", "not json"]);

    let view = user.json(&["status"]);
    assert_eq!((&view["generation"], &view["session"]["state"]), (&42.into(), &"connected".into()));
    let components = view["components"].as_array().unwrap();
    assert_eq!(components[0]["kind"], "scheduler");
    assert_eq!(components[0]["host"], serde_json::Value::Null);
    assert_eq!((&components[1]["host"], &components[1]["state"]), (&"web-1".into(), &"running".into()));
    for server in view["servers"].as_array().unwrap() {
        assert!(server["version"].as_str().unwrap().starts_with("3."), "{server}");
    }
    let table = user.ok(&["status"]);
    assert!(table.contains("generation 42") && table.contains("web-1"), "{table}");
    assert!(table.lines().any(|line| line.starts_with("worker") && line.contains("running")), "{table}");
}
