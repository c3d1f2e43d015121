//! Limits on what consumers store in a partition. It is in memory and in every snapshot, and no quota counts it.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::decide::Facts;
use super::pending::Pending;
use super::record::Change;
use super::state::PartitionKey;
use crate::commit::{CONSUMER_BYTES_MAX, CONSUMERS_MAX};
use crate::error::JournalError;
use crate::topic::Consumer;

/// Bytes of state that a commit writes for one consumer of a partition.
pub(super) struct StateBytes {
    pub(super) partition_key: PartitionKey,
    pub(super) consumer: Consumer,
    pub(super) bytes: u64,
}

impl Facts<'_> {
    /// Checks that a new consumer is allowed. `false`: that depends on pending decisions.
    pub(super) fn check_consumers(
        &self,
        partition_key: PartitionKey,
        consumer: &Consumer,
        pending: &Pending,
    ) -> Result<bool, JournalError> {
        let Some(partition) = self.state.partition(partition_key) else { return Ok(true) };
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

    /// Checks that consumers' state stays small enough after a commit, and returns the bytes written by consumer.
    /// `None`: that depends on pending decisions. A consumer above the limit may still shrink its state.
    pub(super) fn check_states(
        &self,
        changes: &[Change],
        pending: &Pending,
    ) -> Result<Option<Vec<StateBytes>>, JournalError> {
        // The resulting sizes, by consumer and key.
        let mut written: BTreeMap<(PartitionKey, &Consumer), BTreeMap<&Bytes, u64>> = BTreeMap::new();
        for change in changes {
            if let Change::State { partition_key, consumer, key, value } = change {
                let bytes = value.as_ref().map_or(0, |value| (key.len() + value.len()) as u64);
                written.entry((*partition_key, consumer)).or_default().insert(key, bytes);
            }
        }
        let mut holdings = Vec::with_capacity(written.len());
        for ((partition_key, consumer), records) in written {
            let reader =
                self.state.partition(partition_key).and_then(|partition| partition.consumers.get(consumer));
            let there = |key: &Bytes| {
                let value = reader.and_then(|reader| reader.state.get(key));
                value.map_or(0, |value| (key.len() + value.len()) as u64)
            };
            let before = reader.map_or(0, |reader| reader.state_bytes);
            let fresh: u64 = records.values().sum();
            let size = before - records.keys().map(|key| there(key)).sum::<u64>() + fresh;
            let max = CONSUMER_BYTES_MAX as u64;
            match pending.state_bytes(partition_key, consumer) {
                Some(in_flight) if size + in_flight > max => return Ok(None),
                None if size > max && size > before => {
                    let what = "the state of a consumer in a partition".into();
                    return Err(JournalError::TooLarge { what, size, max });
                }
                _ => holdings.push(StateBytes { partition_key, consumer: consumer.clone(), bytes: fresh }),
            }
        }
        Ok(Some(holdings))
    }
}
