//! `menagerie doctor`.

use menagerie_testkit::free_port;
use serde_json::Value;

use super::User;

/// The result of each check.
#[track_caller]
fn findings(user: &User, code: i32) -> Vec<(String, String)> {
    let done = user.run(&["doctor", "-o", "json"]);
    assert_eq!(done.code, Some(code), "{}{}", done.text(), done.stderr);
    let found: Value = serde_json::from_str(&done.text()).expect("it prints JSON, whatever it finds");
    let word = |finding: &Value, key: &str| finding[key].as_str().expect("it is text").to_owned();
    let findings = found["findings"].as_array().expect("it is a list");
    for finding in findings.iter().filter(|finding| finding["health"] != "ok") {
        assert!(finding["remedy"].is_string(), "what is not well has a remedy: {finding}");
    }
    findings.iter().map(|finding| (word(finding, "check"), word(finding, "health"))).collect()
}

/// Whether this check went well. Timings may be slow on a busy machine; that is fine.
fn is_well(findings: &[(String, String)], check: &str) -> bool {
    let timed = ["round trip", "write"].contains(&check);
    let health = findings.iter().find(|(name, _)| name == check).map(|(_, health)| health.as_str());
    health == Some("ok") || timed && health == Some("warn")
}

#[test]
fn healthy_ensemble_passes_every_check() {
    let user = User::new("doctor").with("MENAGERIE_ZOOKEEPER_AUTH", "me:hush");
    user.ok(&["zk", "create", "-p", "/menagerie/generation", "1"]);
    let found = findings(&user, 0);
    for check in ["server", "round trip", "write", "clock", "watches", "access"] {
        assert!(is_well(&found, check), "{check}: {found:?}");
    }
    assert!(found.iter().any(|(check, _)| check == "session time-out"), "{found:?}");
    assert_eq!(user.ok(&["zk", "ls", "-n", "/menagerie"]), "generation\n", "it leaves nothing behind");
}

#[test]
fn everything_is_tried_before_there_is_a_namespace() {
    let user = User::new("early");
    let found = findings(&user, 0);
    for check in ["write", "clock", "watches"] {
        assert!(is_well(&found, check), "{check}: {found:?}");
    }
    assert!(found.contains(&("access".to_owned(), "warn".to_owned())), "it would be everybody's: {found:?}");
    assert!(found.contains(&("namespace".to_owned(), "warn".to_owned())), "{found:?}");
    let text = user.ok(&["doctor", "--namespace", "/deep/down/menagerie"]);
    assert!(text.contains("was tried in /\n"), "{text}");
    user.ok(&["zk", "create", "/deep"]);
    let text = user.ok(&["doctor", "--namespace", "/deep/down/menagerie"]);
    assert!(text.contains("was tried in /deep\n"), "{text}");
    assert_eq!(user.ok(&["zk", "ls", "-R", "-n", "/"]), "deep\n", "it leaves nothing behind");
}

#[test]
fn access_is_judged_by_who_we_are() {
    let me = User::new("rights").with("MENAGERIE_ZOOKEEPER_AUTH", "me:hush");
    let servers = me.servers.clone().unwrap();
    let access = |user: &User, code: i32| {
        let found = findings(user, code);
        found.into_iter().find(|(check, _)| check == "access").expect("it is looked at").1
    };
    let (you, nobody) = (User::at(&servers).with("MENAGERIE_ZOOKEEPER_AUTH", "you:hush"), User::at(&servers));
    assert!(me.ok(&["doctor"]).contains("will be for the user me alone"));
    me.ok(&["zk", "create", "/menagerie"]);
    assert_eq!(access(&me, 0), "ok");
    assert_eq!(access(&you, 1), "fail");
    assert_eq!(access(&nobody, 1), "fail");
    me.ok(&["zk", "acl", "set", "/menagerie", "auth::cdrwa", "world:anyone:r"]);
    assert_eq!(access(&me, 0), "ok");
    assert!(you.run(&["doctor"]).text().contains("belongs to me, and we are you"));
    assert!(nobody.run(&["doctor"]).text().contains("belongs to me, and no zookeeper.auth is set"));
    me.ok(&["zk", "acl", "set", "/menagerie", "world:anyone:cdrwa"]);
    assert_eq!(access(&me, 0), "warn", "what should be ours is everybody's");
    assert_eq!(access(&nobody, 0), "warn", "others of this machine may write");
    let text = me.ok(&["doctor"]);
    assert!(text.contains("although zookeeper.auth is set") && text.contains("auth::cdrwa"), "{text}");
}

#[test]
fn nobody_there_is_69_and_explained() {
    let user = User::at(format!("127.0.0.1:{}", free_port()));
    let found = findings(&user, 69);
    assert!(found.contains(&("server".to_owned(), "fail".to_owned())), "{found:?}");
    assert!(user.run(&["doctor"]).text().contains("→ "));
}

#[test]
fn denied_writes_and_unfinished_imports_are_failures() {
    let owner = User::new("unwell").with("MENAGERIE_ZOOKEEPER_AUTH", "me:hush");
    owner.ok(&["zk", "create", "/menagerie"]);
    owner.ok(&["zk", "acl", "set", "/menagerie", "auth::cdrwa", "world:anyone:r"]);
    let stranger = User::at(owner.servers.clone().unwrap());
    assert!(findings(&stranger, 1).contains(&("write".to_owned(), "fail".to_owned())));
    assert!(is_well(&findings(&owner, 0), "write"));
    owner.ok(&["zk", "create", "/menagerie/importing", "{}"]);
    assert!(findings(&owner, 1).contains(&("import".to_owned(), "fail".to_owned())));
}

#[test]
fn server_that_is_down_is_named_beside_those_that_are_up() {
    let user = User::new("one-down");
    let servers = user.servers.clone().unwrap();
    let (hosts, chroot) = servers.split_once('/').unwrap();
    let dead = format!("127.0.0.1:{}", free_port());
    let user = User::at(format!("{hosts},{dead}/{chroot}"));
    let text = user.run(&["doctor"]).text();
    let line =
        text.lines().find(|line| line.contains(&dead) && line.contains("no session")).expect("it is named");
    assert!(line.starts_with("warn"), "{text}");
    let round_trip = text.lines().find(|line| line.contains("round trip")).expect("it is tried");
    assert!(round_trip.starts_with("ok") || round_trip.starts_with("warn"), "{text}");
}
