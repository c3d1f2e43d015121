//! A pool with everything that can be in one.

use menagerie_testkit::{Keeper, Process, eventually};
use menagerie_znodes::ZnodeSpec;

use super::{Damage, Matrix, delete, user};
use crate::cli::User;
use crate::slots::fleetlock::{lock, serve};

const MATRIX: Matrix = Matrix {
    owners: &["kernel", "slots"],
    fleeting: &["/ltime", "/importing", "/doctor-<id>"],
    world,
    commands: &[
        &["slots", "freeze", "pool"],
        &["slots", "thaw", "pool"],
        &["slots", "list"],
        &["slots", "show", "pool"],
        &["slots", "history", "pool"],
        &["slots", "set-max", "pool", "2"],
        &["slots", "acquire", "pool", "--holder", "script", "--wait", "300ms"],
        &["slots", "acquire", "pool", "--holder", "new", "--wait", "300ms"],
        &["slots", "run", "pool", "--holder", "other", "--wait", "300ms", "--", "true"],
        &["slots", "release", "pool", "script"],
        &["slots", "release", "pool", "runner", "--force"],
        &["slots", "rearm", "pool", "tired"],
        &["slots", "create", "pool", "--max", "2"],
        &["check", "slots", "pool"],
        &["status"],
        &["slots", "freeze", "--all"],
        &["slots", "delete", "zebra"],
        &["slots", "delete", "pool"],
    ],
    // Freezing must depend on nothing but the pool itself.
    must_succeed: |command, entry| {
        command == ["slots", "freeze", "pool"] && !["/slots", "/slots/<pool>"].contains(&entry.pattern)
    },
    leaves_no_trace: |entry: &ZnodeSpec| {
        let free = "/slots/<pool>/lock<number>";
        ["/slots", "/slots/<pool>", free, "/slots/<pool>/disarmed/<holder>"].contains(&entry.pattern)
    },
};

/// Two holders, a command and a script; two waiters, a command and a FleetLock client; and a watchdog out of service.
fn world(user: &User) -> Vec<Process> {
    for pool in ["pool", "zebra"] {
        user.ok(&["slots", "create", pool, "--max", "2"]);
    }
    let watch =
        ["slots", "watch", "pool", "--holder", "tired", "--when", "false", "--every", "1s", "--", "true"];
    let mut watchdog = user.spawn(&watch);
    eventually("the watchdog is out of service, and its slot free", || {
        let pool = user.json(&["slots", "show", "pool"]);
        (pool["disarmed"][0]["holder"] == "tired" && pool["used"] == 0).then_some(())
    });
    watchdog.kill();
    let run = |holder: &str| {
        user.spawn(&[
            "slots",
            "run",
            "pool",
            "--holder",
            holder,
            "--",
            "sh",
            "-c",
            "echo in; exec sleep 1000",
        ])
    };
    let runner = run("runner");
    runner.wait_for_line("that it runs", |line| (line == "in").then_some(()));
    user.ok(&["slots", "acquire", "pool", "--holder", "script"]);
    let waiter = run("waiter");
    let (server, address) = serve(user, &[]);
    eventually("it waits", || {
        (user.json(&["slots", "show", "pool"])["waiters"][0]["holder"] == "waiter").then_some(())
    });
    assert_eq!(lock(address, "fleet"), 409);
    vec![runner, waiter, server]
}

#[test]
fn command_goes_on_when_its_sign_of_life_is_deleted_with_the_folder() {
    let server = Keeper::new().args(["--durability", "os"]).start();
    let user = user(&server, "/menagerie");
    let mut processes = world(&user);
    delete(&user, "/menagerie/slots/pool/alive");
    eventually("it shows that it lives", || {
        (user.json(&["slots", "show", "pool"])["holders"][0]["alive"] == true).then_some(())
    });
    let runner = &mut processes[0];
    assert!(runner.try_wait().is_none(), "nobody has released its slot");
}

#[test]
fn pool_of_which_a_part_is_deleted_goes_on_or_says_why_not() {
    MATRIX.run(Damage::Deleted);
}

#[test]
fn pool_of_which_a_part_is_emptied_goes_on_or_says_why_not() {
    MATRIX.run(Damage::Emptied);
}

#[test]
fn pool_of_which_a_part_is_garbage_goes_on_or_says_why_not() {
    MATRIX.run(Damage::Garbage);
}
