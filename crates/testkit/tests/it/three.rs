//! Three Apache servers.

use std::time::{Duration, Instant};

use menagerie_testkit::{Connect, DEADLINE, Ensemble, Incoming, RawClient, Servers, TICK_MS};
use menagerie_wire::Request;

use crate::ask::{create, creation, exists};

/// One ensemble for all steps: three JVMs take seconds to start.
#[test]
fn servers_are_killed_and_cut_off() {
    let mut servers = Ensemble::Apache3.start_own();
    a_killed_leader_has_a_successor_with_all_that_was_written(&mut servers);
    a_successor_is_elected_at_the_first_try(&mut servers);
    a_follower_that_is_cut_off_answers_from_what_it_has(&mut servers);
}

fn a_killed_leader_has_a_successor_with_all_that_was_written(servers: &mut Servers) {
    create(&mut RawClient::open(servers.address(servers.follower())), "/before", 0);
    let killed = servers.kill_leader();
    let leader = servers.leader();
    assert_ne!(leader, killed);
    assert!(exists(&mut RawClient::open(servers.address(leader)), "/before"));
    create(&mut RawClient::open(servers.address(leader)), "/between", 0);
    servers.restart(killed);
    assert_eq!(servers.leader(), leader, "who comes back follows");
    assert!(exists(&mut RawClient::open(servers.address(killed)), "/between"));
}

fn a_successor_is_elected_at_the_first_try(servers: &mut Servers) {
    let election = |_| {
        let begun = Instant::now();
        let killed = servers.kill_leader();
        let took = begun.elapsed();
        servers.restart(killed);
        took
    };
    // A busy machine may be slow once or twice. A leader whose followers do not come waits 50 ticks before it gives
    // up.
    let quickest = (0..3).map(election).min();
    assert!(quickest < Some(Duration::from_millis(50 * u64::from(TICK_MS))), "{quickest:?}");
}

fn a_follower_that_is_cut_off_answers_from_what_it_has(servers: &mut Servers) {
    let follower = servers.follower();
    let address = servers.address(follower);
    let (mut reader, mut writer) = (RawClient::open(address), RawClient::open(address));
    servers.cut_off(follower);
    let cut = Instant::now();

    create(&mut RawClient::open(servers.address(servers.leader())), "/after", 0);
    assert!(!exists(&mut reader, "/after"), "it has not heard of it, and answers all the same");
    writer.send(&creation("/unanswered", 0));
    let (mut answers, mut last) = (0, cut);
    while let Some(Incoming::Reply(_)) = {
        reader.send(&Request::Ping);
        reader.reply(DEADLINE)
    } {
        (answers, last) = (answers + 1, Instant::now());
    }
    let answered = last - cut;
    println!(
        "cut off: {answers} pings answered in {answered:?}, connection closed after {:?}",
        cut.elapsed()
    );
    assert!(answered > Duration::from_millis(5 * u64::from(TICK_MS)), "it gave up after {answered:?}");
    assert_eq!(writer.reply(DEADLINE), Some(Incoming::Closed), "a write cannot be answered");
    let nobody = RawClient::try_connect(address, &Connect::default());
    assert!(!matches!(nobody, Ok(Ok(_))), "it serves nobody now: {nobody:?}");

    servers.rejoin(follower);
    assert!(exists(&mut RawClient::open(address), "/after"));
}
