//! `menagerie check`: as monitoring calls it.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use menagerie_testkit::{Process, binary, eventually, free_port};

use super::{Done, User};

/// Runs a check; insists on its exit code, one line on stdout, and nothing on stderr.
#[track_caller]
fn check(user: &User, args: &[&str], code: i32, words: &[&str]) -> String {
    let done = user.run(&[&["check"], args].concat());
    line(&done, args, code, words)
}

#[track_caller]
fn line(done: &Done, args: &[&str], code: i32, words: &[&str]) -> String {
    let text = done.text();
    assert_eq!(done.code, Some(code), "{args:?}: {text}{}", done.stderr);
    assert_eq!(done.stderr, "", "{args:?}");
    assert_eq!(text.lines().count(), 1, "{args:?}: {text}");
    for word in words {
        assert!(text.contains(word), "{args:?}: {word:?} is missing in {text}");
    }
    text
}

#[test]
fn znode_is_checked_for_existence_age_and_contents() {
    let user = User::new("check");
    let gone =
        check(&user, &["node", "/lock1", "-w", "2d", "-c", "4d"], 0, &["NODE OK - /lock1 does not exist"]);
    assert!(gone.contains("'age'=U;172800;345600;0"), "{gone}");
    check(&user, &["node", "/lock1", "--must-exist"], 2, &["NODE CRITICAL - /lock1 does not exist"]);

    user.ok(&["zk", "create", "/lock1", "host7"]);
    let before = user.json(&["zk", "stat", "/lock1"]);
    check(&user, &["node", "/lock1"], 0, &["NODE OK - host7: /lock1 there for "]);
    check(&user, &["node", "--path", "/lock1", "-w", "2d", "-c", "4d"], 0, &["s;172800;345600;0 'bytes'=5B"]);
    // With an @ a value inside the range alerts, so the znode need not get old here.
    check(&user, &["node", "/lock1", "-w", "@0:1d"], 1, &["NODE WARNING - host7: "]);
    check(&user, &["node", "/lock1", "-w", "@0:1d", "-c", "@0:1d"], 2, &["NODE CRITICAL - host7: "]);
    check(&user, &["node", "/lock1", "-c", "1d:"], 2, &["CRITICAL"]);
    check(&user, &["node", "/lock1", "--changed", "-w", "1h"], 0, &["unchanged for"]);
    assert_eq!(user.json(&["zk", "stat", "/lock1"]), before, "it only looks");

    let payload = r#"{"holder":"db-7","host":"host7","reason":"a|b"}"#;
    user.ok(&["zk", "create", "/slot", payload]);
    check(&user, &["node", "/slot", "-w", "@0:1d"], 1, &["NODE WARNING - db-7 on host7: /slot there for"]);
    let more = user.run(&["check", "node", "/slot", "-vvv"]);
    let text = more.text();
    assert_eq!(more.code, Some(0));
    assert!(text.contains("\ncreated ") && text.contains("\nasked ") && text.contains("\ndata: "), "{text}");
    assert_eq!(text.matches('|').count(), 1, "only numbers follow a bar: {text}");
}

#[test]
fn pool_is_checked_for_who_is_stuck_gone_or_waiting() {
    let user = User::new("check-slots");
    check(&user, &["slots", "decom"], 3, &["SLOTS UNKNOWN - ", "there is no pool decom"]);
    user.ok(&["slots", "create", "decom", "--max", "1"]);
    let free = check(
        &user,
        &["slots", "decom", "-w", "2d", "-c", "4d"],
        0,
        &["SLOTS OK - pool decom: nobody of 1 in"],
    );
    assert!(
        free.contains("'decom.used'=0;;;0;1 'decom.oldest'=0s;172800;345600;0 'decom.waiting'=0;;;0"),
        "{free}"
    );

    let args =
        ["slots", "run", "decom", "--holder", "host7", "--host", "host7", "--reason", "bad disk", "--"];
    let mut run = user.spawn(&[&args[..], &["sh", "-c", "echo in; exec sleep 1000"]].concat());
    run.wait_for_line("that it is in", |line| (line == "in").then_some(()));
    check(
        &user,
        &["slots", "decom", "-w", "2d"],
        0,
        &["SLOTS OK - host7 holds decom/1 for ", "1 of 1 in, 0 waiting"],
    );
    let before = user.json(&["zk", "tree", "/menagerie/slots"]);
    check(
        &user,
        &["slots", "--pool", "decom", "-w", "@0:1d"],
        1,
        &["SLOTS WARNING - host7 holds decom/1", "(bad disk)"],
    );
    check(&user, &["slots", "decom", "-c", "@0:1d"], 2, &["SLOTS CRITICAL - host7 holds decom/1"]);
    assert_eq!(user.json(&["zk", "tree", "/menagerie/slots"]), before, "it only looks");

    let mut wait = user.spawn(&["slots", "run", "decom", "--holder", "host8", "--", "true"]);
    eventually("somebody waits", || {
        (user.json(&["slots", "show", "decom"])["waiters"][0]["holder"] == "host8").then_some(())
    });
    check(
        &user,
        &["slots", "decom", "--waiting-warning", "0"],
        1,
        &["SLOTS WARNING - ", "1 waiting", "'decom.waiting'=1;0;;0"],
    );
    check(&user, &["slots", "decom", "--waiting-critical", "0"], 2, &["SLOTS CRITICAL - "]);
    let more = user.run(&["check", "slots", "decom", "-v"]).text();
    assert!(more.contains("\nhost8 waits at place 1 for "), "{more}");
    wait.kill();

    // A crash keeps the slot: that is what must alert.
    run.kill();
    eventually("it is known to be gone", || {
        (user.json(&["slots", "show", "decom"])["holders"][0]["alive"] == false).then_some(())
    });
    check(
        &user,
        &["slots", "decom"],
        1,
        &["SLOTS WARNING - host7 holds decom/1", "and is gone", "'decom.gone'=1"],
    );
    check(&user, &["slots", "decom", "--gone", "critical"], 2, &["SLOTS CRITICAL - host7"]);
    check(&user, &["slots", "decom", "--gone", "ok"], 0, &["SLOTS OK - host7"]);
    user.ok(&["slots", "freeze", "decom"]);
    check(&user, &["slots", "decom", "--gone", "ok"], 0, &["frozen"]);
}

#[test]
fn link_is_enough_to_be_a_plugin() {
    let user = User::new("link");
    user.ok(&["zk", "create", "/lock1", "host7"]);
    let link = user.folder().join("check_menagerie");
    std::os::unix::fs::symlink(binary(), &link).unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(&link);
        command
            .args(args)
            .env("MENAGERIE_ZOOKEEPER", user.servers.as_deref().unwrap())
            .env("HOME", user.folder());
        let output = command.current_dir(user.folder()).stdin(Stdio::null()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        Done { code: output.status.code(), stdout: output.stdout, stderr }
    };
    line(&run(&["node", "/lock1"]), &[], 0, &["NODE OK - host7"]);
    line(&run(&["node", "/lock1", "-w", "@0:1d"]), &[], 1, &["NODE WARNING"]);
    for args in [&["-h"][..], &["-V"], &[], &["frobnicate"], &["node"]] {
        let done = run(args);
        assert_eq!((done.code, done.stderr.as_str()), (Some(3), ""), "{args:?}: {}", done.text());
    }
}

#[test]
fn whatever_is_no_check_is_unknown() {
    let user = User::new("unknown");
    for (args, words) in [
        (&["-h"][..], "Usage: "),
        (&["--help"], "Usage: "),
        (&["node", "--help"], "--must-exist"),
        (&["-V"], "0.1.0"),
        (&["node", "-V"], "0.1.0"),
        (&[], "Usage: "),
        (&["help", "node"], "--must-exist"),
        (&["node"], "CHECK UNKNOWN - the following required arguments were not provided: <PATH"),
        (&["slots"], "CHECK UNKNOWN - "),
        (&["slots", "a/b"], "CHECK UNKNOWN - "),
        (&["slots", "a", "--gone", "away"], "is no state"),
        (&["node", "no-path"], "CHECK UNKNOWN - "),
        (&["node", "/a", "--path", "/a"], "CHECK UNKNOWN - "),
        (&["node", "/a", "-w", "soon"], "CHECK UNKNOWN - "),
        (&["node", "/a", "-c", "2d:1d"], "ends before it starts"),
        (&["node", "/a", "-t", "0"], "CHECK UNKNOWN - "),
        (&["node", "/a", "-t", "5:FINE"], "is no state"),
        (&["node", "/a", "--frobnicate"], "--frobnicate"),
        (&["frobnicate"], "frobnicate"),
        (&["node", "/a", "--log-level", "%%"], "CHECK UNKNOWN - "),
    ] {
        let done = user.run(&[&["check"], args].concat());
        assert_eq!((done.code, done.stderr.as_str()), (Some(3), ""), "{args:?}: {}", done.text());
        assert!(done.text().contains(words), "{args:?}: {words:?} is missing in {}", done.text());
        let short = done.text().lines().count() <= 23 || args.iter().any(|arg| arg.contains('h'));
        assert!(short || args.is_empty(), "{args:?}: {}", done.text());
    }
    let done = user.run(&["--log", "json", "check", "--frobnicate"]);
    assert_eq!(done.code, Some(3), "{}", done.text());
}

#[test]
fn what_cannot_be_found_out_is_unknown() {
    let user = User::new("blind");
    let servers = user.servers.clone().unwrap();
    let dead = format!("127.0.0.1:{}", free_port());
    check(&User::at(&dead), &["node", "/a"], 3, &["NODE UNKNOWN - ", "no ZooKeeper server answers", &dead]);
    let mine = User::at(&servers).with("MENAGERIE_ZOOKEEPER_AUTH", "me:hush");
    mine.ok(&["zk", "create", "/mine", "secret"]);
    check(&user, &["node", "/mine"], 3, &["NODE UNKNOWN - ", "not allowed at /mine"]);
    check(&mine, &["node", "/mine"], 0, &["secret"]);
    let hosts = servers.split('/').next().unwrap();
    // Absent would be OK here: a mistyped chroot must not look like that.
    check(
        &User::at(format!("{hosts}/none")),
        &["node", "/lock1"],
        3,
        &["NODE UNKNOWN - /none", "does not exist"],
    );
    user.write("menagerie.toml", "[zookeeper]\nsevrers = 1\n");
    check(&user, &["node", "/a"], 3, &["NODE UNKNOWN - ", "menagerie.toml:2"]);
}

#[test]
fn time_out_has_the_state_that_was_chosen() {
    // Accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let user = User::at(silent.local_addr().unwrap().to_string());
    check(&user, &["node", "/a", "-t", "1"], 3, &["NODE UNKNOWN - ", "within 1s"]);
    check(&user, &["node", "/a", "-t", "1:CRITICAL"], 2, &["NODE CRITICAL - "]);
    check(&user, &["-t", "1:ok", "node", "/a"], 0, &["NODE OK - "]);

    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let user = User::at(silent.local_addr().unwrap().to_string());
    let mut stopped = Process::spawn(&mut user.command(&["check", "node", "/a", "-t", "10m"]));
    // Once it connects, it handles signals.
    let _talk = silent.accept().unwrap();
    let end = stopped.stop();
    assert_eq!(
        (end.status.code(), end.stdout.as_slice()),
        (Some(3), &["NODE UNKNOWN - stopped by signal 15".to_owned()][..])
    );
}
