//! What peers and submitters say, and which event follows from it. Levels, not edges: whoever missed a change, or takes
//! over, sees the same.

use std::collections::{BTreeMap, BTreeSet};

use menagerie_znodes::flows::{Ack, Completion, JobState, Outcome, PeerState, Seal};

use super::schedule;
use super::step::Event;
use super::{JobId, PeerId, State};

/// The part of the tree that is not the coordinator's own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// Peers that have registered, with their signals.
    pub registered: BTreeMap<PeerId, Signals>,
    /// Peers with a pulse.
    pub alive: BTreeSet<PeerId>,
    /// Jobs that somebody wants to end.
    pub kills: BTreeSet<JobId>,
}

/// What a peer says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Signals {
    /// The offer that it accepts.
    pub ack: Ack,
    /// The share that it has drained.
    pub seal: Seal,
    /// How its offer ended.
    pub completion: Completion,
}

/// The next event, if anything is to be done. Completions come first: what a peer did before it died counts.
pub fn next_event(state: &State, facts: &Facts) -> Option<Event> {
    let busy = || {
        let with_signals = |(id, state, offer)| Some((id, state, offer, facts.registered.get(id)?));
        state.busy().filter_map(with_signals)
    };
    let completion = busy().find_map(|(id, state, offer, signals)| {
        let Completion { offer: number, outcome } = &signals.completion;
        let (peer, number) = (id.clone(), (*number == offer.number).then_some(*number)?);
        match (state, outcome) {
            (PeerState::Sealing, Outcome::Sealed(ends)) => {
                Some(Event::Complete { peer, offer: number, ends: ends.clone() })
            }
            (PeerState::Active | PeerState::Sealing, Outcome::Failed(why)) => {
                Some(Event::Fail { peer, offer: number, why: why.clone() })
            }
            _ => None,
        }
    });
    let dead = || {
        let of_state = state.peers.keys().find(|id| !facts.alive.contains(*id));
        let unborn = || facts.registered.keys().find(|id| !facts.alive.contains(*id));
        of_state.or_else(unborn).map(|id| Event::Dead(id.clone()))
    };
    let exhaust = || {
        busy().find_map(|(id, state, offer, signals)| {
            let Seal { offer: number, share } = signals.seal;
            let fits = state == PeerState::Active && (number, share) == (offer.number, offer.share);
            fits.then(|| Event::Exhaust { peer: id.clone(), offer: number, share })
        })
    };
    let ack = || {
        busy().find_map(|(id, state, offer, signals)| {
            let fits = state == PeerState::Acking && signals.ack.offer == offer.number;
            fits.then(|| Event::Ack { peer: id.clone(), offer: offer.number })
        })
    };
    let born = || {
        let new =
            facts.registered.keys().find(|id| facts.alive.contains(*id) && !state.peers.contains_key(*id));
        new.map(|id| Event::Born(id.clone()))
    };
    let kill = || {
        let is_running =
            |id: &&JobId| state.jobs.get(*id).is_some_and(|job| job.record.state == JobState::Running);
        facts.kills.iter().find(is_running).map(|id| Event::Kill(id.clone()))
    };
    let offer = || {
        let is_due = schedule::recall(state).is_some() || !schedule::offers(state).is_empty();
        is_due.then_some(Event::Offer)
    };
    completion.or_else(dead).or_else(kill).or_else(exhaust).or_else(ack).or_else(born).or_else(offer)
}
