//! On a terminal, the command takes the wrapper's place and gives it back.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command as Std, Stdio};

use super::wrapper::terminal_command_line;

/// Until the terminal's foreground is the shell's own group: what is typed before that goes to the wrapper.
const READY: &str = r#"until [ $(cut -d " " -f 8 /proc/$$/stat) = $$ ]; do sleep 0.01; done; echo ready"#;

/// Runs a wrapper on its own terminal, types these keys when the command prints `ready`, and returns all lines.
fn on_terminal(script: &str, then: &str, keys: &[u8]) -> Vec<String> {
    let line = format!("{}; {then}", terminal_command_line(script));
    // The one from util-linux: it makes a terminal and copies its own streams to and from it.
    let mut terminal = Std::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script can be run");
    let mut input = terminal.stdin.take().expect("standard input is piped");
    let mut all = Vec::new();
    for line in BufReader::new(terminal.stdout.take().expect("standard output is piped"))
        .lines()
        .map_while(Result::ok)
    {
        let line = line.trim_end().to_owned();
        if line == "ready" {
            input.write_all(keys).expect("keys can be typed");
        }
        all.push(line);
    }
    terminal.wait().expect("a child can be waited for");
    all
}

/// The terminal echoes the keys on the same line.
#[track_caller]
fn has(lines: &[String], wanted: &str) {
    assert!(lines.iter().any(|line| line.ends_with(wanted)), "no line {wanted:?} in {lines:#?}");
}

#[test]
fn a_command_reads_the_terminal_and_its_wrapper_has_it_afterwards() {
    let lines = on_terminal(
        &format!("{READY}; read word; echo got $word"),
        "read word; echo then $word",
        b"one\ntwo\n",
    );
    has(&lines, "got one");
    has(&lines, "outcome Exited(0)");
    has(&lines, "then two");
}

#[test]
fn ctrl_c_goes_to_the_command_alone() {
    let lines = on_terminal(
        &format!("trap \"echo interrupted; exit 3\" INT; {READY}; while :; do sleep 0.05; done"),
        ":",
        b"\x03",
    );
    has(&lines, "interrupted");
    has(&lines, "outcome Exited(3)");
}

#[test]
fn ctrl_z_stops_nothing() {
    let lines = on_terminal(&format!("{READY}; read word; echo got $word"), ":", b"\x1aone\n");
    has(&lines, "got one");
    has(&lines, "outcome Exited(0)");
}
