//! The stored form of transactions.

use proptest::collection::vec;
use proptest::prelude::*;

use super::script::script;
use super::world::World;
use crate::core::Txn;
use crate::core::acl::AclTable;

/// Everything that a script decides, in its stored form.
fn records(world: &mut World) -> Vec<(String, Vec<u8>)> {
    let mut records = Vec::new();
    while let Some(txn) = world.next_durable() {
        let mut bytes = Vec::new();
        txn.encode(&mut bytes);
        records.push((format!("{:?}", txn.changes), bytes));
        world.apply(txn);
    }
    records
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_transaction_is_read_back_as_it_was_written(steps in script(60)) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
            for (changes, bytes) in records(&mut world) {
                let read = Txn::decode(&bytes, &mut AclTable::default()).unwrap();
                prop_assert_eq!(format!("{:?}", read.changes), changes);
                let mut again = Vec::new();
                read.encode(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }

    #[test]
    fn cut_transaction_is_refused(steps in script(20), keep in 0.0..1.0f64) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
            for (_, bytes) in records(&mut world) {
                let length = (bytes.len() as f64 * keep) as usize;
                prop_assert!(Txn::decode(&bytes[..length], &mut AclTable::default()).is_err());
            }
        }
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in vec(any::<u8>(), 0..200)) {
        let _ = Txn::decode(&bytes, &mut AclTable::default());
    }

    #[test]
    fn no_damage_makes_the_decoder_panic(
        steps in script(20),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
            for (_, mut bytes) in records(&mut world) {
                for (at, value) in &damage {
                    let at = at.index(bytes.len());
                    bytes[at] = *value;
                }
                let _ = Txn::decode(&bytes, &mut AclTable::default());
            }
        }
    }
}
