//! Known complaints about `consul lock` and `etcdctl lock`.

use rustix::process::Signal;

use super::{holders, is_running, pool, queue, start, user, wait_for_waiter, wait_until_gone};
use crate::cli::User;

/// Prints its own pid, and that of a grandchild that has left its group and session.
const FAMILY: &str = "echo $$; setsid sh -c 'trap \"\" TERM HUP; echo $$; while :; do sleep 1; done' & wait";

#[test]
fn slot_that_is_lost_takes_grandchildren_along_through_any_shell() {
    let user = user("lost", 1);
    let (mut run, child) = start(&user, "a", &[], FAMILY);
    let grandchild: u32 = run.wait_for_line("the grandchild", |line| line.parse().ok());
    user.ok(&["slots", "release", "pool", "a", "--force"]);
    let end = run.wait_for_end();
    assert_eq!(end.status.code(), Some(73), "{}", end.stderr);
    assert!(!is_running(child) && !is_running(grandchild), "nothing is left when the wrapper ends");
}

#[test]
fn sigterm_comes_before_anybody_else_is_let_in() {
    let user = user("late", 1);
    let (servers, proxy) = user.servers_through_proxy();
    // Long enough that on a busy machine the guard acts between the end of the lease and that of the session.
    let far = User::at(servers).with("MENAGERIE_SESSION_TIMEOUT", "8s");
    let polite = "trap 'echo asked; exit 0' TERM; echo $$; while :; do sleep 0.1; done";
    let (mut first, child) = start(&far, "a", &["--ephemeral"], polite);
    let probe = format!("if kill -0 {child} 2>&-; then echo alive; else echo dead; fi");
    let second = queue(&user, "b", &[], &probe);
    wait_for_waiter(&user, "b");
    proxy.partition();
    let seen = second.wait_for_line("what it found", |line| Some(line.to_owned()));
    assert_eq!(seen, "dead");
    first.wait_for_line("that it was asked to end", |line| (line == "asked").then_some(()));
    proxy.heal();
    assert_eq!(first.wait_for_end().status.code(), Some(73));
}

#[test]
fn every_signal_goes_to_the_whole_process_group() {
    let user = user("signals", 1);
    for (signal, code) in [(Signal::QUIT, 131), (Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let (mut run, child) =
            start(&user, "a", &["--on-failure", "release"], "echo $$; sleep 1000 & echo $!; wait");
        let sibling: u32 = run.wait_for_line("the other one", |line| line.parse().ok());
        run.signal(signal);
        assert_eq!(run.wait_for_end().status.code(), Some(code), "{signal:?}");
        assert!(!is_running(child) && !is_running(sibling), "{signal:?}");
        assert_eq!(holders(&user), [""; 0]);
    }
    let script = "trap 'echo got it; exit 0' USR1; echo $$; while :; do sleep 0.05; done";
    let (mut run, _) = start(&user, "a", &[], script);
    run.signal(Signal::USR1);
    run.wait_for_line("that it arrived", |line| (line == "got it").then_some(()));
    assert_eq!(run.wait_for_end().status.code(), Some(0));
}

#[test]
fn exit_code_is_the_childs() {
    let user = user("code", 1);
    let run = |script: &str| {
        let args = ["slots", "run", "pool", "--on-failure", "release", "--", "sh", "-c", script];
        user.run(&args).code
    };
    assert_eq!(run("exit 0"), Some(0));
    assert_eq!(run("exit 42"), Some(42));
    assert_eq!(run("kill -KILL $$"), Some(137));
}

#[test]
fn flags_of_the_child_are_the_childs() {
    let user = user("flags", 1);
    let args = ["slots", "run", "pool", "--", "echo", "-v", "--max", "3", "--", "-h", "--zookeeper"];
    assert_eq!(user.ok(&args), "-v --max 3 -- -h --zookeeper\n");
}

#[test]
fn what_is_held_already_is_not_waited_for() {
    let user = user("again", 1);
    let ticket = user.ok(&["slots", "acquire", "pool", "--holder", "script"]);
    assert_eq!(user.ok(&["slots", "acquire", "pool", "--holder", "script"]), ticket);
    let elsewhere = ["slots", "acquire", "pool", "--holder", "script", "--host", "elsewhere", "--wait", "3s"];
    user.fails(&elsewhere, 75, &["nobody on this host can tell"]);
    user.ok(&["slots", "release", "pool", "script"]);
    let (mut run, child) = start(&user, "a", &[], "echo $$; exec sleep 1000");
    run.kill();
    wait_until_gone(child);
    assert_eq!(holders(&user), ["a"], "a crash frees nothing");
    let (mut again, _) = start(&user, "a", &[], "echo $$; exit 0");
    assert_eq!(again.wait_for_end().status.code(), Some(0));
    assert_eq!(holders(&user), [""; 0]);
}

#[test]
fn lease_ends_with_its_wrapper_and_so_does_the_child() {
    let user = user("orphan", 1);
    let (mut run, child) = start(&user, "a", &["--ephemeral"], FAMILY);
    let grandchild: u32 = run.wait_for_line("the grandchild", |line| line.parse().ok());
    run.kill();
    wait_until_gone(child);
    wait_until_gone(grandchild);
    let (mut next, _) = start(&user, "b", &["--ephemeral"], "echo $$");
    assert_eq!(next.wait_for_end().status.code(), Some(0));
}

#[test]
fn child_knows_its_pool_its_slot_and_a_fence_that_rises() {
    let user = user("environment", 2);
    let said = || {
        user.ok(&[
            "slots",
            "run",
            "pool",
            "--",
            "sh",
            "-c",
            "echo $MENAGERIE_POOL $MENAGERIE_SLOT $MENAGERIE_FENCE",
        ])
    };
    let (first, second) = (said(), said());
    assert!(first.starts_with("pool 1 ") && second.starts_with("pool 1 "), "{first}{second}");
    let fence = |said: &str| {
        let (generation, zxid) = said.split_whitespace().last()?.split_once('-')?;
        Some((generation.parse::<u64>().ok()?, u64::from_str_radix(zxid, 16).ok()?))
    };
    assert!(fence(&second) > fence(&first), "{first}{second}");
    assert_eq!(pool(&user)["used"], 0);
}
