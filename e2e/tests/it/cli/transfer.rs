//! `menagerie zk export` and `import`: from a keeper to the chosen ensemble.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use menagerie_testkit::{Keeper, Server, eventually};
use rustix::process::Signal;
use serde_json::Value;

use super::User;

/// A user with a keeper of their own, and a namespace in it.
fn source() -> (Server, User) {
    let keeper = Keeper::new().args(["--durability", "os"]).start();
    let user = User::at(keeper.address().to_string());
    user.ok(&["zk", "create", "-p", "/menagerie/generation", "1000"]);
    (keeper, user)
}

fn export(user: &User) -> String {
    let file = user.folder().join("namespace.jsonl");
    let file = file.to_str().expect("its name is text");
    user.ok(&["zk", "export", file]);
    file.to_owned()
}

/// The znodes of a namespace, without what differs between two ensembles.
fn content(user: &User, namespace: &str) -> Vec<Value> {
    let text = user.ok(&["zk", "export", "-", "--namespace", namespace]);
    let mut lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    lines.retain(|line| line["line"] == "znode");
    for line in &mut lines {
        line.as_object_mut().expect("it is an object").remove("children_created");
    }
    lines
}

#[test]
fn namespace_moves_with_its_numbers_and_fences_rise() {
    let (_keeper, from) = source();
    from.ok(&["zk", "create", "/menagerie/log"]);
    for _ in 0..3 {
        from.ok(&["zk", "create", "-s", "/menagerie/log/entry-", "data"]);
    }
    from.ok(&["zk", "rm", "/menagerie/log/entry-0000000000"]);
    from.ok(&["zk", "rm", "/menagerie/log/entry-0000000002"]);
    let done = from.run_with(&["zk", "create", "/menagerie/binary", "-"], &[0, 255, 10]);
    assert_eq!(done.code, Some(0));
    from.ok(&["zk", "set", "/menagerie", "the root has data too"]);
    let file = export(&from);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "for its owner alone");

    let to = User::new("import");
    let said = to.ok(&["zk", "import", &file, "--namespace", "/deep/menagerie"]);
    assert!(said.starts_with("/deep/menagerie: 4 znodes, generation "), "{said}");
    assert_eq!(content(&to, "/deep/menagerie"), content(&from, "/menagerie"));
    assert_eq!(to.run(&["zk", "get", "--raw", "/deep/menagerie/binary"]).stdout, [0, 255, 10]);
    let generation: u64 = to.ok(&["zk", "get", "/deep/menagerie/generation"]).trim().parse().unwrap();
    assert!(generation > 1000, "fences rise");
    let next = to.ok(&["zk", "create", "-s", "/deep/menagerie/log/entry-"]);
    assert_eq!(next, "/deep/menagerie/log/entry-0000000003\n", "numbers go on");
}

#[test]
fn namespace_that_no_engine_has_lived_in_moves_too() {
    let (_keeper, from) = source();
    from.ok(&["zk", "create", "-p", "/plain/child", "data"]);
    let done = from.run(&["zk", "export", "plain.jsonl", "--namespace", "/plain"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stderr.contains("/plain has no generation"), "{}", done.stderr);
    assert_eq!(done.text(), "plain.jsonl: 2 znodes of /plain\n");
    let to = User::new("plain");
    let file = from.folder().join("plain.jsonl");
    to.ok(&["zk", "import", file.to_str().unwrap()]);
    assert_eq!(content(&to, "/menagerie"), content(&from, "/plain"));
    let generation: u64 = to.ok(&["zk", "get", "/menagerie/generation"]).trim().parse().unwrap();
    assert!(generation > 0, "from now on it has one");
}

#[test]
fn exports_replace_files_only() {
    let (_keeper, from) = source();
    let folder = from.folder();
    fs::create_dir(folder.join("folder")).unwrap();
    for other in ["/dev/null", "folder"] {
        from.fails(&["zk", "export", other], 2, &[other, "is no file", "`-` is stdout"]);
    }
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    from.write("folder/target.jsonl", "old");
    std::os::unix::fs::symlink("folder/target.jsonl", folder.join("link.jsonl")).unwrap();
    from.ok(&["zk", "export", "link.jsonl"]);
    assert!(fs::symlink_metadata(folder.join("link.jsonl")).unwrap().is_symlink(), "the link stays");
    assert!(fs::read_to_string(folder.join("folder/target.jsonl")).unwrap().contains("generation"));
    // An export must not write through a link at the name of its partial file.
    let victim = from.write("victim", "mine");
    std::os::unix::fs::symlink(&victim, folder.join("new.jsonl.partial")).unwrap();
    from.ok(&["zk", "export", "new.jsonl"]);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    assert!(!folder.join("new.jsonl.partial").exists());
}

#[test]
fn counters_of_ephemerals_are_continued_only_on_request() {
    let (_keeper, from) = source();
    from.ok(&["zk", "create", "/menagerie/lock"]);
    for _ in 0..3 {
        let path = from.ok(&["zk", "create", "-s", "/menagerie/lock/t-"]);
        from.ok(&["zk", "rm", path.trim()]);
    }
    let file = export(&from);
    let to = User::new("counters");
    to.ok(&["zk", "import", &file]);
    assert_eq!(to.ok(&["zk", "create", "-s", "/menagerie/lock/t-"]), "/menagerie/lock/t-0000000000\n");
    to.ok(&["zk", "import", &file, "--namespace", "/all", "--all-counters"]);
    assert_eq!(to.ok(&["zk", "create", "-s", "/all/lock/t-"]), "/all/lock/t-0000000003\n");
}

#[test]
fn rights_move_along() {
    let (_keeper, from) = source();
    let from = from.with("MENAGERIE_ZOOKEEPER_AUTH", "me:hush");
    from.ok(&["zk", "create", "-p", "/menagerie/private/child", "secret"]);
    let file = export(&from);
    let to = User::new("rights").with("MENAGERIE_ZOOKEEPER_AUTH", "me:hush");
    to.ok(&["zk", "import", &file]);
    assert_eq!(content(&to, "/menagerie"), content(&from, "/menagerie"));
    let stranger = User::at(to.servers.clone().unwrap());
    stranger.fails(&["zk", "get", "/menagerie/private/child"], 1, &["not allowed"]);
    assert!(!fs::read_to_string(&file).unwrap().contains("hush"));
}

#[test]
fn work_in_progress_is_noticed() {
    let (_keeper, from) = source();
    let mut held = from.spawn(&["zk", "create", "--ephemeral", "/menagerie/worker"]);
    held.wait_for_line("its path", |line| line.starts_with("/menagerie").then_some(()));
    let done = from.run(&["zk", "export", "x.jsonl"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stderr.contains("1 ephemeral left out"), "{}", done.stderr);
    assert!(!fs::read_to_string(from.folder().join("x.jsonl")).unwrap().contains("worker"));
    from.fails(&["zk", "import", "x.jsonl", "--replace"], 1, &["in use", "menagerie status"]);
    held.signal(Signal::INT);
    held.wait_for_end();
    from.ok(&["zk", "import", "x.jsonl", "--replace"]);
}

#[test]
fn what_is_there_is_not_overwritten_unless_asked_for() {
    let (_keeper, from) = source();
    from.ok(&["zk", "create", "/menagerie/new", "new"]);
    let file = export(&from);
    let to = User::new("replace");
    to.ok(&["zk", "create", "-p", "/menagerie/old/deep", "old"]);
    to.ok(&["zk", "create", "/menagerie/generation", "99999999999999"]);
    to.fails(&["zk", "import", &file], 1, &["/menagerie is not empty", "--replace"]);
    assert_eq!(to.ok(&["zk", "get", "/menagerie/old/deep"]), "old\n");
    to.ok(&["zk", "import", &file, "--replace"]);
    assert_eq!(to.ok(&["zk", "ls", "-n", "/menagerie"]), "generation\nnew\n");
    assert_eq!(to.ok(&["zk", "get", "/menagerie/generation"]), "100000000000000\n", "above both");
}

#[test]
fn interrupted_import_goes_on_with_the_same_export_only() {
    let (_keeper, from) = source();
    for name in ["a", "b", "c"] {
        from.ok(&["zk", "create", &format!("/menagerie/{name}"), name]);
    }
    let file = export(&from);
    let header: Value =
        serde_json::from_str(fs::read_to_string(&file).unwrap().lines().next().unwrap()).unwrap();
    let to = User::new("resume");
    // As a crash leaves it: the mark, a generation, a part of the znodes, one of them wrong.
    to.ok(&["zk", "create", "-p", "/menagerie/a", "half"]);
    to.ok(&["zk", "create", "/menagerie/generation", "1001"]);
    let note = format!(r#"{{"export":{},"since_ms":1,"clearing":false}}"#, header["export"]);
    to.ok(&["zk", "create", "/menagerie/importing", &note]);

    let other = from.folder().join("other.jsonl");
    from.ok(&["zk", "export", other.to_str().unwrap()]);
    to.fails(&["zk", "import", other.to_str().unwrap()], 1, &["another export", "--replace"]);
    to.fails(&["zk", "export", "x.jsonl"], 1, &["not finished"]);
    let status = to.ok(&["status"]);
    assert!(
        status.contains("an import is not finished") && status.contains("menagerie zk import"),
        "{status}"
    );
    assert_eq!(to.json(&["status"])["importing"], true);
    let doctor = to.run(&["doctor"]);
    assert_eq!(doctor.code, Some(1));
    assert!(doctor.text().contains("is not finished"), "{}", doctor.text());
    assert!(to.ok(&["zk", "import", &file]).contains("continuing an earlier attempt"));
    assert_eq!(content(&to, "/menagerie"), content(&from, "/menagerie"));
}

#[test]
fn killed_import_can_be_run_again() {
    let (_keeper, from) = source();
    // An export of many znodes, built by hand from a small one.
    let text = fs::read_to_string(export(&from)).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let (header, root) = (lines.remove(0), lines.remove(0));
    let znode = |number: u32| root.replace("\"/\"", &format!("\"/z{number}\""));
    let end = r#"{"line":"end","znodes":3001,"ephemerals":0}"#.to_owned();
    let all: Vec<String> =
        [header, root.clone()].into_iter().chain((0..3000).map(znode)).chain([end]).collect();
    let file = from.write("many.jsonl", &(all.join("\n") + "\n"));

    let to = User::new("killed");
    let mut import = to.spawn(&["zk", "import", &file]);
    eventually("the import has begun", || {
        (to.run(&["zk", "stat", "/menagerie/importing"]).code == Some(0)
            || to.run(&["zk", "stat", "/menagerie/z2999"]).code == Some(0))
        .then_some(())
    });
    import.kill();
    let done = to.run(&["zk", "import", &file, "--replace"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(content(&to, "/menagerie").len(), 3001);
}

#[test]
fn damaged_exports_change_nothing() {
    let (_keeper, from) = source();
    from.ok(&["zk", "create", "/menagerie/a"]);
    let text = fs::read_to_string(export(&from)).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let to = User::new("damaged");
    for (name, damaged, why) in [
        ("empty", String::new(), "header"),
        ("torn", lines[..lines.len() - 1].join("\n"), "last line is missing"),
        ("missing", [lines[0], lines[1], lines[lines.len() - 1]].join("\n"), "holds 1"),
        ("cut", text[..text.len() - 20].to_owned(), "not a line of an export"),
    ] {
        let file = to.write(name, &damaged);
        to.fails(&["zk", "import", &file], 1, &[why, "nothing was changed"]);
        let done = to.run_with(&["zk", "import", "-"], damaged.as_bytes());
        assert_eq!(done.code, Some(1), "{}", done.stderr);
    }
    assert_eq!(to.ok(&["zk", "ls", "-n", "/"]), "", "nothing is there");
    to.fails(&["zk", "export", "x"], 1, &["/menagerie does not exist", "--namespace"]);
    let done = to.run_with(&["zk", "import", "-"], text.as_bytes());
    assert_eq!(done.code, Some(0), "a pipe is as good as a file: {}", done.stderr);
}
