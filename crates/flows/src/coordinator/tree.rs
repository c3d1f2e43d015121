//! From the tree to a state, and to facts.

use std::collections::{BTreeMap, BTreeSet};

use menagerie_kernel::CallError;
use menagerie_kernel::recipes::tree_cache::TreeCache;
use menagerie_znodes::flows::{Deployment, JobState, Payload, PeerState, Plan, newest_offer, newest_state};
use menagerie_znodes::{Name, Znode};
use tracing::warn;

use super::EventCount;
use crate::core::facts::Signals;
use crate::core::{Facts, JobId, JobView, Offer, Peer, PeerId, State, TaskRef, TaskView, Work};

/// The leader's part of the tree. What cannot be read there stops the leader: it would decide by half of the truth.
pub fn state(cache: &TreeCache, deployment: &Deployment) -> Result<(State, EventCount), CallError> {
    let mut state = State::default();
    for job in names(cache, &deployment.jobs()) {
        if let Some(view) = job_view(cache, deployment, &job)? {
            state.jobs.insert(job, view);
        }
    }
    for peer in names(cache, &deployment.peer_histories()) {
        if let Some(found) = peer_view(cache, deployment, &peer)? {
            state.peers.insert(peer, found);
        }
    }
    if let Some(last) = newest_offer(&cache.children(deployment.job_log().path())) {
        state.last_offer = last;
        state.last_job = cache.read(&deployment.offer(last))?.map(|found| found.value.job);
    }
    let events =
        cache.read(&deployment.events())?.ok_or_else(|| CallError::no_znode(&deployment.events()))?;
    Ok((state, EventCount { count: events.value, version: events.stat.version }))
}

fn job_view(cache: &TreeCache, deployment: &Deployment, job: &JobId) -> Result<Option<JobView>, CallError> {
    let Some(record) = cache.read(&deployment.job(job))? else { return Ok(None) };
    let mut tasks = BTreeMap::new();
    for number in 1..=record.value.tasks {
        let task = deployment.task(job, number);
        let found = cache.read(&task)?.ok_or_else(|| CallError::no_znode(&task))?;
        let is_complete = cache.contains(&deployment.task_complete(job, number));
        tasks.insert(number, TaskView { record: found.value, is_complete });
    }
    Ok(Some(JobView { record: record.value, tasks }))
}

fn peer_view(cache: &TreeCache, deployment: &Deployment, peer: &PeerId) -> Result<Option<Peer>, CallError> {
    let history = deployment.peer_history(peer);
    let Some(state_number) = newest_state(&cache.children(history.path())) else { return Ok(None) };
    let Some(record) = cache.read(&deployment.peer_state(peer, state_number))? else { return Ok(None) };
    if record.value.state == PeerState::Idle {
        return Ok(Some(Peer { state_number, work: Work::Idle }));
    }
    let znode = deployment.payload(peer);
    let payload = cache.read(&znode)?.ok_or_else(|| CallError::no_znode(&znode))?.value;
    let Payload { offer, job: Some(job), task, share, partitions } = payload else {
        return Err(CallError::payload(&znode, "its peer is busy, and it has no job"));
    };
    let partitions = partitions.into_iter().collect();
    let offer = Offer { number: offer, task: TaskRef { job, task }, share, partitions };
    Ok(Some(Peer { state_number, work: Work::Busy { state: record.value.state, offer } }))
}

/// What peers and submitters say. What cannot be read is passed over: one peer must not stop the others.
pub fn facts(cache: &TreeCache, deployment: &Deployment, state: &State) -> Facts {
    let alive: BTreeSet<PeerId> = names(cache, &deployment.pulses()).collect();
    let registered = names(cache, &deployment.peers()).map(|peer| {
        let signals = Signals {
            ack: published_or_default(cache, &deployment.ack(&peer)),
            seal: published_or_default(cache, &deployment.seal(&peer)),
            completion: published_or_default(cache, &deployment.completion(&peer)),
        };
        (peer, signals)
    });
    let running = state.jobs.iter().filter(|(_, job)| job.record.state == JobState::Running);
    let kills = running
        .map(|(job, _)| job)
        .filter(|job| matches!(cache.read(&deployment.plan(job)), Ok(Some(plan)) if plan.value.kill));
    Facts { registered: registered.collect(), alive, kills: kills.cloned().collect() }
}

/// Jobs that were submitted and not answered, of those that are not known.
pub fn open_plans(
    cache: &TreeCache,
    deployment: &Deployment,
    is_known: impl Fn(&JobId) -> bool,
) -> Vec<(JobId, Plan)> {
    let read = |job: Name| match cache.read(&deployment.plan(&job)) {
        Ok(Some(plan)) if plan.value.answer.is_none() => Some((job, plan.value)),
        Ok(_) => None,
        Err(error) => {
            warn!(%job, %error, "a submitted job cannot be read");
            None
        }
    };
    names(cache, &deployment.plans()).filter(|job| !is_known(job)).filter_map(read).collect()
}

fn published_or_default<T: menagerie_znodes::Payload + Default>(cache: &TreeCache, znode: &Znode<T>) -> T {
    match cache.read(znode) {
        Ok(Some(found)) => found.value,
        Ok(None) | Err(_) => T::default(),
    }
}

fn names<T>(cache: &TreeCache, dir: &Znode<T>) -> impl Iterator<Item = Name> + use<T> {
    cache.children(dir.path()).into_iter().filter_map(|name| Name::new(name).ok())
}
