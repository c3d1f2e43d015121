//! Hosts distinguished by machine id and boot, or indistinguishable.

use serde_json::Value;

use super::{holders, pool, user};
use crate::cli::{Done, User};
use crate::journal::full::unshare;

/// Runs its last arguments on what looks like a host with this machine id and boot.
const NODE: &str = "mount -t tmpfs none /etc && printf %s \"$1\" > /etc/machine-id && printf %s \"$2\" > /etc/boot-id \
    && mount --bind /etc/boot-id /proc/sys/kernel/random/boot_id && shift 2 && exec \"$@\"";

const ID: &str = "3d1219c7c4c5404aaa1f6d2a48adfda4";
const BOOTS: [&str; 2] = ["11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"];

/// `/etc/machine-id` of hosts that have none yet, or that were cloned carelessly.
const NO_IDS: [&str; 5] =
    ["", "uninitialized\n", "00000000000000000000000000000000\n", "3d1219c7\n", "localhost\n"];

/// Runs a `slots` command on a host called `node`.
fn on_node(user: &User, machine_id: &str, boot: &str, args: &[&str]) -> Done {
    let line = ["unshare", unshare(), "sh", "-c", NODE, "sh", machine_id, boot];
    let output = user.command_under(&line, args).output().expect("it can be started");
    Done::of(output)
}

const ACQUIRE: [&str; 7] = ["slots", "acquire", "pool", "--host", "node", "--wait", "1s"];
const RUN: [&str; 7] = ["slots", "run", "pool", "--host", "node", "--wait", "1s"];

#[test]
fn script_has_its_slot_again_after_a_boot_only_where_a_machine_id_proves_it_is_the_same_host() {
    let user = user("nodes-scripts", 1);
    for machine_id in NO_IDS {
        let first = on_node(&user, machine_id, BOOTS[0], &ACQUIRE);
        assert_eq!(first.code, Some(0), "{machine_id:?}: {}", first.stderr);
        let again = on_node(&user, machine_id, BOOTS[0], &ACQUIRE);
        assert_eq!(
            (again.code, again.text()),
            (Some(0), first.text()),
            "{machine_id:?}: one boot is one host"
        );
        let other = on_node(&user, machine_id, BOOTS[1], &ACQUIRE);
        assert_eq!(other.code, Some(75), "{machine_id:?}: two hosts under one slot, with {}", other.text());
        user.ok(&["slots", "release", "pool", "node"]);
    }
    let first = on_node(&user, ID, BOOTS[0], &ACQUIRE);
    let rebooted = on_node(&user, &format!("{ID}\n"), BOOTS[1], &ACQUIRE);
    assert_eq!((rebooted.code, rebooted.text()), (Some(0), first.text()), "{}", rebooted.stderr);
    let namesake = on_node(&user, &ID.replace('3', "4"), BOOTS[0], &ACQUIRE);
    assert_eq!(namesake.code, Some(75), "{}", namesake.text());
}

#[test]
fn doctor_warns_of_a_host_that_cannot_prove_who_it_is() {
    let user = user("nodes-doctor", 1);
    for (machine_id, health) in [("uninitialized\n", "warn"), (ID, "ok")] {
        let done = on_node(&user, machine_id, BOOTS[0], &["doctor", "-o", "json"]);
        let found: Value = serde_json::from_str(&done.text()).expect("it prints JSON");
        let host = found["findings"].as_array().unwrap().iter().find(|finding| finding["check"] == "host");
        assert_eq!(host.unwrap()["health"], health, "{found}");
    }
}

#[test]
fn run_takes_over_after_a_boot_only_where_a_machine_id_proves_it_is_the_same_host() {
    let user = user("nodes-runs", 1);
    let run = |machine_id: &str, boot: &str, command: &str| {
        on_node(&user, machine_id, boot, &[&RUN[..], &["--", command]].concat())
    };
    for machine_id in NO_IDS {
        assert_eq!(run(machine_id, BOOTS[0], "false").code, Some(1), "{machine_id:?}");
        assert_eq!(holders(&user), ["node"], "it has failed, so it is still out");
        let other = run(machine_id, BOOTS[1], "true");
        assert_eq!(other.code, Some(75), "{machine_id:?}: two hosts under one slot: {}", other.stderr);
        user.ok(&["slots", "release", "pool", "node", "--force"]);
    }
    assert_eq!(run(ID, BOOTS[0], "false").code, Some(1));
    let rebooted = run(ID, BOOTS[1], "true");
    assert_eq!(rebooted.code, Some(0), "{}", rebooted.stderr);
    assert_eq!(pool(&user)["used"], 0);
}
