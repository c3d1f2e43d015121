//! Records on their way. One request at a time: what falls due meanwhile goes together by the next one. A lone record waits for
//! nobody, and with many the coordinator has one request to make durable instead of one for each.

use std::time::Instant;

use menagerie_kernel::Fence;
use menagerie_znodes::queues::PartitionName;

use crate::coordination::cursor::{Record, make_all};
use crate::core::ledger::Recorded;
use crate::metrics::Metrics;

/// Records of one request: well within what ZooKeeper takes.
const TOGETHER_MAX: usize = 200;

/// A record that is due.
pub struct Due {
    pub partition: PartitionName,
    pub record: Record,
    /// Since when.
    pub since: Instant,
}

impl Due {
    /// For which ownership it was begun.
    pub fn fence(&self) -> Fence {
        self.record.grant().fence()
    }
}

/// What is due, and whether something is on its way.
#[derive(Default)]
pub struct Records {
    waiting: Vec<Due>,
    on_their_way: bool,
}

impl Records {
    pub fn add(&mut self, due: Due) {
        self.waiting.push(due);
    }

    /// What goes now, of one session, if anything does. What is not `ours` any more is forgotten.
    pub fn go(&mut self, ours: impl Fn(&Due) -> bool) -> Option<Vec<Due>> {
        if self.on_their_way {
            return None;
        }
        self.waiting.retain(ours);
        let term = |due: &Due| due.record.grant().term().number();
        let first = term(self.waiting.first()?);
        let (mut go, mut stay): (Vec<Due>, Vec<Due>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|due| term(due) == first);
        stay.splice(0..0, go.drain(go.len().min(TOGETHER_MAX)..));
        (self.waiting, self.on_their_way) = (stay, true);
        Some(go)
    }

    /// They have come back.
    pub fn came_back(&mut self) {
        self.on_their_way = false;
    }
}

/// Makes records, and tells what came of each.
pub async fn make(due: Vec<Due>, metrics: &Metrics) -> Vec<(Due, Recorded)> {
    let records: Vec<Record> = due.iter().map(|due| due.record.clone()).collect();
    let made = make_all(&records).await;
    due.iter().for_each(|due| metrics.record(due.since.elapsed()));
    due.into_iter().zip(made).collect()
}
