//! A guard that runs one command after the other.

use std::time::Duration;

use menagerie_kernel::Moment;
use menagerie_kernel::guard::{GuardError, Guarded, Outcome, ReusableGuard, Stream};
use menagerie_testkit::binary;
use rustix::process::{Pid, Signal, kill_process};

use super::{GRACE, LONG, ends, lines, next_line, next_process, script};

async fn first(text: &str) -> Guarded {
    ReusableGuard::first(&script(text, GRACE).env("WHO", "first"), binary()).await.expect("it can be started")
}

async fn next(guard: ReusableGuard, text: &str) -> Guarded {
    guard.start(&script(text, GRACE).env("WHO", "next")).await.expect("it can be started")
}

#[tokio::test]
async fn one_guard_runs_many_commands_each_with_its_own_environment_and_end() {
    let mut running = first("echo $WHO $HOME; exit 3").await;
    let guard = running.guard();
    assert!(next_line(&mut lines(&mut running)).await.starts_with("first /"));
    assert_eq!(running.wait().await, Outcome::Exited(3));
    for code in 0..20 {
        let standing = ReusableGuard::after(running).expect("it stays");
        running = next(standing, &format!("echo $WHO; exit {code}")).await;
        assert_eq!(next_line(&mut lines(&mut running)).await, "next");
        assert_eq!(running.wait().await, Outcome::Exited(code));
        assert_eq!(running.guard(), guard);
    }
    drop(running);
    ends("the guard", guard);
}

#[tokio::test]
async fn what_a_command_leaves_behind_is_gone_before_the_next_begins() {
    let command = script("(setsid sleep 600 & echo $!); read line; exit 0", GRACE).stdin(Stream::Piped);
    let mut running = ReusableGuard::first(&command, binary()).await.expect("it can be started");
    let left = next_process(&mut lines(&mut running)).await;
    // It is there; now the command may end.
    drop(running.stdin.take());
    assert_eq!(running.wait().await, Outcome::Exited(0));
    assert!(!super::runs(left), "nothing is left when it is told that it has ended");
    let mut running = next(ReusableGuard::after(running).expect("it stays"), "exit 1").await;
    assert_eq!(running.wait().await, Outcome::Exited(1));
}

#[tokio::test]
async fn orders_for_one_command_do_not_reach_the_next() {
    let mut running = first("exit 0").await;
    assert_eq!(running.wait().await, Outcome::Exited(0));
    // It has ended, which the sender of the order could not know.
    running.control().stop(Duration::ZERO);
    running.control().set_deadline(Moment::after(Duration::ZERO));
    let mut running = next(ReusableGuard::after(running).expect("it stays"), "sleep 0.3; exit 4").await;
    assert_eq!(running.wait().await, Outcome::Exited(4));
}

#[tokio::test]
async fn deadline_of_a_later_command_is_kept() {
    let mut running = first("exit 0").await;
    running.wait().await;
    let guard = ReusableGuard::after(running).expect("it stays");
    let command = script("sleep 600", GRACE).deadline(Moment::after(GRACE * 10));
    let mut running = guard.start(&command).await.expect("it can be started");
    assert_eq!(running.wait().await, Outcome::Expired);
    let mut running = next(ReusableGuard::after(running).expect("it stays"), "exit 5").await;
    assert_eq!(running.wait().await, Outcome::Exited(5));
}

#[tokio::test]
async fn dropping_a_later_command_kills_it() {
    let mut running = first("exit 0").await;
    running.wait().await;
    let mut running = next(ReusableGuard::after(running).expect("it stays"), "echo $$; exec sleep 600").await;
    let sleeper = next_process(&mut lines(&mut running)).await;
    let guard = running.guard();
    drop(running);
    ends("the command", sleeper);
    ends("the guard", guard);
}

#[tokio::test]
async fn killed_guard_is_noticed_before_it_is_used_and_while_it_is() {
    let kill = |pid: u32| {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process number");
        kill_process(pid, Signal::KILL).expect("it runs");
    };
    let mut running = first("exit 0").await;
    running.wait().await;
    let mut standing = ReusableGuard::after(running).expect("it stays");
    assert!(standing.is_alive());
    let mut running = next(standing, "echo $$; exec sleep 600").await;
    let sleeper = next_process(&mut lines(&mut running)).await;
    kill(running.guard().pid);
    assert_eq!(running.wait().await, Outcome::GuardDied);
    ends("the command", sleeper);
    assert!(ReusableGuard::after(running).is_none());
    let mut running = first("exit 0").await;
    let guard = running.guard();
    running.wait().await;
    let mut standing = ReusableGuard::after(running).expect("it stays");
    kill(guard.pid);
    ends("the guard", guard);
    assert!(!standing.is_alive());
    let error = standing.start(&script("true", LONG)).await.expect_err("there is nobody to start it");
    assert!(matches!(error, GuardError::GuardDied { .. }), "{error}");
}
