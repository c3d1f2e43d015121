//! What fills a group.

use std::time::Duration;

use menagerie_wire::request::Create;
use menagerie_wire::{Acl, OpCode, Request};

use super::rig::Rig;
use crate::shell::expiry::Pulse;

const EPHEMERAL: i32 = 1;

#[test]
fn sessions_that_run_out_together_end_a_group_at_a_time() {
    const SESSIONS: usize = 5;
    let mut rig = Rig::new();
    for at in 0..SESSIONS {
        let mut client = rig.open();
        let path = format!("/{at}{}", "x".repeat(700_000));
        let create = Create { path: &path, data: None, acl: vec![Acl::open()], flags: EPHEMERAL, ttl: None };
        rig.send(&mut client, &Request::Create { op: OpCode::Create, create });
        rig.make_durable();
        rig.reply(&mut client);
    }
    // As if they had been silent for a minute while we ran.
    rig.server.started -= Duration::from_secs(60);
    let mut pulse = Pulse::new(rig.server.now());
    let mut groups = Vec::new();
    for _ in 0..SESSIONS {
        if rig.server.state.sessions.is_empty() {
            break;
        }
        pulse.beat(&mut rig.server);
        let group = rig.take_group();
        groups.push(group.items.len());
        assert!(pulse.sleep_ms(&rig.server, rig.server.now()) < 1000);
        rig.finish_group(group);
    }
    assert_eq!(groups, [2, 2, 1], "each is 700 KB long, and a group little more than a megabyte");
    assert_eq!(rig.server.state.tree.ephemeral_count(), 0);
}

#[test]
fn loop_that_waits_for_the_log_does_not_spin() {
    let mut rig = Rig::new();
    let _client = rig.open();
    rig.server.started -= Duration::from_secs(60);
    let now = rig.server.now();
    let mut pulse = Pulse::new(now);
    assert_eq!(pulse.sleep_ms(&rig.server, now), 0, "a session has run out");
    rig.server.group.bytes = 1 << 30;
    pulse.beat(&mut rig.server);
    assert_eq!(rig.server.state.sessions.len(), 1, "its end has no room yet");
    assert!(rig.server.starved, "the log loop will wake us");
    assert_ne!(pulse.sleep_ms(&rig.server, rig.server.now()), 0);
}
