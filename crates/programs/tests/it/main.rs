//! Programs under a real guard, asked things that are no messages of any queue.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod exec;
mod serve;

use std::time::Duration;

use menagerie_kernel::Moment;
use menagerie_programs::{Lease, Limits, Program};
use tokio::sync::watch;

const SECOND: Duration = Duration::from_secs(1);

/// A shell script.
fn script(text: &str) -> Program {
    Program {
        command: vec!["sh".into(), "-c".into(), text.into()],
        guard: menagerie_testkit::binary().to_owned(),
        grace: SECOND,
        lease_grace: SECOND,
        limits: Limits::default(),
        user: None,
    }
}

/// A lease of an hour, unless it is stopped before.
fn lease() -> (Lease, watch::Sender<bool>) {
    let hour = SECOND * 3_600;
    let (stop, stopped) = watch::channel(false);
    let lease = Lease::new(watch::channel(Moment::after(hour)).1, watch::channel(hour).1, stopped);
    (lease, stop)
}

/// Nothing keeps these programs from starting.
fn no_delay(why: &str, _: Duration) {
    panic!("{why}");
}
