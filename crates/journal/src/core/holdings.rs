//! How much consumers may store in a partition. It is in memory and in every snapshot, and no quota counts it.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::decide::Facts;
use super::pending::Pending;
use super::record::Change;
use super::state::Spot;
use crate::commit::{CONSUMER_BYTES_MAX, CONSUMERS_MAX};
use crate::error::JournalError;
use crate::topic::Consumer;

/// Bytes of state that a consumer writes.
pub(super) type Held = (Spot, Consumer, u64);

impl Facts<'_> {
    /// Whether there may be one more consumer, if this is a new one. False if that depends on what is on its way.
    pub(super) fn check_consumers(
        &self,
        spot: Spot,
        consumer: &Consumer,
        pending: &Pending,
    ) -> Result<bool, JournalError> {
        let Some(partition) = self.state.partition(spot) else { return Ok(true) };
        let count = partition.consumers.len();
        if partition.consumers.contains_key(consumer) || count + pending.readers() < CONSUMERS_MAX {
            return Ok(true);
        }
        if count < CONSUMERS_MAX {
            return Ok(false);
        }
        let (size, max) = (count as u64 + 1, CONSUMERS_MAX as u64);
        Err(JournalError::TooLarge { what: "a number of consumers of a partition".into(), size, max })
    }

    /// Checks that what a commit changes of consumers' state leaves it small enough, and tells how much is written, by
    /// consumer. Nothing if that depends on what is on its way. Whoever has too much may still make it less.
    pub(super) fn check_states(
        &self,
        changes: &[Change],
        pending: &Pending,
    ) -> Result<Option<Vec<Held>>, JournalError> {
        // By consumer and key, what is there when all of them are made.
        let mut written: BTreeMap<(Spot, &Consumer), BTreeMap<&Bytes, u64>> = BTreeMap::new();
        for change in changes {
            if let Change::State { spot, consumer, key, value } = change {
                let bytes = value.as_ref().map_or(0, |value| (key.len() + value.len()) as u64);
                written.entry((*spot, consumer)).or_default().insert(key, bytes);
            }
        }
        let mut holdings = Vec::with_capacity(written.len());
        for ((spot, consumer), records) in written {
            let reader = self.state.partition(spot).and_then(|partition| partition.consumers.get(consumer));
            let there = |key: &Bytes| {
                let value = reader.and_then(|reader| reader.state.get(key));
                value.map_or(0, |value| (key.len() + value.len()) as u64)
            };
            let before = reader.map_or(0, |reader| reader.state_bytes);
            let fresh: u64 = records.values().sum();
            let size = before - records.keys().map(|key| there(key)).sum::<u64>() + fresh;
            let max = CONSUMER_BYTES_MAX as u64;
            match pending.held(spot, consumer) {
                Some(held) if size + held > max => return Ok(None),
                None if size > max && size > before => {
                    let what = "the state of a consumer in a partition".into();
                    return Err(JournalError::TooLarge { what, size, max });
                }
                _ => holdings.push((spot, consumer.clone(), fresh)),
            }
        }
        Ok(Some(holdings))
    }
}
