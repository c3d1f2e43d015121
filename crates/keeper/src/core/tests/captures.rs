//! Snapshots that were taken while writes went on.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;

use super::script::{Pick, Step, Version, Who, Write, script};
use super::world::{World, tree};
use crate::core::sessions::Millis;
use crate::core::{Options, State, Txn, invariants};
use crate::store::snapshot::{self, BLOCK_BYTES, Position, Writer};

/// Takes a snapshot znode by znode; between any two of them `between` may apply writes, and returns them.
fn capture(
    path: &Path,
    world: &mut World,
    mut between: impl FnMut(&mut World) -> Vec<Vec<u8>>,
) -> Vec<Vec<u8>> {
    let mut writer = Writer::new(fs::File::create(path).unwrap()).unwrap();
    let mut sessions = Vec::new();
    snapshot::encode_sessions(&world.state, &mut sessions);
    writer.sessions(&sessions).unwrap();
    let mut applied = Vec::new();
    let mut at = Some(0);
    while let Some(slot) = at {
        // A block that looks full already takes exactly one more znode.
        let mut block = vec![0; BLOCK_BYTES];
        at = snapshot::encode_znodes(&world.state, slot, &mut block);
        writer.znodes(&block[BLOCK_BYTES..]).unwrap();
        for record in between(world) {
            let mut framed = Vec::new();
            menagerie_wire::framed(&mut framed, |out| out.extend_from_slice(&record));
            writer.records(&framed).unwrap();
            applied.push(record);
        }
    }
    let state = &world.state;
    let position = Position { sequence: 9, zxid: state.applied_zxid(), last_session: state.last_session() };
    writer.end(position).unwrap();
    applied
}

/// Makes this many writes durable, and returns their stored form.
fn make_durable(world: &mut World, count: usize) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    for _ in 0..count {
        let Some(txn) = world.next_durable() else { break };
        let mut bytes = Vec::new();
        txn.encode(&mut bytes);
        records.push(bytes);
        world.apply(txn);
    }
    records
}

fn loaded(path: &Path) -> State {
    let mut state = State::new(Options::default());
    snapshot::load(path, &mut state).unwrap();
    state.count_quotas();
    state
}

fn assert_same(state: &State, live: &State) {
    assert_eq!(invariants::violated(state), None);
    assert_eq!(tree(state), tree(live));
    let sessions = |state: &State| {
        let mut all: Vec<_> =
            state.sessions.iter().map(|(id, session)| (id, session.password, session.timeout_ms)).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(sessions(state), sessions(live));
    assert_eq!(state.applied_zxid(), live.applied_zxid());
    assert_eq!(state.last_session(), live.last_session());
}

/// A world after these steps, with its writes in flight.
fn world_after(steps: &[Step]) -> World {
    let mut world = World::new();
    for step in steps {
        world.step(step);
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn snapshot_taken_while_writes_go_on_is_the_state_at_its_end(
        before in script(200),
        during in script(60),
        pace in 1..5usize,
    ) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("snapshot");
        let mut world = world_after(&before);
        let mut left = during.iter();
        let applied = capture(&path, &mut world, |world| {
            // This test decides what is durable, and records it.
            let step = left.find(|step| !matches!(step, Step::Durable(_)));
            if let Some(step) = step {
                world.step(step);
            }
            make_durable(world, pace)
        });
        let mut state = loaded(&path);
        assert_same(&state, &world.state);
        // Recovery may meet transactions again that the snapshot holds already.
        for record in &applied {
            let txn = Txn::decode(record, state.acls_mut()).unwrap();
            state.apply(txn.zxid, txn.changes, Millis(0), &mut |_| {});
        }
        state.count_quotas();
        assert_same(&state, &world.state);
    }

    #[test]
    fn log_replayed_from_the_start_is_the_live_state(steps in script(120)) {
        let mut world = World::new();
        let mut state = loaded_at_the_start(&mut world);
        for step in steps.iter().filter(|step| !matches!(step, Step::Durable(_))) {
            world.step(step);
            for record in make_durable(&mut world, 3) {
                let txn = Txn::decode(&record, state.acls_mut()).unwrap();
                state.apply(txn.zxid, txn.changes, Millis(0), &mut |_| {});
            }
        }
        state.count_quotas();
        assert_same(&state, &world.state);
    }
}

fn loaded_at_the_start(world: &mut World) -> State {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("snapshot");
    capture(&path, world, |_| vec![]);
    loaded(&path)
}

const WHO: Who = Who { session: 0, user: 1 };

/// Creates one of the paths that scripts know by number: 0 is `/a`, 1 is `/b`, 2 `/a/x`, 3 `/a/y`, 4 `/b/x`.
fn create(mode: usize, path: usize) -> Step {
    let path = Pick::Known(path);
    Step::Write(WHO, Write::Create { mode, path, data: Some(vec![1]), acl: 0 })
}

fn delete(path: usize) -> Step {
    Step::Write(WHO, Write::Delete { path: Pick::Known(path), version: Version::Any })
}

/// Takes a snapshot, does `during` right after its first znode, and compares.
fn assert_captured(before: &[Step], during: &[Step]) {
    assert_captured_after(1, before, during);
}

/// The same, after this many znodes.
fn assert_captured_after(znodes: usize, before: &[Step], during: &[Step]) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("snapshot");
    let mut world = world_after(before);
    make_durable(&mut world, usize::MAX);
    let mut steps = during.iter();
    let mut walked = 0;
    capture(&path, &mut world, |world| {
        walked += 1;
        if walked >= znodes {
            steps.by_ref().for_each(|step| world.step(step));
        }
        make_durable(world, usize::MAX)
    });
    assert_same(&loaded(&path), &world.state);
}

#[test]
fn child_may_come_before_its_parent() {
    // The child takes the slot that the deleted znode had, ahead of its parent's.
    assert_captured(&[create(0, 0), create(0, 1), delete(0), create(0, 4)], &[]);
}

#[test]
fn znode_that_was_deleted_and_made_again_with_children_keeps_them() {
    // The walk meets the new ones, and then the deletion of the old one is replayed over them.
    assert_captured(&[create(0, 0)], &[delete(0), create(0, 0), create(0, 2), create(0, 3)]);
}

#[test]
fn child_that_the_walk_meets_without_its_parent_is_found_below_it() {
    // The parent takes the slot of the deleted znode, which the walk has passed; the child takes one that is ahead of it.
    let planted = State::new(Options::default()).tree.len();
    assert_captured_after(planted + 1, &[create(0, 1)], &[delete(1), create(0, 0), create(0, 2)]);
}

/// A small state with everything in it, as a file.
fn small_snapshot() -> Vec<u8> {
    let mut world = world_after(&[create(0, 0), create(1, 1), create(8, 2), create(10, 3)]);
    world.step(&Step::Durable(usize::MAX));
    world.step(&Step::Write(
        WHO,
        Write::SetData { path: Pick::Known(0), data: None, version: Version::Current },
    ));
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("snapshot");
    capture(&path, &mut world, |world| make_durable(world, 1));
    fs::read(path).unwrap()
}

fn loads(bytes: &[u8]) -> bool {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("snapshot");
    fs::write(&path, bytes).unwrap();
    let verified = snapshot::verify(&path).is_ok();
    let loaded = snapshot::load(&path, &mut State::new(Options::default())).is_ok();
    assert_eq!(verified, loaded, "verify and load agree");
    loaded
}

#[test]
fn snapshot_with_any_byte_changed_is_refused() {
    let good = small_snapshot();
    assert!(loads(&good));
    for at in 0..good.len() {
        for flip in [1, 0x80, 0xff] {
            let mut bad = good.clone();
            bad[at] ^= flip;
            assert!(!loads(&bad), "byte {at} of {} changed by {flip:#x}", good.len());
        }
    }
}

#[test]
fn snapshot_of_any_other_length_is_refused() {
    let good = small_snapshot();
    for length in 0..good.len() {
        assert!(!loads(&good[..length]), "cut to {length} of {}", good.len());
    }
    assert!(!loads(&[&good[..], &[0]].concat()), "one byte more");
    assert!(!loads(&[&good[..], &good[..]].concat()), "twice");
}
