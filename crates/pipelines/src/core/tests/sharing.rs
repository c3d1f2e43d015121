//! Many changes that share dependencies: each is followed once, not once for each path to it.

use menagerie_znodes::pipelines::{EventKind, Vote};

use super::world::World;

const LAYERS: usize = 20;

fn name(topic: &str) -> String {
    format!("app:propose/main/{topic}")
}

/// Proposes and approves a change without a step of the core.
fn propose(world: &mut World, topic: &str, depends_on: Vec<String>) {
    world.propose("app", topic, depends_on);
    let votes = vec![Vote { label: "Approved".to_owned(), value: 1, by: "ada".to_owned() }];
    world.proposals.get_mut(topic).expect("it was just proposed").votes = votes;
    world.see_change(topic);
}

fn enqueue(world: &mut World, topic: &str) -> Vec<String> {
    let proposal = world.proposals[topic].clone();
    let event = world.trigger(EventKind::PatchsetCreated, &proposal.change, proposal.patchset, true);
    world.step(vec![event]);
    let items = world.state.record.queues.iter().flat_map(|queue| &world.state.queues[queue].items);
    items.map(|id| super::telling::topic(&world.state.items[id])).collect()
}

#[test]
fn shared_dependencies_are_enqueued_once_ahead_of_what_needs_them() {
    for pipeline in ["gate", "check"] {
        let mut world = World::new(pipeline);
        world.step(Vec::new());
        for layer in 0..LAYERS {
            for side in ["a", "b"] {
                let below = layer
                    .checked_sub(1)
                    .map_or(Vec::new(), |below| vec![format!("{below}a"), format!("{below}b")]);
                propose(
                    &mut world,
                    &format!("{layer}{side}"),
                    below.iter().map(|topic| name(topic)).collect(),
                );
            }
        }
        let top = format!("{}a", LAYERS - 1);
        let queued = enqueue(&mut world, &top);
        assert_eq!(queued.iter().filter(|topic| **topic == top).count(), 1, "{pipeline}: {queued:?}");
        let needed: Vec<String> =
            (0..LAYERS - 1).flat_map(|layer| [format!("{layer}a"), format!("{layer}b")]).collect();
        let place = |topic: &String| queued.iter().position(|other| other == topic);
        let places: Option<Vec<usize>> = needed.iter().map(place).collect();
        let places = places.unwrap_or_else(|| panic!("{pipeline}: something is missing in {queued:?}"));
        assert!(
            places.chunks(2).is_sorted_by(|below, above| below.iter().max() < above.iter().min()),
            "{queued:?}"
        );
    }
}

#[test]
fn changes_that_all_depend_on_each_other_are_refused_in_gate_and_tested_in_check() {
    for (pipeline, count) in [("gate", 0), ("check", 12)] {
        let mut world = World::new(pipeline);
        world.step(Vec::new());
        let all: Vec<String> = (0..12).map(|number| format!("c{number}")).collect();
        for topic in &all {
            propose(&mut world, topic, all.iter().map(|topic| name(topic)).collect());
        }
        assert_eq!(enqueue(&mut world, "c0").len(), count, "{pipeline}");
    }
}
