//! A worker of the simulation: the machine, and what is in flight for it.

use std::collections::{BTreeMap, BTreeSet};

use menagerie_journal::MessageId;
use menagerie_kernel::Fence;
use menagerie_znodes::queues::PartitionName;

use crate::core::lane::{Handover, RecordPlan};
use crate::core::machine::{Fact, Fetch, Machine, Note, Owned, Run};
use crate::core::window::RunId;
use crate::task::Outcome;

/// Something that was asked for and has not happened, or has happened and was not answered.
#[derive(Debug)]
pub enum Pending {
    /// With the ticket, once it contends.
    Claim(PartitionName, Option<Fence>),
    Fetch(Owned, Fetch),
    Start(Owned, Run),
    Note(Owned, Note),
    Record(Owned, RecordPlan),
    Release(Owned, Handover),
    /// It has happened; the answer is on its way.
    Answer(Fact),
}

/// A task that runs.
#[derive(Debug)]
pub struct Running {
    pub owned: Owned,
    pub messages: Vec<MessageId>,
    pub is_stopped: bool,
}

/// A process.
#[derive(Debug)]
pub struct Process {
    pub machine: Machine,
    /// Its session; it changes when one expires.
    pub session: u64,
    pub pending: Vec<Pending>,
    pub running: BTreeMap<RunId, Running>,
    /// Cursors as it knows them.
    pub cursors: BTreeMap<Owned, MessageId>,
    /// Partitions whose notes need not be waited for.
    pub lost: Vec<Owned>,
    /// Partitions assigned to it, as it knows.
    pub assigned: BTreeSet<PartitionName>,
    /// Records asked for and not answered.
    pub recording: BTreeSet<Owned>,
    /// Fences that it had.
    pub fences: BTreeSet<String>,
    /// Messages of the runs that it knows.
    pub begun: BTreeMap<RunId, Vec<MessageId>>,
    /// Messages that it knows have failed.
    pub failing: BTreeSet<(Owned, MessageId)>,
}

impl Process {
    pub fn new(machine: Machine, session: u64) -> Self {
        Self {
            machine,
            session,
            pending: Vec::new(),
            running: BTreeMap::new(),
            cursors: BTreeMap::new(),
            lost: Vec::new(),
            assigned: BTreeSet::new(),
            recording: BTreeSet::new(),
            fences: BTreeSet::new(),
            begun: BTreeMap::new(),
            failing: BTreeSet::new(),
        }
    }

    /// It learns that a run has ended.
    pub fn on_ran(&mut self, owned: &Owned, run: RunId, outcomes: &[Outcome]) {
        let messages = self.begun.remove(&run).unwrap_or_default();
        let failed = messages.into_iter().zip(outcomes);
        let failed = failed.filter(|(_, outcome)| matches!(outcome, Outcome::Failed(_)));
        self.failing.extend(failed.map(|(id, _)| (owned.clone(), id)));
    }
}
