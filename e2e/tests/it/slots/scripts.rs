//! Scripts that take a slot without a process standing for it, and are killed or time out while it is given.

use std::time::Duration;

use menagerie_testkit::eventually;
use rustix::process::Signal;

use super::{far_from, holders, user};

/// Long enough to notice that a slot was given and to act before the reply arrives.
const FAR: Duration = Duration::from_millis(600);

const ACQUIRE: [&str; 5] = ["slots", "acquire", "pool", "--holder", "script"];

#[test]
fn script_that_is_ended_while_it_gets_a_slot_is_not_put_out_later() {
    for (signal, root) in [(Signal::INT, "interrupted"), (Signal::KILL, "killed")] {
        let user = user(root, 1);
        let (far, proxy) = far_from(&user);
        proxy.delay(FAR);
        let mut first = far.spawn(&ACQUIRE);
        eventually("it was let in", || (holders(&user) == ["script"]).then_some(()));
        first.signal(signal);
        let ticket = user.ok(&ACQUIRE);
        assert_eq!(user.ok(&ACQUIRE), ticket);
        // It finishes what is in flight; afterwards nothing more comes from it.
        let said = first.wait_for_end().stderr;
        assert_eq!(holders(&user), ["script"], "it was told that it holds a slot: {said}");
        user.fails(&["slots", "acquire", "pool", "--holder", "other", "--wait", "0"], 75, &["full"]);
        if signal == Signal::INT {
            assert!(said.contains("slots release pool script"), "it says what is left: {said}");
        }
    }
}

#[test]
fn script_whose_time_is_over_while_it_gets_a_slot_has_it() {
    let user = user("in-time", 1);
    let (far, proxy) = far_from(&user);
    proxy.delay(FAR);
    // It reads, it asks, and its time is over before the reply arrives.
    let ticket = far.ok(&[&ACQUIRE[..], &["--wait", "2s"]].concat());
    assert_eq!(holders(&user), ["script"]);
    assert_eq!(user.ok(&ACQUIRE), ticket);
}
