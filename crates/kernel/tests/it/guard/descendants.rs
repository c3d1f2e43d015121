//! Killed wrappers, killed guards, and crowds of descendants.

use std::fs;
use std::path::Path;
use std::time::Instant;

use menagerie_kernel::Moment;
use menagerie_kernel::guard::{Outcome, Stream};
use menagerie_testkit::eventually;
use rustix::process::{Pid, Signal, kill_process};

use super::wrapper::Wrapper;
use super::{GRACE, LONG, ends, lines, next_line, next_process, runs, script, start};

/// A grandchild in a session of its own, one that was forked twice on top, and one without an environment.
const FAMILY: &str = "trap '' TERM HUP; setsid sh -c 'echo $$; exec sleep 600' & \
    (setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 600; done' &); \
    env -i sh -c 'echo $$; exec sleep 600' & wait; while :; do sleep 600; done";

#[tokio::test]
async fn when_the_wrapper_is_killed_everything_dies() {
    let mut wrapper = Wrapper::start(FAMILY, 3, None, GRACE);
    let family = wrapper.family();
    wrapper.kill();
    for (index, process) in family.into_iter().enumerate() {
        ends(&format!("descendant {index}"), process);
    }
}

#[tokio::test]
async fn a_stopped_wrapper_does_not_save_its_command_from_the_deadline() {
    // Long enough for all of them to begin.
    let time = GRACE * 30;
    let began = Instant::now();
    let mut wrapper = Wrapper::start(FAMILY, 3, Some(time), GRACE);
    let family = wrapper.family();
    wrapper.pause();
    for (index, process) in family.into_iter().enumerate() {
        ends(&format!("descendant {index}"), process);
    }
    assert!(began.elapsed() >= time, "killed after {:?}", began.elapsed());
    wrapper.kill();
}

#[tokio::test]
async fn a_stopped_wrapper_without_a_deadline_harms_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let (go, here) = (dir.path().join("go"), dir.path().display());
    let script = format!("until [ -e '{here}/go' ]; do sleep 0.02; done; echo done; exec sleep 600");
    let mut wrapper = Wrapper::start(&script, 0, None, GRACE);
    wrapper.pause();
    fs::write(go, "").unwrap();
    // The command goes on: it writes to the wrapper's standard output, which is ours.
    wrapper.says("done");
    assert!(runs(wrapper.command()));
    wrapper.kill();
    ends("the command", wrapper.command());
}

#[tokio::test]
async fn when_the_guard_is_killed_the_wrapper_kills_everything() {
    let mut guarded = start(script(FAMILY, LONG)).await;
    let mut output = lines(&mut guarded);
    let mut family = vec![guarded.command()];
    for _ in 0..3 {
        family.push(next_process(&mut output).await);
    }
    // A child of ours that has nothing to do with it.
    let mut other = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    kill_process(Pid::from_raw(guarded.guard().pid as i32).unwrap(), Signal::KILL).unwrap();
    assert_eq!(guarded.wait().await, Outcome::GuardDied);
    for process in family {
        assert!(!process.exists(), "{process} is left");
    }
    assert!(other.try_wait().unwrap().is_none(), "a stranger was killed");
    other.kill().unwrap();
    other.wait().unwrap();
}

#[tokio::test]
async fn a_command_that_dies_with_its_guard_is_swept_up_too() {
    let mut guarded = start(script("sleep 600 & echo $!; wait", LONG)).await;
    let child = next_process(&mut lines(&mut guarded)).await;
    for process in [guarded.guard(), guarded.command()] {
        kill_process(Pid::from_raw(process.pid as i32).unwrap(), Signal::KILL).unwrap();
    }
    assert_eq!(guarded.wait().await, Outcome::GuardDied);
    assert!(!child.exists());
}

#[tokio::test]
async fn orphans_are_reaped_while_the_command_runs_and_do_not_count_as_its_end() {
    let orphan = "(sh -c 'echo $$; exit 9' &)";
    let mut guarded =
        start(script(&format!("{orphan}; {orphan}; read line; exit 2"), LONG).stdin(Stream::Piped)).await;
    let mut output = lines(&mut guarded);
    for _ in 0..2 {
        let pid: u32 = next_line(&mut output).await.parse().unwrap();
        let gone = || (!Path::new(&format!("/proc/{pid}")).exists()).then_some(());
        eventually("the orphan is waited for", gone);
    }
    assert!(runs(guarded.command()));
    drop(guarded.stdin.take());
    assert_eq!(guarded.wait().await, Outcome::Exited(2));
}

/// Two hundred processes that replace themselves a few times a second. Without a pause they would leave no pids to the
/// other tests.
const CROWD: &str = "trap '' TERM; exec 3<&0; hop() { sleep 0.3; hop & }; i=0; \
    while [ $i -lt 200 ]; do { read line <&3; hop; } & i=$((i + 1)); done; \
    echo ready; while :; do sleep 600; done";

#[tokio::test]
async fn a_crowd_that_forks_all_the_time_ends_with_nothing_left() {
    let mut guarded = start(script(CROWD, GRACE).stdin(Stream::Piped)).await;
    let group = Pid::from_raw(guarded.command().pid as i32).unwrap();
    let mut output = lines(&mut guarded);
    assert_eq!(next_line(&mut output).await, "ready");
    // They begin when their input ends.
    drop(guarded.stdin.take());
    guarded.control().set_deadline(Moment::after(GRACE * 3));
    assert_eq!(guarded.wait().await, Outcome::Expired);
    // Each of them held the other end of this pipe.
    assert_eq!(output.next_line().await.unwrap(), None);
    assert!(rustix::process::test_kill_process_group(group).is_err(), "somebody is left");
}
