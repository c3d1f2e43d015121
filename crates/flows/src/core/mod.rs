//! What the coordinator decides, without IO: `(state, event) → (state, effects)`.
//!
//! - this file: the state, which is all that the leader's part of the tree says. [`transition`]: the states of a peer and
//!   the ways between them, in one match. [`mod@step`]: what an event changes. [`schedule`]: who is offered what.
//!   [`deal`]: who works on which partitions. [`facts`]: which event comes next. [`invariants`]: what always holds.
//!
//! The effects of an event are one transaction: either all of them are in the tree, or none. So to take over is to read
//! the tree, and to go on.

pub mod deal;
pub mod facts;
pub mod invariants;
pub mod schedule;
pub mod step;
#[cfg(test)]
mod tests;
pub mod transition;

use std::collections::{BTreeMap, BTreeSet};

use menagerie_znodes::Name;
use menagerie_znodes::flows::{Ends, JobRecord, JobState, PeerState, PeerStateRecord, TaskRecord};

pub use facts::{Facts, next_event};
pub use step::{Effect, Event, step};

/// Id of a peer: never used again.
pub type PeerId = Name;
/// Id of a job: its submitter's.
pub type JobId = Name;

/// A task of a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskRef {
    /// The job.
    pub job: JobId,
    /// The task's number.
    pub task: u32,
}

/// Everything that the leader knows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct State {
    /// All jobs, also those that have ended.
    pub jobs: BTreeMap<JobId, JobView>,
    /// All peers that are alive.
    pub peers: BTreeMap<PeerId, Peer>,
    /// Number of the newest offer.
    pub last_offer: u64,
    /// The job of the newest offer.
    pub last_job: Option<JobId>,
}

/// A job and its tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobView {
    /// What its znode says.
    pub record: JobRecord,
    /// By number.
    pub tasks: BTreeMap<u32, TaskView>,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskView {
    /// What its znode says.
    pub record: TaskRecord,
    /// Whether it is complete.
    pub is_complete: bool,
}

/// A peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Number of its newest state, from 1.
    pub state_number: u64,
    /// What it does.
    pub work: Work,
}

/// What a peer does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// It has no task.
    Idle,
    /// It has one, in this state.
    Busy {
        /// Not idle.
        state: PeerState,
        /// What it works on.
        offer: Offer,
    },
}

/// A task in the hands of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Never used again.
    pub number: u64,
    /// The task.
    pub task: TaskRef,
    /// Counts how often the share was dealt anew.
    pub share: u64,
    /// The peer's share of the task.
    pub partitions: BTreeSet<u32>,
}

impl Peer {
    /// A peer that has just registered.
    pub fn registered() -> Self {
        Self { state_number: 1, work: Work::Idle }
    }

    /// Its state.
    pub fn state(&self) -> PeerState {
        match &self.work {
            Work::Idle => PeerState::Idle,
            Work::Busy { state, .. } => *state,
        }
    }

    /// What it works on.
    pub fn offer(&self) -> Option<&Offer> {
        match &self.work {
            Work::Idle => None,
            Work::Busy { offer, .. } => Some(offer),
        }
    }

    /// Its state as the tree records it.
    pub fn record(&self) -> PeerStateRecord {
        PeerStateRecord { state: self.state(), offer: self.offer().map_or(0, |offer| offer.number) }
    }
}

impl State {
    /// The peers that have a task, with their states and offers.
    pub fn busy(&self) -> impl Iterator<Item = (&PeerId, PeerState, &Offer)> {
        self.peers.iter().filter_map(|(id, peer)| match &peer.work {
            Work::Idle => None,
            Work::Busy { state, offer } => Some((id, *state, offer)),
        })
    }

    /// The task, unless it is complete or its job has ended.
    pub fn open_task(&self, task: &TaskRef) -> Option<&TaskView> {
        let job = self.jobs.get(&task.job).filter(|job| job.record.state == JobState::Running)?;
        job.tasks.get(&task.task).filter(|task| !task.is_complete)
    }

    /// The peers of a task in one of these states, with their offers.
    pub fn holders<'a>(
        &'a self,
        task: &'a TaskRef,
        states: &'a [PeerState],
    ) -> impl Iterator<Item = (&'a PeerId, &'a Offer)> {
        self.busy()
            .filter(move |(_, state, offer)| offer.task == *task && states.contains(state))
            .map(|(id, _, offer)| (id, offer))
    }

    /// How many peers of a task are in one of these states.
    pub fn count(&self, task: &TaskRef, states: &[PeerState]) -> usize {
        self.holders(task, states).count()
    }
}

/// The ends of a task's links, as its sealer reports them, are complete: one for each partition of each link.
pub fn are_ends_complete(job: &JobView, task: u32, ends: &Ends) -> bool {
    let Some(task) = job.tasks.get(&task) else { return false };
    task.record.after.len() == ends.len()
        && task.record.after.iter().all(|after| {
            let reader = job.tasks.get(after).map(|reader| reader.record.partitions as usize);
            ends.get(after).map(Vec::len) == reader
        })
}
