//! A holder whose machine was suspended. When it wakes up, another may have its slot.

use std::fs;

use menagerie_testkit::{Machine, OpCode, Process, eventually};

use super::{user, wait_for_waiter};
use crate::cli::User;

/// Records continuously that it holds the slot. `/proc/uptime` goes on while a machine is suspended.
pub const STAMPS: &str =
    r#"echo $$; while :; do read -r now _ < /proc/uptime; echo "$now" >> "in-$0"; sleep 0.02; done"#;

pub fn run<'a>(holder: &'a str, script: &'a str) -> Vec<&'a str> {
    let options = ["--holder", holder, "--host", holder, "--grace", "1s", "--ephemeral"];
    [&["slots", "run", "pool"], &options[..], &["--", "sh", "-c", script, holder]].concat()
}

/// When a holder held the slot, in hundredths of a second.
pub fn stamps(user: &User, holder: &str) -> Vec<u64> {
    let text = fs::read_to_string(user.folder().join(format!("in-{holder}"))).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
    whole.lines().filter_map(|line| line.replace('.', "").parse().ok()).collect()
}

/// Whether a socket has unread bytes from this port.
fn unread_from(port: u16) -> bool {
    let sockets = fs::read_to_string("/proc/net/tcp").expect("Linux tells about sockets");
    let from = format!(":{port:04X}");
    sockets.lines().any(|socket| {
        let fields: Vec<&str> = socket.split_whitespace().collect();
        fields.get(2).is_some_and(|remote| remote.ends_with(&from))
            && fields
                .get(4)
                .and_then(|queues| queues.split_once(':'))
                .is_some_and(|(_, read)| read != "00000000")
    })
}

#[test]
fn suspended_ephemeral_holder_is_out_before_another_is_in() {
    let user = user("suspended", 1).with("MENAGERIE_SESSION_TIMEOUT", "8s");
    let (machine, (servers, proxy)) = (Machine::new(), user.servers_through_proxy());
    let mut command = user.command(&run("a", STAMPS));
    command.env("MENAGERIE_ZOOKEEPER", servers);
    let mut first = Process::spawn(machine.host(&mut command));
    first.wait_for_line("its process id", |line| line.parse::<u32>().ok());
    // The reply to a heartbeat arrives while the machine is suspended, so the holder reads it first when it wakes up.
    proxy.hold_replies();
    let beats = proxy.requests_of(OpCode::Multi);
    eventually("a heartbeat", || (proxy.requests_of(OpCode::Multi) > beats).then_some(()));
    let suspended = machine.suspend(&first);
    proxy.heal();
    eventually("its answer", || unread_from(proxy.address().port()).then_some(()));
    proxy.partition();
    let _second = user.spawn(&run("b", STAMPS));
    wait_for_waiter(&user, "b");
    eventually("another is in", || (!stamps(&user, "b").is_empty()).then_some(()));
    suspended.resume();
    assert_eq!(first.wait_for_end().status.code(), Some(73), "it says that it has lost its slot");
    let (last, taken) = (stamps(&user, "a").into_iter().max(), stamps(&user, "b").into_iter().min());
    assert!(last < taken, "the first was in until {last:?}, the second from {taken:?} on");
}
