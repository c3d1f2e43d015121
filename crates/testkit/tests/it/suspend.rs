//! A suspended machine.

use std::env;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use menagerie_testkit::{Machine, Process, boottime, eventually};

/// Set only in the process that is suspended: this test executable, started again.
const CLOCKS: &str = "MENAGERIE_TEST_CLOCKS";
const SLEEP: Duration = Duration::from_secs(2);

#[test]
fn monotonic_clock_stands_still_while_a_machine_is_suspended_and_boottime_goes_on() {
    let machine = Machine::new();
    let mut command = Command::new(env::current_exe().expect("a running test has an executable"));
    command.args(["--exact", "suspend::clocks", "--nocapture"]).env(CLOCKS, "1");
    let process = Process::spawn(machine.host(&mut command));
    let clocks = |line: &str| {
        let (monotonic, boottime) = line.split_once(' ')?;
        Some((monotonic.parse::<i128>().ok()?, boottime.parse::<i128>().ok()?))
    };
    let before = process.wait_for_line("the time", clocks);
    for _ in 0..2 {
        let since = boottime();
        let suspended = machine.suspend(&process);
        eventually("it has slept", || (boottime() - since > SLEEP).then_some(()));
        suspended.resume();
    }
    let woken = i128::try_from(boottime().as_millis()).expect("it fits");
    let after = process.wait_for_line("the time", |line| clocks(line).filter(|(_, boot)| *boot > woken));
    let missed = (after.1 - before.1) - (after.0 - before.0);
    let asleep = i128::try_from((SLEEP * 2).as_millis()).expect("it fits");
    assert!((asleep..asleep + 1000).contains(&missed), "{missed} ms from {before:?} to {after:?}");
}

/// The other process; does nothing otherwise.
#[test]
fn clocks() {
    if env::var_os(CLOCKS).is_none() {
        return;
    }
    println!();
    let start = Instant::now();
    loop {
        println!("{} {}", start.elapsed().as_millis(), boottime().as_millis());
        thread::sleep(Duration::from_millis(20));
    }
}
