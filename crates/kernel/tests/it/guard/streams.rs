//! What a command reads and writes, and where it runs.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;

use menagerie_kernel::guard::{Command, Outcome, ReusableGuard, Stream};
use menagerie_testkit::binary;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{LONG, lines, next_line, script, start};

#[tokio::test]
async fn piped_streams_carry_a_conversation_and_end_when_the_command_does() {
    let command = Command::new("sh", LONG)
        .args(["-c", "while read line; do echo \"got $line\"; done; echo over >&2"])
        .stdin(Stream::Piped)
        .stdout(Stream::Piped)
        .stderr(Stream::Piped);
    let mut guarded = start(command).await;
    let mut output = lines(&mut guarded);
    let mut input = guarded.stdin.take().unwrap();
    for word in ["one", "two"] {
        input.write_all(format!("{word}\n").as_bytes()).await.unwrap();
        assert_eq!(next_line(&mut output).await, format!("got {word}"));
    }
    drop(input);
    assert_eq!(output.next_line().await.unwrap(), None);
    let mut errors = String::new();
    guarded.stderr.take().unwrap().read_to_string(&mut errors).await.unwrap();
    assert_eq!(errors, "over\n");
    assert_eq!(guarded.wait().await, Outcome::Exited(0));
}

#[tokio::test]
async fn null_is_nothing() {
    let command = Command::new("sh", LONG)
        .args(["-c", "echo lost && ! read line"])
        .stdin(Stream::Null)
        .stdout(Stream::Null)
        .stderr(Stream::Null);
    assert_eq!(start(command).await.wait().await, Outcome::Exited(0));
}

fn appending(path: &Path) -> File {
    File::options().append(true).create(true).open(path).unwrap()
}

/// Writes lines to both streams in turn, some of them through a child.
const BOTH: &str =
    "for n in 1 2 3; do echo out $n; echo err $n >&2; sh -c 'echo child; echo child >&2'; done";

fn both() -> String {
    (1..=3).map(|n| format!("out {n}\nerr {n}\nchild\nchild\n")).collect()
}

#[tokio::test]
async fn one_file_has_both_outputs_in_order_behind_what_it_had() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    fs::write(&path, "before\n").unwrap();
    // The command's streams are asked for, and the file replaces them.
    let command = script(BOTH, LONG).stderr(Stream::Piped).output_to(appending(&path));
    let mut guarded = start(command).await;
    assert!(guarded.stdout.is_none() && guarded.stderr.is_none());
    assert_eq!(guarded.wait().await, Outcome::Exited(0));
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("before\n{}", both()));
}

#[tokio::test]
async fn nobody_needs_to_read_what_goes_to_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    // More than a pipe holds, many times.
    let command = script("head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2", LONG);
    let mut guarded = start(command.output_to(appending(&path))).await;
    assert_eq!(guarded.wait().await, Outcome::Exited(0));
    assert_eq!(fs::metadata(&path).unwrap().len(), 6_000_000);
}

#[tokio::test]
async fn each_command_of_one_guard_has_its_own_file() {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["first", "second"].map(|name| dir.path().join(name));
    let command = |path: &Path| script(BOTH, LONG).output_to(appending(path));
    let mut running = ReusableGuard::first(&command(&paths[0]), binary()).await.unwrap();
    assert_eq!(running.wait().await, Outcome::Exited(0));
    let guard = ReusableGuard::after(running).unwrap();
    let mut running = guard.start(&command(&paths[1])).await.unwrap();
    assert_eq!(running.wait().await, Outcome::Exited(0));
    // And one without a file writes to neither.
    let mut running =
        ReusableGuard::after(running).unwrap().start(&script("echo piped", LONG)).await.unwrap();
    assert_eq!(next_line(&mut lines(&mut running)).await, "piped");
    running.wait().await;
    for path in &paths {
        assert_eq!(fs::read_to_string(path).unwrap(), both());
    }
}

#[tokio::test]
async fn the_environment_and_the_directory_are_as_asked() {
    let dir = tempfile::tempdir().unwrap();
    let command = script("echo $FENCE; echo ${HOME-unset}; pwd -P", LONG)
        .env("FENCE", "lost")
        .env("FENCE", "17 4")
        .env_remove("HOME")
        .directory(dir.path());
    let mut guarded = start(command).await;
    let mut output = lines(&mut guarded);
    assert_eq!(next_line(&mut output).await, "17 4");
    assert_eq!(next_line(&mut output).await, "unset");
    assert_eq!(next_line(&mut output).await, dir.path().canonicalize().unwrap().to_str().unwrap());
    guarded.wait().await;

    let bare = Command::new("/usr/bin/env", LONG).env_clear().env("ONLY", "this").stdout(Stream::Piped);
    let mut guarded = start(bare).await;
    let mut all = String::new();
    guarded.stdout.take().unwrap().read_to_string(&mut all).await.unwrap();
    let names: Vec<&str> =
        all.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    assert!(names.contains(&"ONLY") && names.contains(&"MENAGERIE_GUARD") && names.len() == 2, "{names:?}");
}

/// A command's blocked and ignored signals and its open descriptors are the same as without a guard.
#[tokio::test]
async fn a_command_inherits_nothing_of_its_guard() {
    // No shell: shells reset their signals.
    let looks = [("grep", vec!["-E", "^Sig(Blk|Ign)", "/proc/self/status"]), ("ls", vec!["/proc/self/fd"])];
    for (program, args) in looks {
        let bare =
            tokio::process::Command::new(program).args(&args).stdin(Stdio::null()).output().await.unwrap();
        let command = Command::new(program, LONG).args(&args).stdin(Stream::Null).stdout(Stream::Piped);
        let mut guarded = start(command).await;
        let mut all = String::new();
        guarded.stdout.take().unwrap().read_to_string(&mut all).await.unwrap();
        assert_eq!(all, String::from_utf8(bare.stdout).unwrap());
    }
}
