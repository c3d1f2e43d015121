//! `menagerie zk`: every verb, and what it refuses.

use std::fs;

use menagerie_testkit::{Keeper, Process, eventually};
use rustix::process::Signal;
use serde_json::Value;

use super::User;

#[test]
fn znodes_are_created_read_written_listed_and_deleted() {
    let user = User::new("basics");
    assert_eq!(user.ok(&["zk", "create", "/a", "one"]), "/a\n");
    assert_eq!(user.ok(&["zk", "get", "/a"]), "one\n");
    assert_eq!(user.ok(&["zk", "set", "/a", "two"]), "1\n");
    assert_eq!(user.ok(&["zk", "set", "/a", "", "--version", "1"]), "2\n");
    assert_eq!(user.ok(&["zk", "get", "/a"]), "");
    user.ok(&["zk", "create", "/a/b"]);
    assert_eq!(user.ok(&["zk", "ls", "--names", "/a/"]), "b\n", "a slash at the end does no harm");
    let stat = user.json(&["zk", "stat", "/a"]);
    assert_eq!(
        (&stat["path"], &stat["stat"]["version"], &stat["stat"]["children"]),
        (&"/a".into(), &2.into(), &1.into())
    );
    assert!(user.ok(&["zk", "stat", "/a"]).contains("version           2\n"));
    user.ok(&["zk", "rm", "/a/b"]);
    user.ok(&["zk", "rm", "/a", "--version", "2"]);
    user.fails(&["zk", "stat", "/a"], 1, &["/a does not exist", "help: "]);
}

#[test]
fn data_comes_from_arguments_stdin_and_files_and_is_shown_by_its_nature() {
    let user = User::new("data");
    let file = user.write("job.json", r#"{"b":1,"a":[2,3]}"#);
    user.ok(&["zk", "create", "/json", "--file", &file]);
    assert_eq!(user.ok(&["zk", "get", "/json"]), "{\n  \"b\": 1,\n  \"a\": [\n    2,\n    3\n  ]\n}\n");
    assert_eq!(user.json(&["zk", "get", "/json"])["json"]["a"][1], 3);
    let exact = "{\"z\":1.0,\"a\":12345678901234567890,\n\"b\":[1e400, \"\\u00e9  \\\"\"]}";
    user.ok(&["zk", "set", "/json", exact]);
    let shown = user.ok(&["zk", "get", "/json", "-o", "json"]);
    let value = r#""json": {"z":1.0,"a":12345678901234567890,"b":[1e400,"\u00e9  \""]},"#;
    assert!(shown.contains(value), "the value is as it is: {shown}");

    let binary = [0, 27, b'[', b'2', b'J', 255];
    let done = user.run_with(&["zk", "create", "/binary", "-"], &binary);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(user.run(&["zk", "get", "--raw", "/binary"]).stdout, binary);
    let shown = user.ok(&["zk", "get", "/binary"]);
    assert!(shown.contains("00 1b 5b 32 4a ff") && !shown.contains('\x1b'), "{shown}");
    let json = user.json(&["zk", "get", "/binary"]);
    assert_eq!((&json["base64"], &json["text"]), (&"ABtbMkr/".into(), &Value::Null));

    user.fails(&["zk", "set", "/json"], 2, &["no data", "--file", "stdin"]);
    user.fails(&["zk", "set", "/json", "x", "--file", &file], 2, &["--file"]);
    user.fails(&["zk", "set", "/json", "--file", "/no/such/file"], 1, &["/no/such/file"]);
    user.fails(&["zk", "set", "/json", "x", "--version", "7"], 1, &["changed meanwhile", "zk stat"]);
    user.fails(&["zk", "set", "/none", "x"], 1, &["/none does not exist"]);
}

#[test]
fn kinds_of_znodes_are_made_and_marked() {
    let user = User::new("kinds");
    user.fails(&["zk", "create", "/deep/q/x"], 1, &["does not exist"]);
    assert_eq!(user.ok(&["zk", "create", "--parents", "--sequence", "/deep/q/e-"]), "/deep/q/e-0000000000\n");
    assert_eq!(user.ok(&["zk", "create", "--sequence", "/deep/q/", "x"]), "/deep/q/0000000001\n");
    user.ok(&["zk", "create", "--container", "/deep/c"]);
    user.fails(&["zk", "create", "/deep/c"], 1, &["/deep/c exists already", "zk set"]);

    let mut held = user.spawn(&["zk", "create", "--ephemeral", "/deep/held", "me"]);
    held.wait_for_line("its path", |line| (line == "/deep/held").then_some(()));
    let listing = user.json(&["zk", "ls", "/deep"]);
    let names: Vec<_> = listing["children"].as_array().unwrap().iter().map(|child| &child["name"]).collect();
    assert_eq!(names, ["c", "held", "q"]);
    assert_eq!(listing["children"][1]["kind"]["ephemeral"], true);
    assert_eq!(listing["children"][0]["stat"]["ephemeral_owner"], Value::Null);
    let owner = user.json(&["zk", "get", "/deep/held"])["stat"]["ephemeral_owner"].clone();
    assert!(owner.as_str().unwrap().starts_with("0x"), "more than a program's numbers may hold: {owner}");
    let shown = user.ok(&["zk", "ls", "-R", "/deep"]);
    let line = |name: &str| shown.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(line("held ").ends_with("ephemeral"), "{shown}");
    assert!(line("q/e-0000000000").ends_with("sequence"), "{shown}");

    held.signal(Signal::INT);
    assert_eq!(held.wait_for_end().status.code(), Some(130));
    user.fails(&["zk", "get", "/deep/held"], 1, &["does not exist"]);
}

#[test]
fn tree_says_what_is_on_the_map() {
    let user = User::new("tree");
    user.ok(&["zk", "create", "-p", "/menagerie/generation", "7"]);
    user.ok(&["zk", "create", "-p", "/menagerie/x/y/z"]);
    let tree = user.ok(&["zk", "tree", "/menagerie", "--depth", "2"]);
    let expected = "/menagerie\n\
                    ├── generation  (1 B)  · kernel: decimal number: the greater of the old one + 1 and the time in ms\n\
                    └── x\n    └── y  (1 below)\n";
    assert_eq!(tree, expected);
    let tree = user.json(&["zk", "tree", "/", "--namespace", "/elsewhere"]);
    assert_eq!(tree["children"][0]["children"][1]["children"][0]["children"][0]["path"], "/menagerie/x/y/z");
    assert_eq!(tree["children"][0]["children"][0]["map"], Value::Null, "it is not in that namespace");
}

#[test]
fn deleting_more_than_one_asks_first() {
    let user = User::new("rm");
    user.ok(&["zk", "create", "-p", "/a/b/c"]);
    user.fails(&["zk", "rm", "/a"], 1, &["has children", "-r"]);
    user.fails(&["zk", "rm", "-r", "/a"], 2, &["2 znodes below", "--yes"]);
    user.ok(&["zk", "rm", "-r", "--yes", "/a"]);
    user.fails(&["zk", "ls", "/a"], 1, &["does not exist"]);
    for theirs in ["/", "/zookeeper", "/zookeeper/quota"] {
        user.fails(&["zk", "rm", "-r", "--yes", theirs], 2, &["belongs to the server"]);
    }
}

fn watching(user: &User, args: &[&str]) -> Process {
    let watch = user.spawn(args);
    eventually("the watch is set", || watch.stderr().contains("watching").then_some(()));
    watch
}

#[test]
fn watch_tells_of_changes_until_it_is_stopped() {
    let user = User::new("watch");
    user.ok(&["zk", "create", "/w"]);
    let mut all = watching(&user, &["zk", "watch", "-r", "/w", "-o", "json"]);
    let mut one = watching(&user, &["zk", "watch", "/w"]);
    user.ok(&["zk", "create", "/w/child"]);
    user.ok(&["zk", "set", "/w/child", "x"]);
    user.ok(&["zk", "rm", "/w/child"]);
    user.ok(&["zk", "set", "/w", "y"]);
    for (event, path) in
        [("created", "/w/child"), ("data", "/w/child"), ("deleted", "/w/child"), ("data", "/w")]
    {
        let line: Value = all.wait_for_line("an event", |line| serde_json::from_str(line).ok());
        assert_eq!((&line["event"], &line["path"]), (&event.into(), &path.into()));
    }
    for event in ["children", "children", "data"] {
        let line = one.wait_for_line("an event", |line| Some(line.to_owned()));
        assert!(line.contains(event) && line.ends_with("/w"), "{line}");
    }
    for (watch, signal, code) in [(&mut all, Signal::INT, 130), (&mut one, Signal::TERM, 143)] {
        watch.signal(signal);
        let end = watch.wait_for_end();
        assert_eq!(end.status.code(), Some(code));
        assert!(!end.stderr.contains("error"), "there is nothing to say of it: {}", end.stderr);
    }
}

#[test]
fn watch_goes_on_after_the_server_was_killed_and_came_back() {
    let mut keeper = Keeper::new().args(["--durability", "os"]).start();
    let user = User::at(keeper.address().to_string());
    user.ok(&["zk", "create", "/w"]);
    let mut all = watching(&user, &["zk", "watch", "-r", "/w", "-o", "json"]);
    let mut one = watching(&user, &["zk", "watch", "/w", "-o", "json"]);
    keeper.restart();
    let event = |wanted: &'static str| {
        move |line: &str| {
            let line: Value = serde_json::from_str(line).ok()?;
            (line["event"] == wanted).then_some(line["path"].clone())
        }
    };
    for watch in [&all, &one] {
        watch.wait_for_line("that it is back", event("resumed"));
    }
    user.ok(&["zk", "set", "/w", "x"]);
    for watch in [&all, &one] {
        assert_eq!(watch.wait_for_line("the change", event("data")), "/w");
    }
    for watch in [&mut all, &mut one] {
        watch.signal(Signal::INT);
        assert_eq!(watch.wait_for_end().status.code(), Some(130));
    }
}

#[test]
fn shows_are_printed_again_when_they_change() {
    let user = User::new("watched-shows");
    user.ok(&["zk", "create", "/s", "one"]);
    let mut get = user.spawn(&["zk", "get", "/s", "--watch", "-o", "json"]);
    let mut tree = user.spawn(&["zk", "tree", "/s", "--watch"]);
    let mut acl = user.spawn(&["zk", "acl", "get", "/s", "--watch"]);
    let has = |word: &'static str| move |line: &str| line.contains(word).then_some(());
    get.wait_for_line("its data", has("\"one\""));
    tree.wait_for_line("its bytes", has("(3 B)"));
    acl.wait_for_line("its list", has("cdrwa"));
    user.ok(&["zk", "set", "/s", "other"]);
    get.wait_for_line("its new data", has("\"other\""));
    tree.wait_for_line("its new bytes", has("(5 B)"));
    user.ok(&["zk", "acl", "set", "/s", "world:anyone:rw"]);
    acl.wait_for_line("its new list", |line| line.ends_with(" rw").then_some(()));
    for show in [&mut get, &mut tree, &mut acl] {
        assert_eq!(show.stop().status.code(), Some(143));
    }
}

#[test]
fn list_that_is_watched_is_printed_again_when_it_changes() {
    let user = User::new("watched-list");
    let mut list = user.spawn(&["zk", "ls", "/", "--watch", "-o", "json"]);
    let names = |line: &str| {
        let listing: Value = serde_json::from_str(line).ok()?;
        Some(listing["children"].as_array()?.len())
    };
    list.wait_for_line("the first list", |line| (names(line) == Some(0)).then_some(()));
    user.ok(&["zk", "create", "/new"]);
    list.wait_for_line("the second list", |line| (names(line) == Some(1)).then_some(()));
    assert_eq!(list.stop().status.code(), Some(143));
}

#[test]
fn access_lists_are_shown_and_replaced() {
    let mine = User::new("acl").with("MENAGERIE_ZOOKEEPER_AUTH", "me:hush");
    let other = User::at(mine.servers.clone().unwrap());
    other.ok(&["zk", "create", "/open"]);
    assert_eq!(
        other.ok(&["zk", "acl", "get", "/open"]),
        "SCHEME  ID      PERMISSIONS\nworld   anyone  cdrwa\n"
    );
    mine.ok(&["zk", "create", "/mine", "secret"]);
    other.fails(&["zk", "get", "/mine"], 1, &["not allowed at /mine", "zookeeper.auth"]);
    assert_eq!(mine.ok(&["zk", "get", "/mine"]), "secret\n");
    mine.ok(&["zk", "acl", "set", "/mine", "auth::cdrwa", "world:anyone:r", "--version", "0"]);
    let list = mine.json(&["zk", "acl", "get", "/mine"]);
    assert_eq!((&list["version"], &list["access"][1]["permissions"]), (&1.into(), &"r".into()));
    assert_eq!(other.ok(&["zk", "get", "/mine"]), "secret\n");
    other.fails(&["zk", "set", "/mine", "x"], 1, &["not allowed"]);
    mine.fails(&["zk", "acl", "set", "/mine", "anyone"], 2, &["SCHEME:ID:PERMISSIONS"]);
}

#[test]
fn what_makes_no_sense_is_refused_before_anybody_is_asked() {
    let user = User::at("127.0.0.1:1");
    for path in ["a", "", "/a//b", "/a/../b"] {
        user.fails(&["zk", "get", path], 2, &["is not a path"]);
        user.fails(&["zk", "create", path], 2, &["is not a path"]);
    }
    user.fails(&["zk", "frobnicate"], 2, &["frobnicate"]);
    user.fails(&["zk", "ls", "/", "-o", "yaml"], 2, &["yaml", "table", "json"]);
}

#[test]
fn nobody_there_is_69_with_help() {
    let user = User::at("127.0.0.1:1");
    for args in [&["zk", "ls"][..], &["zk", "get", "/a"], &["zk", "export", "x"], &["status"]] {
        user.fails(
            args,
            69,
            &["no ZooKeeper server answers at 127.0.0.1:1", "menagerie up", "MENAGERIE_ZOOKEEPER"],
        );
    }
    assert_eq!(fs::read_dir(user.folder()).unwrap().count(), 0, "nothing is left behind");
}
