//! Who is offered what: one peer for every task, before any task gets a second one; jobs take turns.

use std::collections::{BTreeMap, BTreeSet};

use menagerie_znodes::flows::{JobState, PeerState};

use super::{JobId, PeerId, State, TaskRef};

/// A task that somebody works on, or is about to.
pub const WORKING: &[PeerState] = &[PeerState::Acking, PeerState::Active, PeerState::Sealing];
/// A task that somebody has.
pub const HOLDING: &[PeerState] =
    &[PeerState::Acking, PeerState::Active, PeerState::Waiting, PeerState::Sealing];

/// Offers of one event: its transaction must fit into a request to ZooKeeper. The rest follows.
const OFFERS_MAX: usize = 200;

/// Pairs idle peers with tasks, until there is none of either, or enough for one event.
pub fn offers(state: &State) -> Vec<(PeerId, TaskRef)> {
    let idle = state.peers.iter().filter(|(_, peer)| peer.state() == PeerState::Idle).map(|(id, _)| id);
    // Offers of this pass, which count as if they were made.
    let mut given: BTreeMap<TaskRef, usize> = BTreeMap::new();
    let mut last_job = state.last_job.clone();
    let mut offers = Vec::new();
    for peer in idle.take(OFFERS_MAX) {
        let Some(task) = choose(state, &given, last_job.as_ref()) else { break };
        *given.entry(task.clone()).or_default() += 1;
        last_job = Some(task.job.clone());
        offers.push((peer.clone(), task));
    }
    offers
}

/// A peer that should leave its task: it can only starve there, because nobody works on a task before it, and no peer is
/// idle.
pub fn recall(state: &State) -> Option<PeerId> {
    if state.peers.values().any(|peer| peer.state() == PeerState::Idle) {
        return None;
    }
    let starves = |task: &TaskRef| {
        let Some(job) = state.jobs.get(&task.job) else { return false };
        let mut before = job.tasks.get(&task.task).map_or(Vec::new(), |task| task.record.before.clone());
        let mut seen = BTreeSet::new();
        while let Some(number) = before.pop() {
            if !seen.insert(number) {
                continue;
            }
            let earlier = TaskRef { job: task.job.clone(), task: number };
            if state.open_task(&earlier).is_some() && state.count(&earlier, HOLDING) == 0 {
                return true;
            }
            before.extend(job.tasks.get(&number).into_iter().flat_map(|task| &task.record.before));
        }
        false
    };
    state
        .busy()
        .filter(|(_, state, offer)| *state == PeerState::Active && starves(&offer.task))
        .max_by_key(|(_, _, offer)| offer.task.task)
        .map(|(id, ..)| id.clone())
}

/// The next task to be offered.
fn choose(state: &State, given: &BTreeMap<TaskRef, usize>, last_job: Option<&JobId>) -> Option<TaskRef> {
    let jobs = in_turn(state, last_job);
    let tasks = |job: &JobId| {
        let job = job.clone();
        let numbers = state.jobs.get(&job).into_iter().flat_map(|view| view.tasks.keys().copied());
        numbers.map(move |task| TaskRef { job: job.clone(), task })
    };
    let given = |task: &TaskRef| given.get(task).copied().unwrap_or(0);
    // Numbers rise with the phase.
    let untouched = jobs.iter().flat_map(tasks).find(|task| {
        state.open_task(task).is_some()
            && state.count(task, WORKING) + given(task) == 0
            && !only_waits(state, task)
    });
    let shared = || {
        let open = jobs.iter().flat_map(tasks).filter_map(|task| {
            let record = &state.open_task(&task)?.record;
            let holders = state.count(&task, HOLDING) + given(&task);
            let has_room = !record.is_sequential && holders < record.partitions as usize;
            // Whoever waits or seals has found it drained.
            let is_ending = state.count(&task, &[PeerState::Waiting, PeerState::Sealing]) > 0;
            (has_room && !is_ending).then_some((holders, task))
        });
        // The first of those with fewest peers.
        open.min_by_key(|(holders, _)| *holders).map(|(_, task)| task)
    };
    untouched.or_else(shared)
}

/// Whether peers wait for a task that nobody works on: they are about to be released or promoted.
fn only_waits(state: &State, task: &TaskRef) -> bool {
    state.count(task, &[PeerState::Waiting]) > 0
}

/// Running jobs by age, beginning after the one that had the last offer.
fn in_turn(state: &State, last_job: Option<&JobId>) -> Vec<JobId> {
    let mut jobs: Vec<(u64, &JobId)> = state
        .jobs
        .iter()
        .filter(|(_, job)| job.record.state == JobState::Running)
        .map(|(id, job)| (job.record.submitted_ms, id))
        .collect();
    jobs.sort();
    let place = jobs.iter().position(|(_, id)| Some(*id) == last_job).map_or(0, |place| place + 1);
    let turns = place.min(jobs.len());
    jobs.rotate_left(turns);
    jobs.into_iter().map(|(_, id)| id.clone()).collect()
}
