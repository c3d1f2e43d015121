//! Writes are judged against all that was decided before, durable or not; readers see what is durable.

use menagerie_wire::{ErrorCode, Request, Response};
use proptest::prelude::*;

use super::script::{Pick, Step, Version, Who, Write, identities, script};
use super::world::World;
use crate::core::{Caller, ConnId, Limits, Options, SessionId, State};

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_delay_between_decision_and_disk_gives_the_same_answers_and_the_same_tree(steps in script(120)) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        world.step(&Step::Durable(usize::MAX));
        prop_assert_eq!(&world.visible, &world.decided);
        prop_assert!(world.state.pending.is_empty());
    }

    #[test]
    fn requests_to_read_see_what_is_durable(steps in script(60)) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
            let (session, ids) = (world.sessions[0].0, identities(1));
            for (path, node) in &world.visible.nodes {
                let request = Request::GetData { path, watch: false };
                let caller = Caller { session, ids: &ids };
                let answer = world.state.read(ConnId(1), caller, &request, &mut |_| {});
                // Some are closed to this caller; its answer must still be true.
                if answer != Err(ErrorCode::NoAuth) {
                    let stat = world.visible.stat(path);
                    prop_assert_eq!(answer, Ok(Response::Data { data: node.data.as_deref(), stat }));
                }
            }
        }
    }
}

#[test]
fn new_data_starts_a_time_to_live_again() {
    let (mut world, who) = (World::new(), Who { session: 0, user: 0 });
    let path = || Pick::Known(0);
    // Lives for 20 ms, which `Sweep` lets pass: 15, then 15 again.
    world.step(&Step::Write(who, Write::Create { mode: 10, path: path(), data: None, acl: 0 }));
    world.step(&Step::Sweep(15));
    world.step(&Step::Write(who, Write::SetData { path: path(), data: None, version: Version::Any }));
    world.step(&Step::Sweep(15));
    assert!(world.decided.nodes.contains_key("/a"));
    world.step(&Step::Durable(usize::MAX));
    world.step(&Step::Sweep(15));
    assert!(!world.decided.nodes.contains_key("/a"));
}

#[test]
fn list_of_children_that_is_too_long_is_refused_and_not_watched() {
    let limits = Limits { names_bytes: 4 + "zookeeper".len(), ..Limits::default() };
    let mut state = State::new(Options { limits, ..Options::default() });
    let caller = Caller { session: SessionId(1), ids: &[] };
    let mut list = |path, watch| {
        let request = Request::GetChildren2 { path, watch };
        let answer = state.read(ConnId(1), caller, &request, &mut |_| {}).map(|_| ());
        (answer, state.watches.len())
    };
    assert_eq!(list("/", true), (Ok(()), 1), "it has one child");
    assert_eq!(list("/zookeeper", true), (Err(ErrorCode::BadArguments), 1), "it has two: config and quota");
}
