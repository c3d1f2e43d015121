//! A wrapper in a separate process, which can be killed and stopped: this test executable, started again.

use std::cell::{Cell, RefCell};
use std::env;
use std::process::Command as Std;
use std::time::Duration;

use menagerie_kernel::Moment;
use menagerie_kernel::guard::{Command, ProcessId, Stream, spawn};
use menagerie_testkit::{Process, binary};
use rustix::process::Signal;

/// What makes this test executable a wrapper.
const ARGUMENTS: [&str; 3] = ["--exact", "guard::wrapper::run_as_wrapper", "--nocapture"];
/// Where testkit looks for the product; otherwise every wrapper would build it again.
const BINARY: &str = "MENAGERIE_BIN";
/// The script to run; set only in a wrapper.
const SCRIPT: &str = "GUARD_TEST_SCRIPT";
const DEADLINE_MS: &str = "GUARD_TEST_DEADLINE_MS";
const GRACE_MS: &str = "GUARD_TEST_GRACE_MS";
/// Set if the command is to have the terminal.
const TERMINAL: &str = "GUARD_TEST_TERMINAL";

/// A running wrapper. Its command shares its standard output.
pub struct Wrapper {
    process: Process,
    command: ProcessId,
    family: Vec<ProcessId>,
}

impl Wrapper {
    /// Starts a wrapper for this script, and waits until the guard, the command and this many `others` have printed
    /// their pids.
    pub fn start(script: &str, others: usize, deadline: Option<Duration>, grace: Duration) -> Self {
        let mut wrapper = Std::new(env::current_exe().expect("a running test has an executable"));
        wrapper
            .args(ARGUMENTS)
            .env(BINARY, binary())
            .env(SCRIPT, script)
            .env(GRACE_MS, grace.as_millis().to_string());
        if let Some(deadline) = deadline {
            wrapper.env(DEADLINE_MS, deadline.as_millis().to_string());
        }
        let process = Process::spawn(&mut wrapper);
        // The command may be quicker to write than its wrapper.
        let (started, others_seen) = (Cell::new(None), RefCell::new(Vec::new()));
        process.wait_for_line("whom it has started", |line| {
            let known = |pid: &str| ProcessId::of(pid.parse().ok()?).ok();
            if let Some((guard, command)) =
                line.strip_prefix("started ").and_then(|pids| pids.split_once(' '))
            {
                started.set(known(guard).zip(known(command)));
            } else {
                others_seen.borrow_mut().extend(known(line));
            }
            (started.get().is_some() && others_seen.borrow().len() == others).then_some(())
        });
        let (guard, command) = started.get().expect("it was waited for");
        let family = [guard, command].into_iter().chain(others_seen.into_inner()).collect();
        Self { process, command, family }
    }

    pub fn command(&self) -> ProcessId {
        self.command
    }

    /// The guard, the command, and all the others.
    pub fn family(&self) -> Vec<ProcessId> {
        self.family.clone()
    }

    pub fn says(&self, line: &str) {
        self.process.wait_for_line(line, |said| (said == line).then_some(()));
    }

    pub fn kill(&mut self) {
        self.process.kill();
    }

    pub fn pause(&self) {
        self.process.signal(Signal::STOP);
    }
}

/// The command line of a wrapper for a shell, with the terminal for this script.
pub fn terminal_command_line(script: &str) -> String {
    let (exe, binary) = (env::current_exe().expect("a running test has an executable"), binary().display());
    let variables = format!("{TERMINAL}=1 {GRACE_MS}=1000 {BINARY}='{binary}' {SCRIPT}='{script}'");
    format!("{variables} '{}' {}", exe.display(), ARGUMENTS.join(" "))
}

/// No test but the wrapper itself; without a script, it has nothing to do.
#[tokio::test]
async fn run_as_wrapper() {
    let Ok(script) = env::var(SCRIPT) else { return };
    // Where tests run one after the other, the name of this one stands at the beginning of the line.
    println!();
    let millis = |name| env::var(name).ok().map(|ms| Duration::from_millis(ms.parse().unwrap()));
    let mut command = Command::new("sh", millis(GRACE_MS).unwrap()).args(["-c", &script]);
    if env::var_os(TERMINAL).is_some() {
        command = command.take_terminal();
    } else {
        command = command.stdin(Stream::Null);
    }
    if let Some(deadline) = millis(DEADLINE_MS) {
        command = command.deadline(Moment::after(deadline));
    }
    let mut guarded = spawn(command, binary()).await.unwrap();
    println!("started {} {}", guarded.guard(), guarded.command());
    let outcome = guarded.wait().await;
    println!("outcome {outcome:?}");
}
