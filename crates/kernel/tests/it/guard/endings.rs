//! The outcome of a command is passed on, and its descendants end with it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Instant;

use menagerie_kernel::Moment;
use menagerie_kernel::guard::{Command, GuardError, Outcome, Stream, spawn};
use menagerie_testkit::{binary, eventually};
use rustix::process::Signal;

use super::{GRACE, LONG, ends, lines, next_line, next_process, script, start};

#[tokio::test]
async fn exit_codes_and_signals_are_passed_on() {
    for code in [0, 1, 42, 255] {
        let outcome = start(script(&format!("exit {code}"), LONG)).await.wait().await;
        assert_eq!(outcome, Outcome::Exited(code));
        assert_eq!(i32::from(outcome.exit_code()), code);
    }
    let outcome = start(script("kill -USR1 $$", LONG)).await.wait().await;
    assert_eq!(outcome, Outcome::Signaled(10));
    assert_eq!(outcome.exit_code(), 138);
}

#[tokio::test]
async fn a_program_that_is_not_there_is_127_and_one_that_is_none_126() {
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("plain");
    fs::write(&plain, "just text").unwrap();
    let no_format = dir.path().join("no-format");
    fs::write(&no_format, "just text").unwrap();
    fs::set_permissions(&no_format, fs::Permissions::from_mode(0o755)).unwrap();

    let cases = [
        (Command::new("menagerie-no-such-program", GRACE), 127),
        (Command::new("/no/such/program", GRACE), 127),
        (Command::new("", GRACE), 127),
        (Command::new(&plain, GRACE), 126),
        (Command::new(&no_format, GRACE), 126),
        (Command::new(dir.path(), GRACE), 126),
        (Command::new("true\0", GRACE), 126),
        (Command::new("true", GRACE).arg("x".repeat(4_000_000)), 126),
    ];
    for (command, code) in cases {
        let what = format!("{command:.40?}");
        let error = spawn(command, binary()).await.expect_err(&what);
        assert!(matches!(error, GuardError::NoProgram { .. }), "{what}: {error:?}");
        assert_eq!(error.exit_code(), code, "{what}: {error:?}");
    }
}

#[tokio::test]
async fn a_directory_that_is_not_there_is_told_from_a_program_that_is_not_there() {
    let error =
        spawn(Command::new("true", GRACE).directory("/no/such"), binary()).await.expect_err("no directory");
    assert!(
        matches!(&error, GuardError::NoDirectory { directory, .. } if directory == "/no/such"),
        "{error:?}"
    );
    assert_eq!(error.exit_code(), 126);
}

#[tokio::test]
async fn a_guard_that_is_no_guard_is_an_error() {
    let missing = spawn(Command::new("true", GRACE), "/no/such/guard".as_ref()).await.expect_err("no guard");
    assert!(matches!(missing, GuardError::NoGuard { .. }), "{missing:?}");
    let other = spawn(Command::new("true", GRACE), "/bin/true".as_ref()).await.expect_err("no guard");
    assert!(matches!(other, GuardError::GuardDied { .. }), "{other:?}");
}

#[tokio::test]
async fn what_has_passed_its_deadline_is_not_started_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let touched = dir.path().join("touched");
    let command = Command::new("touch", GRACE).arg(&touched).deadline(Moment::from_nanos(1));
    let error = spawn(command, binary()).await.expect_err("it is too late");
    assert!(matches!(error, GuardError::TooLate { .. }), "{error:?}");
    assert_eq!(error.exit_code(), 73);
    assert!(!touched.exists());
}

#[tokio::test]
async fn signals_reach_the_whole_group() {
    // The grandchild reports the signal; the child only waits.
    let child = "trap : USR1; sh -c 'trap \"echo grandchild; exit 3\" USR1; echo ready; while :; do sleep 0.05; done'; exit 7";
    let mut guarded = start(script(child, LONG)).await;
    let mut output = lines(&mut guarded);
    assert_eq!(next_line(&mut output).await, "ready");
    guarded.control().signal(Signal::USR1);
    assert_eq!(next_line(&mut output).await, "grandchild");
    assert_eq!(guarded.wait().await, Outcome::Exited(7));
}

/// Whether this process ignores a signal.
fn ignores(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << (signal.as_raw() - 1)) != 0
}

#[tokio::test]
async fn a_signal_sent_at_once_is_not_lost() {
    for signal in [Signal::INT, Signal::TERM, Signal::QUIT, Signal::HUP, Signal::USR1, Signal::USR2] {
        // The test runner may ignore some signals, as nohup does; a command inherits that.
        if ignores(signal) {
            continue;
        }
        // No shell: each catches signals in its own way. No core is written in this directory.
        let mut guarded = start(Command::new("sleep", LONG).arg("600").directory("/proc")).await;
        guarded.control().signal(signal);
        assert_eq!(guarded.wait().await, Outcome::Signaled(signal.as_raw()));
    }
}

#[tokio::test]
async fn asked_to_stop_a_command_may_tidy_up_and_end_as_it_likes() {
    let mut guarded =
        start(script("trap 'echo tidy; exit 5' TERM; echo ready; while :; do sleep 0.05; done", LONG)).await;
    let mut output = lines(&mut guarded);
    assert_eq!(next_line(&mut output).await, "ready");
    guarded.control().stop(LONG);
    assert_eq!(next_line(&mut output).await, "tidy");
    assert_eq!(guarded.wait().await, Outcome::Exited(5));
}

#[tokio::test]
async fn asked_to_stop_a_stubborn_command_is_killed_after_its_grace_and_no_earlier() {
    let mut guarded = start(script("trap '' TERM; echo ready; while :; do sleep 600; done", LONG)).await;
    assert_eq!(next_line(&mut lines(&mut guarded)).await, "ready");
    let asked = Instant::now();
    guarded.control().stop(GRACE);
    assert_eq!(guarded.wait().await, Outcome::Signaled(9));
    assert!(asked.elapsed() >= GRACE, "killed after {:?}", asked.elapsed());
}

#[tokio::test]
async fn a_stopped_command_is_woken_to_hear_that_it_shall_end() {
    let mut guarded = start(script("trap 'exit 5' TERM; echo ready; kill -STOP $$; exit 1", LONG)).await;
    assert_eq!(next_line(&mut lines(&mut guarded)).await, "ready");
    let stopped = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", guarded.command().pid)).unwrap();
        stat.contains(") T ").then_some(())
    };
    eventually("the command stops itself", stopped);
    guarded.control().stop(LONG);
    assert_eq!(guarded.wait().await, Outcome::Exited(5));
}

#[tokio::test]
async fn what_a_command_leaves_behind_ends_before_its_outcome_is_known() {
    // One that heeds SIGTERM and one that does not, both in sessions of their own.
    let left = "(setsid sh -c 'echo $$; exec sleep 600' &); (setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 600; done' &)";
    let command = script(&format!("{left}; read line; exit 6"), GRACE).stdin(Stream::Piped);
    let mut guarded = start(command).await;
    let mut output = lines(&mut guarded);
    let (first, second) = (next_process(&mut output).await, next_process(&mut output).await);
    // Both are there; now the command may end.
    drop(guarded.stdin.take());
    assert_eq!(guarded.wait().await, Outcome::Exited(6));
    assert!(!first.exists() && !second.exists());
}

#[tokio::test]
async fn dropping_it_kills_it_also_while_somebody_holds_its_control() {
    let mut guarded = start(script("echo $$; exec sleep 600", LONG)).await;
    let command = next_process(&mut lines(&mut guarded)).await;
    assert_eq!(command, guarded.command());
    let guard = guarded.guard();
    let control = guarded.control().clone();
    drop(guarded);
    ends("the command", command);
    ends("its guard", guard);
    control.signal(Signal::TERM);
}

#[tokio::test]
async fn waiting_can_be_given_up_and_taken_up_again() {
    let mut guarded = start(script("read line; exit 4", LONG).stdin(Stream::Piped)).await;
    for _ in 0..3 {
        tokio::select! {
            biased;
            outcome = guarded.wait() => panic!("it waits for a line, but ended: {outcome:?}"),
            () = tokio::task::yield_now() => {}
        }
    }
    drop(guarded.stdin.take());
    assert_eq!(guarded.wait().await, Outcome::Exited(4));
    assert_eq!(guarded.wait().await, Outcome::Exited(4));
    assert!(!guarded.guard().exists());
}
