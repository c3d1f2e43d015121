//! Servers that grant a shorter session time-out after a restart.

use menagerie_testkit::{Ensemble, OpCode, Process, TICK_MS, eventually};

use super::suspended::{STAMPS, run, stamps};
use super::wait_for_waiter;
use crate::cli::User;

#[test]
fn ephemeral_holder_is_out_before_another_is_in_also_when_its_session_came_back_with_less_time() {
    let mut servers = Ensemble::from_env().start_own();
    let user = User::at(servers.chroot("slots-shorter")).with("MENAGERIE_SESSION_TIMEOUT", "8s");
    user.ok(&["slots", "create", "pool", "--max", "1"]);
    let (far, proxy) = user.servers_through_proxy();
    let mut command = user.command(&run("a", STAMPS));
    command.env("MENAGERIE_ZOOKEEPER", far);
    let mut first = Process::spawn(&mut command);
    first.wait_for_line("its process id", |line| line.parse::<u32>().ok());
    let _second = user.spawn(&run("b", STAMPS));
    wait_for_waiter(&user, "b");
    let beats = proxy.requests_of(OpCode::Multi);
    servers.restart_all_with_tick(TICK_MS / 4);
    // By the new time-out its lease may be over; then it ends before its next heartbeat.
    eventually("its session is back", || {
        (proxy.requests_of(OpCode::Multi) > beats || first.try_wait().is_some()).then_some(())
    });
    proxy.partition();
    eventually("another is in", || (!stamps(&user, "b").is_empty()).then_some(()));
    assert_eq!(first.wait_for_end().status.code(), Some(73), "it says that it has lost its slot");
    let (last, taken) = (stamps(&user, "a").into_iter().max(), stamps(&user, "b").into_iter().min());
    assert!(last < taken, "the first was in until {last:?}, the second from {taken:?} on");
}
