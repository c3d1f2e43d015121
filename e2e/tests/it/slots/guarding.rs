//! Commands under a slot end when they must, and go on when they may.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::time::Duration;

use menagerie_testkit::{Ensemble, binary, eventually, eventually_within};
use rustix::process::Signal;

use super::{holders, is_running, pool, queue, start, user, wait_for_waiter, wait_until_gone};

#[test]
fn killed_wrapper_takes_everything_along_and_keeps_its_slot() {
    let user = user("killed", 1);
    let (mut run, child) = start(&user, "a", &[], "setsid sleep 1000 & echo $!; wait");
    run.kill();
    wait_until_gone(child);
    eventually("it is known to be gone", || (pool(&user)["holders"][0]["alive"] == false).then_some(()));
    let mut other = queue(&user, "b", &["--wait", "1s"], "echo $$");
    assert_eq!(other.wait_for_end().status.code(), Some(75));
    assert_eq!(holders(&user), ["a"]);
}

#[test]
fn run_is_resumed_only_on_the_same_host_and_only_when_the_earlier_one_is_gone() {
    let user = user("resumed", 2);
    let (mut run, _) = start(&user, "a", &[], "echo $$; exec sleep 1000");
    let run_as = |host: &str, wait: &str| {
        let args = ["slots", "run", "pool", "--holder", "a", "--host", host, "--wait", wait, "--", "true"];
        let done = user.run(&args);
        (done.code, done.stderr)
    };
    let (code, said) = run_as("a", "3s");
    assert_eq!(code, Some(75), "{said}");
    assert!(said.contains("slot 1 of pool pool, which this holder has: it is alive"), "{said}");
    run.kill();
    eventually("it is known to be gone", || (pool(&user)["holders"][0]["alive"] == false).then_some(()));
    let (code, said) = run_as("elsewhere", "3s");
    assert_eq!(code, Some(75), "{said}");
    assert!(said.contains("nobody on this host can tell"), "{said}");
    let (code, said) = run_as("a", "20s");
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(holders(&user), [""; 0]);
}

#[test]
fn children_of_a_stopped_ephemeral_holder_are_dead_before_another_is_let_in() {
    // Long enough that on a busy machine the guard acts between the end of the lease and that of the session.
    let user = user("frozen", 1).with("MENAGERIE_SESSION_TIMEOUT", "8s");
    let stubborn = "trap '' TERM; echo $$; while :; do sleep 0.1; done";
    let (mut first, child) = start(&user, "a", &["--ephemeral"], stubborn);
    let probe = format!("if kill -0 {child} 2>&-; then echo alive; else echo dead; fi");
    let second = queue(&user, "b", &["--ephemeral"], &probe);
    wait_for_waiter(&user, "b");
    first.pause();
    assert_eq!(second.wait_for_line("what it found", |line| Some(line.to_owned())), "dead");
    first.resume();
    assert_eq!(first.wait_for_end().status.code(), Some(73), "and it says that it has lost its slot");
}

#[test]
fn stopped_persistent_holder_loses_nothing() {
    let user = user("stopped", 1);
    let go = user.folder().join("go");
    let script = format!("echo $$; until [ -e {} ]; do sleep 0.05; done", go.display());
    let (mut run, child) = start(&user, "a", &[], &script);
    run.pause();
    eventually("its session is over", || (pool(&user)["holders"][0]["alive"] == false).then_some(()));
    assert!(is_running(child), "a holder that is merely stopped kills nothing");
    let twin = ["slots", "run", "pool", "--holder", "a", "--host", "a", "--wait", "3s", "--", "true"];
    let still = format!("its process {} still runs", run.id());
    user.fails(&twin, 75, &[&still]);
    run.resume();
    eventually("it is back", || (pool(&user)["holders"][0]["alive"] == true).then_some(()));
    std::fs::write(go, "").expect("a file can be written");
    assert_eq!(run.wait_for_end().status.code(), Some(0));
    assert_eq!(holders(&user), [""; 0]);
}

#[test]
fn failure_holds_success_releases_and_what_never_ran_releases() {
    let user = user("failure", 1);
    let run = |options: &[&str], command: &[&str]| {
        user.run(&[&["slots", "run", "pool", "--holder", "a"], options, &["--"], command].concat()).code
    };
    assert_eq!(run(&[], &["./none"]), Some(127));
    assert_eq!(run(&[], &["/"]), Some(126));
    assert_eq!(holders(&user), [""; 0]);
    assert_eq!(run(&[], &["false"]), Some(1));
    assert_eq!(holders(&user), ["a"], "a host that is taken apart half is still out");
    assert_eq!(run(&[], &["./none"]), Some(127));
    assert_eq!(holders(&user), ["a"], "and a slip of the pen does not change that");
    assert_eq!(run(&["--on-failure", "release"], &["false"]), Some(1));
    assert_eq!(holders(&user), [""; 0]);
    assert_eq!(run(&["--ephemeral"], &["false"]), Some(1));
    assert_eq!(holders(&user), [""; 0]);
}

#[test]
fn hooks_run_around_the_command_while_the_slot_is_held() {
    let user = user("hooks", 1);
    let run = |before: &str, after: &str, command: &str| {
        let options = ["--holder", "a", "--on-acquire", before, "--on-release", after];
        let done =
            user.run(&[&["slots", "run", "pool"], &options[..], &["--", "sh", "-c", command]].concat());
        (done.code, done.text(), done.stderr)
    };
    let (code, said, _) = run("echo before $MENAGERIE_SLOT", "echo after $MENAGERIE_SLOT", "echo now");
    assert_eq!((code, said.as_str()), (Some(0), "before 1\nnow\nafter 1\n"));
    let (code, said, why) = run("exit 4", "echo after", "echo now");
    assert_eq!((code, said.as_str()), (Some(4), ""), "without the first nothing runs");
    assert!(why.contains("--on-acquire failed"), "{why}");
    assert_eq!(holders(&user), [""; 0]);
    let (code, said, why) = run("true", "exit 5", "echo now");
    assert_eq!((code, said.as_str()), (Some(5), "now\n"));
    assert!(why.contains("the command succeeded, but --on-release failed"), "{why}");
    assert_eq!(holders(&user), ["a"], "what should be done before the release has failed");
}

#[test]
fn hook_that_cannot_be_started_after_the_command_keeps_the_slot() {
    let user = user("hook-not-started", 1);
    let go = user.folder().join("go");
    let script = format!("echo $$; until [ -e {} ]; do sleep 0.05; done", go.display());
    let (mut run, _) = start(&user, "a", &["--on-release", "true"], &script);
    // Not even a pipe can be created any more.
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    let wrapper = rustix::process::Pid::from_raw(run.id().try_into().expect("it is small"));
    rustix::process::prlimit(wrapper, rustix::process::Resource::Nofile, none).expect("it is ours");
    std::fs::write(go, "").expect("a file can be written");
    assert_eq!(run.wait_for_end().status.code(), Some(126));
    assert_eq!(holders(&user), ["a"], "what should be done before the release is not done");
}

#[test]
fn only_who_asks_to_end_cuts_the_delay_short() {
    let user = user("delay", 1);
    let (mut run, _) = start(&user, "a", &["--release-delay", "1h", "--on-release", "echo done"], "echo $$");
    run.wait_for_line("the end of the work", |line| (line == "done").then_some(()));
    eventually("the guard is gone", || {
        let children = format!("/proc/{0}/task/{0}/children", run.id());
        std::fs::read_to_string(children).ok()?.is_empty().then_some(())
    });
    for other in [Signal::WINCH, Signal::USR1, Signal::CONT] {
        run.signal(other);
    }
    assert_eq!(holders(&user), ["a"]);
    assert_eq!(holders(&user), ["a"]);
    assert_eq!(run.stop().status.code(), Some(0));
    assert_eq!(holders(&user), [""; 0]);
}

#[test]
fn slot_that_cannot_be_given_back_is_said_to_be_held() {
    // Its own servers, which go away for good.
    let mut servers = Ensemble::from_env().start_own();
    let user = crate::cli::User::at(servers.chroot("slots-gone")).with("MENAGERIE_SESSION_TIMEOUT", "2s");
    user.ok(&["slots", "create", "pool", "--max", "1"]);
    let go = user.folder().join("go");
    let script = format!("echo $$; until [ -e {} ]; do sleep 0.05; done", go.display());
    let (mut run, _) = start(&user, "a", &[], &script);
    for server in 0..servers.addresses().len() {
        servers.kill(server);
    }
    std::fs::write(go, "").expect("a file can be written");
    eventually_within(Duration::from_secs(120), "it gives up", || {
        run.stderr().contains("still held").then_some(())
    });
    assert_eq!(run.wait_for_end().status.code(), Some(69));
}

/// Waits until the terminal's foreground group is the shell's: anything typed before that goes to the wrapper.
const READY: &str = r#"until [ $(cut -d ' ' -f 8 /proc/$$/stat) = $$ ]; do sleep 0.01; done; echo ready"#;

#[test]
fn command_in_the_foreground_reads_the_terminal() {
    let user = user("terminal", 1);
    let script = format!("{READY}; read word; echo got $word");
    user.write("ask.sh", &script);
    let line = format!("{} slots run pool -- sh ask.sh", binary().display());
    let mut command = user.command(&[]);
    let mut terminal = std::process::Command::new("script");
    terminal.args(["-qec", &line, "/dev/null"]).env("SHELL", "/bin/sh").current_dir(user.folder());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => terminal.env(name, value),
            None => terminal.env_remove(name),
        };
    }
    command.env_clear();
    let mut terminal =
        terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script can be run");
    let mut input = terminal.stdin.take().expect("standard input is piped");
    let output = BufReader::new(terminal.stdout.take().expect("standard output is piped"));
    let mut lines = Vec::new();
    for line in output.lines().map_while(Result::ok) {
        if line.trim_end().ends_with("ready") {
            input.write_all(b"one\n").expect("keys can be typed");
        }
        lines.push(line.trim_end().to_owned());
    }
    assert!(lines.iter().any(|line| line.ends_with("got one")), "{lines:#?}");
    assert!(terminal.wait().expect("a child can be waited for").success());
}
