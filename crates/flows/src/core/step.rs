//! What an event changes: a new state, and the writes that make the tree say the same.

use std::collections::BTreeSet;

use menagerie_znodes::flows::{Answer, Ends, JobRecord, JobState, Payload, PeerState, PeerStateRecord};

use serde_json::Value;

use super::deal::deal;
use super::invariants;
use super::schedule::{self, HOLDING, WORKING};
use super::transition::{Cause, next};
use super::{JobId, JobView, Offer, Peer, PeerId, State, TaskRef, Work, are_ends_complete};

/// Something has happened. An event that does not fit the state, because it is late or comes again, changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A job was submitted, and its topics are made.
    Plan {
        /// Its id.
        job: JobId,
        /// It and its tasks.
        view: JobView,
        /// Its catalogue and its workflow, as data.
        documents: (Value, Value),
    },
    /// A job was submitted that cannot be done.
    Refuse {
        /// Its id.
        job: JobId,
        /// Why.
        why: String,
    },
    /// A peer has registered.
    Born(PeerId),
    /// A peer's pulse is gone.
    Dead(PeerId),
    /// Something may be offered.
    Offer,
    /// A peer accepts an offer.
    Ack {
        /// The peer.
        peer: PeerId,
        /// The offer's number.
        offer: u64,
    },
    /// A peer has drained its share, and asks whether to seal. The answer is an effect of the same event.
    Exhaust {
        /// The peer.
        peer: PeerId,
        /// The offer's number.
        offer: u64,
        /// The share's number.
        share: u64,
    },
    /// A peer has sealed.
    Complete {
        /// The peer.
        peer: PeerId,
        /// The offer's number.
        offer: u64,
        /// Where the links out of the task end.
        ends: Ends,
    },
    /// A peer cannot do its task, and nobody could.
    Fail {
        /// The peer.
        peer: PeerId,
        /// The offer's number.
        offer: u64,
        /// Why.
        why: String,
    },
    /// Somebody wants a job to end.
    Kill(JobId),
    /// The links of a job that has ended are deleted.
    Cleared(JobId),
}

/// A write to the tree. All of an event's are one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Answers a plan.
    Answer(JobId, Answer),
    /// Creates a job with its tasks, catalogue and workflow.
    CreateJob(JobId, Box<JobView>, (Value, Value)),
    /// Writes a job's record.
    SetJob(JobId, JobRecord),
    /// A task is sealed, and complete.
    SealTask(TaskRef, Ends),
    /// Logs an offer, and forgets an old one.
    LogOffer(u64, PeerId, TaskRef),
    /// Creates the znodes by which the coordinator speaks to a peer.
    CreatePeer(PeerId),
    /// Deletes all znodes of a peer.
    DeletePeer(PeerId, Remains),
    /// Adds a state to a peer's history, under this number, and forgets an old one.
    AddState(PeerId, u64, PeerStateRecord),
    /// Writes a peer's payload.
    SetPayload(PeerId, Payload),
    /// The peer may work on its offer.
    Go(PeerId, u64),
    /// The peer may not work any more.
    Stop(PeerId),
    /// Answers a request to seal: the offer's number, and whether to seal.
    AnswerSeal(PeerId, u64, bool),
    /// Answers a completion.
    AnswerCompletion(PeerId, u64),
}

/// Which znodes a dead peer leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remains {
    /// Its own: it died before the coordinator knew it.
    Own,
    /// Those of the coordinator, too.
    All {
        /// Number of its newest state.
        state_number: u64,
        /// Whether it has a status.
        has_status: bool,
    },
}

/// The new state, and its writes. `now_ms` is when it happens.
pub fn step(state: State, event: Event, now_ms: u64) -> (State, Vec<Effect>) {
    let mut draft = Draft { state, effects: Vec::new(), now_ms };
    match event {
        Event::Plan { job, view, documents } => draft.plan(job, view, documents),
        Event::Refuse { job, why } => draft.effects.push(Effect::Answer(job, Answer::Refused(why))),
        Event::Born(peer) => draft.born(peer),
        Event::Dead(peer) => draft.dead(&peer),
        Event::Offer => draft.offer(),
        Event::Ack { peer, offer } => draft.ack(&peer, offer),
        Event::Exhaust { peer, offer, share } => draft.exhaust(&peer, offer, share),
        Event::Complete { peer, offer, ends } => draft.complete(&peer, offer, ends),
        Event::Fail { peer, offer, why } => draft.fail(&peer, offer, why),
        Event::Kill(job) => draft.end_job(&job, JobState::Killed, None),
        Event::Cleared(job) => draft.cleared(&job),
    }
    debug_assert_eq!(invariants::check(&draft.state), Ok(()));
    (draft.state, draft.effects)
}

/// A state being changed.
struct Draft {
    state: State,
    effects: Vec<Effect>,
    now_ms: u64,
}

impl Draft {
    fn plan(&mut self, job: JobId, view: JobView, documents: (Value, Value)) {
        if self.state.jobs.contains_key(&job) {
            return;
        }
        self.effects.push(Effect::CreateJob(job.clone(), Box::new(view.clone()), documents));
        self.effects.push(Effect::Answer(job.clone(), Answer::Accepted));
        self.state.jobs.insert(job, view);
    }

    fn born(&mut self, peer: PeerId) {
        if self.state.peers.contains_key(&peer) {
            return;
        }
        self.effects.push(Effect::CreatePeer(peer.clone()));
        self.state.peers.insert(peer, Peer::registered());
    }

    fn dead(&mut self, id: &PeerId) {
        let Some(peer) = self.state.peers.remove(id) else {
            return self.effects.push(Effect::DeletePeer(id.clone(), Remains::Own));
        };
        let remains = Remains::All { state_number: peer.state_number, has_status: may_work(&peer) };
        self.effects.push(Effect::DeletePeer(id.clone(), remains));
        let Some(offer) = peer.offer() else { return };
        self.reassign_after_loss(&offer.task.clone(), peer.state() == PeerState::Sealing);
    }

    /// Somebody who worked on a task is gone.
    fn reassign_after_loss(&mut self, task: &TaskRef, was_sealing: bool) {
        if self.state.count(task, WORKING) > 0 {
            return self.deal(task);
        }
        let waiting: Vec<PeerId> =
            self.state.holders(task, &[PeerState::Waiting]).map(|(id, _)| id.clone()).collect();
        match waiting.first() {
            // Everything was drained: one of those who wait seals instead.
            Some(peer) if was_sealing => self.promote(peer, Cause::Promoted),
            // What the dead peer had is not drained: they begin again.
            _ => waiting.iter().for_each(|peer| self.change(peer, Cause::Released)),
        }
    }

    fn offer(&mut self) {
        if let Some(peer) = schedule::recall(&self.state)
            && let Some(offer) = self.state.peers.get(&peer).and_then(Peer::offer)
        {
            let task = offer.task.clone();
            self.change(&peer, Cause::Released);
            self.reassign_after_loss(&task, false);
        }
        for (peer, task) in schedule::offers(&self.state) {
            let number = self.state.last_offer + 1;
            (self.state.last_offer, self.state.last_job) = (number, Some(task.job.clone()));
            self.effects.push(Effect::LogOffer(number, peer.clone(), task.clone()));
            let offer = Offer { number, task, share: 0, partitions: BTreeSet::new() };
            self.change_to(&peer, Cause::Offered, Some(offer));
        }
    }

    fn ack(&mut self, peer: &PeerId, number: u64) {
        let Some(offer) = self.offer_of(peer, number, &[PeerState::Acking]) else { return };
        // Its task may have ended meanwhile, but then the peer was released.
        self.change(peer, Cause::Acked);
        self.deal(&offer.task);
    }

    fn exhaust(&mut self, peer: &PeerId, number: u64, share: u64) {
        let Some(offer) = self.offer_of(peer, number, &[PeerState::Active]) else { return };
        if offer.share != share {
            return;
        }
        let others = self.state.count(&offer.task, HOLDING) - 1;
        let waiting = self.state.count(&offer.task, &[PeerState::Waiting]);
        if waiting == others {
            return self.promote(peer, Cause::DrainedLast);
        }
        self.change(peer, Cause::Drained);
        self.effects.push(Effect::AnswerSeal(peer.clone(), number, false));
    }

    /// Gives a peer all partitions of its task, to seal it.
    fn promote(&mut self, peer: &PeerId, cause: Cause) {
        let Some(mut offer) = self.state.peers.get(peer).and_then(Peer::offer).cloned() else { return };
        let partitions = self.state.open_task(&offer.task).map_or(0, |task| task.record.partitions);
        offer.share += 1;
        offer.partitions = (1..=partitions).collect();
        self.effects.push(Effect::AnswerSeal(peer.clone(), offer.number, true));
        self.change_to(peer, cause, Some(offer));
    }

    fn complete(&mut self, peer: &PeerId, number: u64, ends: Ends) {
        let Some(Offer { task, .. }) = self.offer_of(peer, number, &[PeerState::Sealing]) else { return };
        let Some(job) = self.state.jobs.get_mut(&task.job) else { return };
        if !are_ends_complete(job, task.task, &ends) {
            let why = format!("task {} was sealed without the ends of all its links", task.task);
            return self.end_job(&task.job, JobState::Failed, Some(why));
        }
        if let Some(view) = job.tasks.get_mut(&task.task) {
            view.is_complete = true;
        }
        let is_last = job.tasks.values().all(|task| task.is_complete);
        self.effects.push(Effect::SealTask(task.clone(), ends));
        self.effects.push(Effect::AnswerCompletion(peer.clone(), number));
        self.change(peer, Cause::Sealed);
        self.release(|offer| offer.task == task);
        if is_last {
            self.end_job(&task.job, JobState::Complete, None);
        }
    }

    fn fail(&mut self, peer: &PeerId, number: u64, why: String) {
        let Some(offer) = self.offer_of(peer, number, &[PeerState::Active, PeerState::Sealing]) else {
            return;
        };
        self.effects.push(Effect::AnswerCompletion(peer.clone(), number));
        self.end_job(&offer.task.job, JobState::Failed, Some(why));
    }

    fn end_job(&mut self, id: &JobId, end: JobState, why: Option<String>) {
        let Some(job) = self.state.jobs.get_mut(id).filter(|job| job.record.state == JobState::Running)
        else {
            return;
        };
        job.record.state = end;
        job.record.why = why;
        job.record.ended_ms = Some(self.now_ms);
        self.effects.push(Effect::SetJob(id.clone(), job.record.clone()));
        self.release(|offer| offer.task.job == *id);
    }

    fn cleared(&mut self, id: &JobId) {
        let Some(job) = self.state.jobs.get_mut(id).filter(|job| !job.record.is_cleared) else { return };
        job.record.is_cleared = true;
        self.effects.push(Effect::SetJob(id.clone(), job.record.clone()));
    }

    /// Releases all peers with such an offer.
    fn release(&mut self, is_over: impl Fn(&Offer) -> bool) {
        let over = self.state.peers.iter().filter(|(_, peer)| peer.offer().is_some_and(&is_over));
        let peers: Vec<PeerId> = over.map(|(id, _)| id.clone()).collect();
        peers.iter().for_each(|peer| self.change(peer, Cause::Released));
    }

    /// Deals the partitions of a task to those who work on it. Only those whose share changes are told.
    fn deal(&mut self, task: &TaskRef) {
        let Some(partitions) = self.state.open_task(task).map(|task| task.record.partitions) else { return };
        let (peers, owned): (Vec<PeerId>, Vec<BTreeSet<u32>>) = self
            .state
            .holders(task, &[PeerState::Active])
            .map(|(id, offer)| (id.clone(), offer.partitions.clone()))
            .unzip();
        for (id, share) in peers.iter().zip(deal(partitions, &owned)) {
            let Some(Work::Busy { offer, .. }) = self.state.peers.get_mut(id).map(|peer| &mut peer.work)
            else {
                continue;
            };
            if offer.partitions != share {
                offer.partitions = share;
                offer.share += 1;
                let payload = payload(Some(offer));
                self.effects.push(Effect::SetPayload(id.clone(), payload));
            }
        }
    }

    /// The peer's offer, if it has this number, and the peer one of these states.
    fn offer_of(&self, peer: &PeerId, number: u64, states: &[PeerState]) -> Option<Offer> {
        let peer = self.state.peers.get(peer).filter(|peer| states.contains(&peer.state()))?;
        peer.offer().filter(|offer| offer.number == number).cloned()
    }

    fn change(&mut self, id: &PeerId, cause: Cause) {
        let offer = self.state.peers.get(id).and_then(Peer::offer).cloned();
        self.change_to(id, cause, offer);
    }

    /// Changes a peer's state, and its offer with it.
    fn change_to(&mut self, id: &PeerId, cause: Cause, offer: Option<Offer>) {
        let Some(before) = self.state.peers.get(id) else { return };
        let Some(state) = next(before.state(), cause) else {
            debug_assert!(false, "{id} is {:?}, and cannot be {cause:?}", before.state());
            return;
        };
        let work = match (state, offer) {
            (PeerState::Idle, _) | (_, None) => Work::Idle,
            (state, Some(offer)) => Work::Busy { state, offer },
        };
        let after = Peer { state_number: before.state_number + 1, work };
        self.effects.push(Effect::AddState(id.clone(), after.state_number, after.record()));
        if before.offer() != after.offer() {
            self.effects.push(Effect::SetPayload(id.clone(), payload(after.offer())));
        }
        match (may_work(before), may_work(&after)) {
            (false, true) => {
                let number = after.offer().map_or(0, |offer| offer.number);
                self.effects.push(Effect::Go(id.clone(), number));
            }
            (true, false) => self.effects.push(Effect::Stop(id.clone())),
            (true, true) | (false, false) => {}
        }
        self.state.peers.insert(id.clone(), after);
    }
}

/// Whether a peer has a status znode.
pub fn may_work(peer: &Peer) -> bool {
    match peer.state() {
        PeerState::Idle | PeerState::Acking => false,
        PeerState::Active | PeerState::Waiting | PeerState::Sealing => true,
    }
}

/// What a peer with this offer is told.
pub fn payload(offer: Option<&Offer>) -> Payload {
    match offer {
        None => Payload { offer: 0, job: None, task: 0, share: 0, partitions: Vec::new() },
        Some(offer) => Payload {
            offer: offer.number,
            job: Some(offer.task.job.clone()),
            task: offer.task.task,
            share: offer.share,
            partitions: offer.partitions.iter().copied().collect(),
        },
    }
}
