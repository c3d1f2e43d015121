//! Questions on a terminal.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use menagerie_testkit::binary;

use super::User;

/// Runs a command on a terminal, types `keys` when the question appears, and returns what was shown and the exit
/// code.
fn on_terminal(user: &User, args: &str, keys: &[u8]) -> (String, Option<i32>) {
    let line = format!("exec {} {args}", binary().display());
    // From util-linux: allocates a terminal, copies its own streams to and from it, and passes the exit code on.
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &line, "/dev/null"]).env("SHELL", "/bin/sh").env("HOME", user.folder());
    terminal.env("MENAGERIE_ZOOKEEPER", user.servers.as_deref().expect("they are known"));
    terminal.current_dir(user.folder()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut terminal = terminal.spawn().expect("script can be run");
    let mut input = terminal.stdin.take().expect("standard input is piped");
    let mut output = terminal.stdout.take().expect("standard output is piped");
    let (mut shown, mut buffer, mut typed) = (Vec::new(), [0; 1024], false);
    while let Ok(read @ 1..) = output.read(&mut buffer) {
        shown.extend_from_slice(&buffer[..read]);
        if !typed && String::from_utf8_lossy(&shown).contains("[y/N]") {
            input.write_all(keys).expect("keys can be typed");
            typed = true;
        }
    }
    let status = terminal.wait().expect("a child can be waited for");
    (String::from_utf8_lossy(&shown).into_owned(), status.code())
}

#[test]
fn deleting_many_is_asked_about_and_every_answer_is_understood() {
    let user = User::new("question");
    user.ok(&["zk", "create", "-p", "/a/b"]);
    for (keys, code, words) in [
        (&b"n\n"[..], 1, "nothing was deleted"),
        (b"\n", 1, "nothing was deleted"),
        (b"\x03", 130, ""),
        (b"\x04", 1, "nothing was deleted"),
    ] {
        let (shown, ended) = on_terminal(&user, "zk rm -r /a", keys);
        assert!(shown.contains("/a has 1 znode below it, 0 of them ephemeral"), "{shown}");
        assert_eq!(ended, Some(code), "{keys:?}: {shown}");
        assert!(shown.contains(words), "{keys:?}: {shown}");
        user.ok(&["zk", "stat", "/a/b"]);
    }
    let (shown, ended) = on_terminal(&user, "zk rm -r /a", b"y\n");
    assert_eq!(ended, Some(0), "{shown}");
    user.fails(&["zk", "stat", "/a"], 1, &["does not exist"]);
}
