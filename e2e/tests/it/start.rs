//! Starts that must fail and say why.

use std::net::TcpListener;

use menagerie_testkit::{End, Keeper, Process, Server};
use tempfile::TempDir;

use crate::up::up;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary directory can be made")
}

/// Runs `menagerie keeper` on a data folder of its own, on any port unless the arguments name one.
fn keeper(args: &[&str]) -> End {
    let data = folder();
    let data = data.path().to_str().expect("its name is text");
    let mut line = vec!["keeper", "--data", data];
    if !args.contains(&"--listen") {
        line.extend(["--listen", "127.0.0.1:0"]);
    }
    Process::menagerie(line.into_iter().chain(args.iter().copied())).wait_for_end()
}

/// Checks the exit code, and that standard error contains all of these.
#[track_caller]
fn assert_end(end: &End, code: i32, words: &[&str]) {
    assert_eq!(end.status.code(), Some(code), "{}", end.stderr);
    for word in words {
        assert!(end.stderr.contains(word), "{word:?} is missing in:\n{}", end.stderr);
    }
}

fn data(server: &Server) -> &str {
    server.data().to_str().expect("its name is text")
}

#[test]
fn second_keeper_on_one_folder_is_refused_and_told_who_has_it() {
    let server = Keeper::new().start();
    let second = ["keeper", "--listen", "127.0.0.1:0", "--data", data(&server)];
    let end = Process::menagerie(second).wait_for_end();
    assert_end(&end, 74, &["in use by another keeper", &format!("process {}", server.pid()), "help: "]);
    menagerie_testkit::RawClient::open(server.address()).ping();
}

#[test]
fn taken_port_is_reported_with_its_owner_and_the_flag_to_change_it() {
    let owner = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    let address = owner.local_addr().expect("a listener has an address").to_string();
    let us = format!("process {}", std::process::id());
    assert_end(&keeper(&["--listen", &address]), 1, &[&address, &us, "--listen"]);
    assert_end(&keeper(&["--metrics", &address]), 1, &[&address, &us, "--metrics"]);
    let data = folder();
    let data = data.path().to_str().expect("its name is text");
    let up = Process::menagerie(up(&["--data", data, "--keeper-listen", &address])).wait_for_end();
    assert_end(&up, 1, &[&address, &us, "--keeper-listen"]);
}

#[test]
fn plain_listener_for_other_machines_must_be_asked_for_by_name() {
    assert_end(&keeper(&["--listen", "0.0.0.0:0"]), 2, &["--listen", "--insecure", "--tls-listen"]);
    assert_end(&keeper(&["--metrics", "0.0.0.0:0"]), 2, &["--metrics", "--insecure"]);
}

#[test]
fn flags_that_make_no_sense_are_refused() {
    assert_end(&keeper(&["--no-such-flag"]), 2, &["--no-such-flag"]);
    assert_end(&keeper(&["--listen", "nowhere"]), 2, &["--listen", "nowhere"]);
    assert_end(&keeper(&["--tick", "0"]), 2, &["--tick"]);
    assert_end(&keeper(&["--durability", "perhaps"]), 2, &["--durability", "fsync"]);
    assert_end(&keeper(&["--super-digest", "root:abc"]), 2, &["--super-digest", "super:BASE64"]);
    assert_end(&keeper(&["--tls-listen", "127.0.0.1:0"]), 2, &["--tls-cert", "--tls-key"]);
    assert_end(&keeper(&["--tls-cert", "/nowhere"]), 2, &["--tls-listen"]);
    assert_end(&keeper(&["--log-level", "=,"]), 2, &["--log-level"]);
}

#[test]
fn missing_certificates_are_named() {
    let tls =
        ["--tls-listen", "127.0.0.1:0", "--tls-cert", "/nowhere/cert.pem", "--tls-key", "/nowhere/key.pem"];
    let end = keeper(&tls);
    assert!(!end.status.success());
    assert!(end.stderr.contains("/nowhere/") && end.stderr.contains("--tls-cert"), "{}", end.stderr);
}

#[test]
fn data_of_a_newer_version_is_not_touched() {
    let mut server = Keeper::new().start();
    assert!(server.terminate().success());
    let format = server.data().join("keeper/format");
    std::fs::write(&format, "menagerie-keeper 2\n").expect("the format can be written");
    let end =
        Process::menagerie(["keeper", "--listen", "127.0.0.1:0", "--data", data(&server)]).wait_for_end();
    assert_end(&end, 74, &["format 2", format.to_str().expect("its name is text"), "help: "]);
    std::fs::write(&format, "menagerie-keeper 1\n").expect("the format can be written");
    server.restart();
}
