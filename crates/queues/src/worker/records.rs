//! Records in flight. One request at a time; records that fall due meanwhile share the next one. A lone record does not
//! wait, and under load ZooKeeper makes one request durable instead of many.

use std::time::Instant;

use crate::coordination::cursor::{Record, write_all};
use crate::core::ledger::Recorded;
use crate::core::machine::Owned;
use crate::metrics::Metrics;

/// Most records per request, well within ZooKeeper's limit.
const BATCH_MAX: usize = 200;

/// A record to be written.
pub struct PendingRecord {
    pub owned: Owned,
    pub record: Record,
    /// When it fell due.
    pub since: Instant,
}

/// Records that are due, and whether a request is in flight.
#[derive(Default)]
pub struct Records {
    waiting: Vec<PendingRecord>,
    is_in_flight: bool,
}

impl Records {
    pub fn add(&mut self, due: PendingRecord) {
        self.waiting.push(due);
    }

    /// The next batch, all of one session; `None` while a request is in flight. Records of partitions that are lost by
    /// now go along: their tickets refuse them, which tells the machine.
    pub fn take_batch(&mut self) -> Option<Vec<PendingRecord>> {
        if self.is_in_flight {
            return None;
        }
        let term = |due: &PendingRecord| due.record.grant().term().number();
        let first = term(self.waiting.first()?);
        let (mut go, mut stay): (Vec<PendingRecord>, Vec<PendingRecord>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|due| term(due) == first);
        stay.splice(0..0, go.drain(go.len().min(BATCH_MAX)..));
        (self.waiting, self.is_in_flight) = (stay, true);
        Some(go)
    }

    /// The request in flight has ended.
    pub fn batch_done(&mut self) {
        self.is_in_flight = false;
    }
}

/// Writes records, and returns the outcome of each.
pub async fn write(due: Vec<PendingRecord>, metrics: &Metrics) -> Vec<(PendingRecord, Recorded)> {
    let records: Vec<Record> = due.iter().map(|due| due.record.clone()).collect();
    let made = write_all(&records).await;
    due.iter().for_each(|due| metrics.record(due.since.elapsed()));
    due.into_iter().zip(made).collect()
}
