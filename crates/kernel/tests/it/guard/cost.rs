//! What a guard costs.

use std::time::{Duration, Instant};

use menagerie_kernel::guard::{Command, Outcome};
use menagerie_testkit::binary;

use super::{LONG, start};

const RUNS: usize = 100;

/// Prints what it measures: `cargo test -p menagerie-kernel cost -- --nocapture`. The bound is for an unoptimised
/// executable; it catches a guard that starts to do too much. It applies to the fastest of all runs: a busy machine can
/// only make the others slower.
#[tokio::test]
async fn a_guard_costs_a_few_milliseconds() {
    binary();
    let (mut bare, mut guarded) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let began = Instant::now();
        assert!(tokio::process::Command::new("true").status().await.unwrap().success());
        bare.push(began.elapsed());
        let began = Instant::now();
        assert_eq!(start(Command::new("true", LONG)).await.wait().await, Outcome::Exited(0));
        guarded.push(began.elapsed());
    }
    bare.sort();
    guarded.sort();
    println!("true, median of {RUNS}: bare {:?}, guarded {:?}", bare[RUNS / 2], guarded[RUNS / 2]);
    let (bare, guarded) = (bare[0], guarded[0]);
    assert!(guarded < bare + Duration::from_millis(50), "bare {bare:?}, guarded {guarded:?}");
}
