//! Servers that grant a shorter session time-out after a restart.

use menagerie_testkit::{Ensemble, TICK_MS, eventually};

use super::{Fleet, assert_all, assert_owners};
use crate::cli::User;

#[test]
fn worker_goes_on_with_a_session_that_has_less_time() {
    let mut servers = Ensemble::from_env().start_own();
    let user = User::at(servers.chroot("queues-shorter")).with("MENAGERIE_SESSION_TIMEOUT", "8s");
    let fleet = Fleet::of(user);
    fleet.create("mail", 2);
    let fed = r#"while read -r line; do echo "$line" >> fed; echo "$line" | sed 's/,.*/,"ok":true}/'; done"#;
    fleet.create("fed", 1);
    // The grace is at most a quarter of the time-out, and a quarter of 8 s is more than a lease of 2 s ever has left.
    let options = ["--settle", "300ms", "--grace", "10s"];
    let start = |args: &[&str]| fleet.user.spawn(&[&["worker"], &options[..], args].concat());
    let worker = start(&["mail", "--", "sh", "work.sh"]);
    let _feeds = start(&["fed", "--serve", "--", "sh", "-c", fed]);
    fleet.put("mail", 0..4);
    fleet.put("fed", 0..1);
    fleet.wait_until_drained("mail");
    fleet.wait_until_drained("fed");
    servers.restart_all_with_tick(TICK_MS / 4);
    eventually("it notices", || worker.stderr().contains("shorter session time-out").then_some(()));
    fleet.put("mail", 4..20);
    fleet.put("fed", 1..2);
    fleet.wait_until_drained("mail");
    fleet.wait_until_drained("fed");
    let handled = fleet.handled();
    assert_all(&handled, 0..20);
    assert_owners(&handled);
    assert_eq!(fleet.file("violations"), "");
}
