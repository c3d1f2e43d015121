//! Refusals say what to do instead.

use std::fs;

use super::User;

/// The same servers, with another chroot.
fn elsewhere(user: &User, root: &str) -> User {
    let servers = user.servers.clone().expect("they are known");
    let hosts = servers.split('/').next().expect("there are hosts");
    User::at(format!("{hosts}{root}"))
}

#[test]
fn missing_parent_is_named() {
    let user = User::new("orphan");
    user.fails(
        &["zk", "create", "/a/b/c"],
        1,
        &["cannot create /a/b/c", "its parent /a/b does not exist", "-p"],
    );
    user.fails(&["zk", "create", "-s", "/a/"], 1, &["its parent /a does not exist", "-p"]);
    user.ok(&["zk", "create", "-p", "/a/b/c"]);
}

#[test]
fn missing_root_is_named_with_who_gave_it() {
    let user = User::new("root");
    let nowhere = elsewhere(&user, "/none/such");
    for args in [
        &["zk", "ls"][..],
        &["zk", "tree", "/"],
        &["zk", "get", "/a"],
        &["zk", "create", "/a"],
        &["zk", "create", "-p", "/a"],
        &["zk", "rm", "/a"],
        &["zk", "stat", "/"],
        &["zk", "acl", "get", "/"],
        &["zk", "export", "x.jsonl"],
    ] {
        nowhere.fails(
            args,
            1,
            &["/none/such", "does not exist", "MENAGERIE_ZOOKEEPER", "zk create -p /none/such"],
        );
    }
    let found = nowhere.run(&["doctor"]);
    assert!(
        found.text().contains("/none/such") && found.text().contains("→ correct --zookeeper"),
        "{}",
        found.text()
    );
    nowhere.ok(&["status"]);
    assert_eq!(fs::read_dir(nowhere.folder()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn quotas_can_be_removed_and_the_servers_own_znodes_cannot() {
    let root = elsewhere(&User::new("quota"), "");
    let quota = "/zookeeper/quota/of-nothing";
    root.ok(&["zk", "create", "-p", &format!("{quota}/zookeeper_limits"), "count=5,bytes=-1"]);
    root.ok(&["zk", "rm", "-r", "--yes", quota]);
    root.fails(&["zk", "stat", quota], 1, &["does not exist"]);
    for theirs in ["/zookeeper/quota", "/zookeeper/config", "/zookeeper"] {
        root.fails(&["zk", "rm", theirs], 2, &["belongs to the server"]);
    }
}

#[test]
fn errors_of_files_say_what_to_try() {
    let user = User::new("files");
    user.fails(
        &["zk", "import", "none.jsonl"],
        1,
        &["cannot import none.jsonl", "No such file", "check the path"],
    );
    user.write("odd.jsonl", "no export\n");
    user.fails(
        &["zk", "import", "odd.jsonl"],
        1,
        &["cannot import odd.jsonl", "line 1", "nothing was changed"],
    );
    let piped = user.run_with(&["zk", "import", "-"], b"no export\n");
    assert!(piped.stderr.contains("cannot import stdin"), "{}", piped.stderr);
    user.fails(&["zk", "create", "/a", "--file", "."], 1, &["cannot read .", "name a file"]);
    user.ok(&["zk", "create", "/menagerie"]);
    user.fails(&["zk", "export", "no/such/folder/x"], 1, &["no/such/folder/x", "check the path"]);
}

#[test]
fn children_of_ephemerals_are_refused_with_the_reason() {
    let user = User::new("childless");
    let mut held = user.spawn(&["zk", "create", "-e", "/held"]);
    held.wait_for_line("its path", |line| (line == "/held").then_some(()));
    user.fails(&["zk", "create", "/held/child"], 1, &["an ephemeral has no children"]);
    held.signal(rustix::process::Signal::TERM);
    assert_eq!(held.wait_for_end().status.code(), Some(143));
    user.fails(&["zk", "stat", "/held"], 1, &["does not exist"]);
}

#[test]
fn reader_that_goes_away_is_no_failure_to_speak_of() {
    let user = User::new("pipe");
    for number in 0..3 {
        user.ok(&["zk", "create", "-p", &format!("/a/{number}")]);
    }
    let mut ls = user.command(&["zk", "ls", "/a", "--watch", "-o", "json"]);
    let mut ls =
        ls.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    drop(ls.stdout.take());
    user.ok(&["zk", "create", "/a/more"]);
    let end = ls.wait_with_output().unwrap();
    assert_eq!(end.status.code(), Some(141));
    assert_eq!(String::from_utf8_lossy(&end.stderr), "");
}
