//! What a command reads and writes, and where it runs.

use std::process::Stdio;

use menagerie_kernel::guard::{Command, Outcome, Stream};
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
