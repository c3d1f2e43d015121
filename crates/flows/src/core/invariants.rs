//! What holds after every event.

use std::collections::BTreeSet;

use menagerie_znodes::flows::{JobState, PeerState};

use super::State;

/// All of them; the error names the one that is broken.
pub fn check(state: &State) -> Result<(), String> {
    offers_are_of_open_tasks(state)?;
    running_jobs_have_an_open_task(state)?;
    no_partition_has_two_owners(state)?;
    whoever_seals_is_alone(state)?;
    no_task_has_more_peers_than_it_may(state)
}

fn offers_are_of_open_tasks(state: &State) -> Result<(), String> {
    let mut numbers = BTreeSet::new();
    for (id, _, offer) in state.busy() {
        if state.open_task(&offer.task).is_none() {
            return Err(format!("{id} has task {:?}, which is over", offer.task));
        }
        if !numbers.insert(offer.number) || offer.number > state.last_offer {
            return Err(format!("offer {} is not {id}'s alone", offer.number));
        }
    }
    Ok(())
}

fn running_jobs_have_an_open_task(state: &State) -> Result<(), String> {
    let over = state.jobs.iter().find(|(_, job)| {
        job.record.state == JobState::Running && job.tasks.values().all(|task| task.is_complete)
    });
    over.map_or(Ok(()), |(id, _)| Err(format!("all tasks of {id} are complete, and it still runs")))
}

fn no_partition_has_two_owners(state: &State) -> Result<(), String> {
    let mut owned = BTreeSet::new();
    for (id, peer_state, offer) in state.busy() {
        if !matches!(peer_state, PeerState::Active | PeerState::Sealing) {
            continue;
        }
        for partition in &offer.partitions {
            if !owned.insert((&offer.task, *partition)) {
                return Err(format!("partition {partition} of {:?} is not {id}'s alone", offer.task));
            }
        }
    }
    Ok(())
}

fn whoever_seals_is_alone(state: &State) -> Result<(), String> {
    for (id, peer_state, offer) in state.busy() {
        let working = super::schedule::WORKING;
        if peer_state == PeerState::Sealing && state.count(&offer.task, working) > 1 {
            return Err(format!("{id} seals {:?}, and is not alone", offer.task));
        }
    }
    Ok(())
}

fn no_task_has_more_peers_than_it_may(state: &State) -> Result<(), String> {
    for (id, _, offer) in state.busy() {
        let Some(task) = state.open_task(&offer.task) else { continue };
        let peers = state.count(&offer.task, super::schedule::HOLDING);
        if peers > task.record.partitions as usize || task.record.is_sequential && peers > 1 {
            return Err(format!("{id} is one of {peers} peers of {:?}", offer.task));
        }
    }
    Ok(())
}
