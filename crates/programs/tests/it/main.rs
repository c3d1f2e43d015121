//! Programs under a real guard, with jobs that are not messages of a queue.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod exec;
mod multiplex;
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

/// A lease of an hour, and the sender of its order to stop.
fn lease() -> (Lease, watch::Sender<bool>) {
    let hour = SECOND * 3_600;
    let (stop, stopped) = watch::channel(false);
    let lease = Lease::new(watch::channel(Moment::after(hour)).1, watch::channel(hour).1, stopped);
    (lease, stop)
}

/// Panics: these programs must start at once.
fn no_delay(why: &str, _: Duration) {
    panic!("{why}");
}
