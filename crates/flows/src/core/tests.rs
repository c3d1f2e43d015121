//! The scenarios of the seed's diagrams, and random histories.

use std::collections::{BTreeMap, BTreeSet};

use menagerie_znodes::Name;
use menagerie_znodes::flows::{
    Ack, Completion, Ends, JobRecord, JobState, Outcome, Payload, PeerState, PeerStateRecord, Seal,
    TaskRecord,
};
use proptest::prelude::*;

use super::facts::Signals;
use super::step::Remains;
use super::*;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A chain of tasks with these partitions; 1 is sequential.
fn chain(partitions: &[u32]) -> JobView {
    let count = partitions.len() as u32;
    let task = |(index, partitions): (usize, &u32)| {
        let number = index as u32 + 1;
        let record = TaskRecord {
            name: name(&format!("t{number}")),
            task_type: "transformer".to_owned(),
            phase: number,
            is_sequential: *partitions == 1,
            partitions: *partitions,
            before: (number > 1).then_some(number - 1).into_iter().collect(),
            after: (number < count).then_some(number + 1).into_iter().collect(),
        };
        (number, TaskView { record, is_complete: false })
    };
    let record = JobRecord {
        name: name("chain"),
        state: JobState::Running,
        why: None,
        journal: "main".to_owned(),
        folder: String::new(),
        submitted_ms: 1,
        ended_ms: None,
        tasks: count,
        is_cleared: false,
    };
    JobView { record, tasks: partitions.iter().enumerate().map(task).collect() }
}

/// The tree, as far as the coordinator writes it.
#[derive(Clone, Default)]
struct Tree {
    jobs: BTreeMap<JobId, JobView>,
    states: BTreeMap<PeerId, (u64, PeerStateRecord)>,
    payloads: BTreeMap<PeerId, Payload>,
    statuses: BTreeMap<PeerId, u64>,
    last_offer: u64,
    last_job: Option<JobId>,
}

impl Tree {
    fn write(&mut self, effect: Effect) {
        match effect {
            Effect::Answer(..) | Effect::AnswerSeal(..) | Effect::AnswerCompletion(..) => {}
            Effect::CreateJob(job, view, _) => assert_eq!(self.jobs.insert(job, *view), None),
            Effect::SetJob(job, record) => self.jobs.get_mut(&job).unwrap().record = record,
            Effect::SealTask(task, _) => {
                let task = self.jobs.get_mut(&task.job).unwrap().tasks.get_mut(&task.task).unwrap();
                assert!(!std::mem::replace(&mut task.is_complete, true));
            }
            Effect::LogOffer(number, _, task) => {
                (self.last_offer, self.last_job) = (number, Some(task.job));
            }
            Effect::CreatePeer(peer) => {
                let registered = Peer::registered();
                let first = (registered.state_number, registered.record());
                assert_eq!(self.states.insert(peer.clone(), first), None);
                self.payloads.insert(peer, step::payload(None));
            }
            Effect::DeletePeer(_, Remains::Own) => {}
            Effect::DeletePeer(peer, Remains::All { state_number, has_status }) => {
                assert_eq!(self.states.remove(&peer).unwrap().0, state_number);
                assert!(self.payloads.remove(&peer).is_some());
                assert_eq!(self.statuses.remove(&peer).is_some(), has_status);
            }
            Effect::AddState(peer, number, record) => {
                let (before, _) = self.states.insert(peer, (number, record)).unwrap();
                assert_eq!(number, before + 1);
            }
            Effect::SetPayload(peer, payload) => drop(self.payloads.insert(peer, payload).unwrap()),
            Effect::Go(peer, offer) => assert_eq!(self.statuses.insert(peer, offer), None),
            Effect::Stop(peer) => assert!(self.statuses.remove(&peer).is_some()),
        }
    }

    /// What a new leader would read.
    fn state(&self) -> State {
        let peer = |(id, (state_number, record)): (&PeerId, &(u64, PeerStateRecord))| {
            let Payload { offer, job, task, share, partitions } = self.payloads[id].clone();
            let work = match (record.state, job) {
                (PeerState::Idle, _) | (_, None) => Work::Idle,
                (state, Some(job)) => {
                    assert_eq!(offer, record.offer);
                    let partitions = partitions.into_iter().collect();
                    Work::Busy {
                        state,
                        offer: Offer { number: offer, task: TaskRef { job, task }, share, partitions },
                    }
                }
            };
            (id.clone(), Peer { state_number: *state_number, work })
        };
        let (last_offer, last_job) = (self.last_offer, self.last_job.clone());
        State { jobs: self.jobs.clone(), peers: self.states.iter().map(peer).collect(), last_offer, last_job }
    }
}

/// A coordinator, and what peers and submitters say to it.
#[derive(Clone, Default)]
struct World {
    state: State,
    tree: Tree,
    facts: Facts,
    /// The states that each peer had.
    history: BTreeMap<Name, Vec<PeerState>>,
}

impl World {
    fn with(jobs: &[(&str, &[u32])], peers: &[&str]) -> Self {
        let mut world = Self::default();
        for (job, partitions) in jobs {
            world.event(Event::Plan {
                job: name(job),
                view: chain(partitions),
                documents: Default::default(),
            });
        }
        peers.iter().for_each(|peer| world.join(peer));
        world
    }

    fn event(&mut self, event: Event) {
        let (state, effects) = step(std::mem::take(&mut self.state), event, 7);
        self.state = state;
        invariants::check(&self.state).unwrap();
        for effect in effects {
            if let Effect::AddState(peer, _, record) = &effect {
                self.history.entry(peer.clone()).or_default().push(record.state);
            }
            self.tree.write(effect);
        }
        // To take over is to read the tree.
        assert_eq!(self.tree.state(), self.state);
        let may_work = self.state.busy().filter(|(_, state, _)| *state != PeerState::Acking);
        let may_work: BTreeMap<PeerId, u64> =
            may_work.map(|(id, _, offer)| (id.clone(), offer.number)).collect();
        assert_eq!(self.tree.statuses, may_work);
    }

    /// Handles all that is to be handled.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            let Some(event) = next_event(&self.state, &self.facts) else { return };
            if let Event::Dead(peer) = &event {
                self.facts.registered.remove(peer);
            }
            self.event(event);
        }
        panic!("it never settles: {:?}", self.state);
    }

    fn join(&mut self, peer: &str) {
        self.facts.registered.insert(name(peer), Signals::default());
        self.facts.alive.insert(name(peer));
        self.settle();
    }

    fn die(&mut self, peer: &str) {
        self.facts.alive.remove(&name(peer));
        self.settle();
    }

    fn offer(&self, peer: &str) -> Offer {
        self.state.peers[&name(peer)].offer().unwrap_or_else(|| panic!("{peer} is idle")).clone()
    }

    fn says(&mut self, peer: &str, say: impl FnOnce(&mut Signals)) {
        say(self.facts.registered.get_mut(&name(peer)).unwrap());
        self.settle();
    }

    fn ack(&mut self, peer: &str) {
        let offer = self.offer(peer).number;
        self.says(peer, |signals| signals.ack = Ack { offer });
    }

    fn drained(&mut self, peer: &str) {
        let Offer { number: offer, share, .. } = self.offer(peer);
        self.says(peer, |signals| signals.seal = Seal { offer, share });
    }

    fn seals(&mut self, peer: &str) {
        let Offer { number: offer, task, .. } = self.offer(peer);
        let tasks = &self.state.jobs[&task.job].tasks;
        let ends: Ends = tasks[&task.task]
            .record
            .after
            .iter()
            .map(|after| (*after, vec![0; tasks[after].record.partitions as usize]))
            .collect();
        self.says(peer, |signals| signals.completion = Completion { offer, outcome: Outcome::Sealed(ends) });
    }

    fn state(&self, peer: &str) -> PeerState {
        self.state.peers[&name(peer)].state()
    }

    fn is_complete(&self, job: &str) -> bool {
        self.state.jobs[&name(job)].record.state == JobState::Complete
    }
}

#[test]
fn one_peer_does_all_tasks_one_after_the_other() {
    use PeerState::{Acking, Active, Idle, Sealing};
    let mut world = World::with(&[("j", &[2, 2, 1])], &["p1"]);
    for number in 1..=3 {
        assert_eq!(world.offer("p1").task.task, number);
        world.ack("p1");
        assert_eq!(world.offer("p1").partitions.len(), if number == 3 { 1 } else { 2 });
        world.drained("p1");
        world.seals("p1");
    }
    assert!(world.is_complete("j"));
    assert_eq!(world.history[&name("p1")], [Acking, Active, Sealing, Idle].repeat(3));
}

#[test]
fn what_a_peer_had_when_it_died_goes_to_those_who_are_left() {
    let mut world = World::with(&[("j", &[4, 4])], &["p1", "p2", "p3"]);
    ["p1", "p2", "p3"].iter().for_each(|peer| world.ack(peer));
    // p1 and p3 share the first task.
    assert_eq!(world.offer("p1").partitions.len(), 2);
    world.die("p1");
    assert_eq!(world.offer("p3").partitions, BTreeSet::from([1, 2, 3, 4]));
    assert!(!world.state.peers.contains_key(&name("p1")));
}

#[test]
fn whoever_waits_seals_when_the_sealer_dies_and_a_new_peer_does_when_nobody_waits() {
    let mut world = World::with(&[("j", &[2])], &["p1", "p2"]);
    ["p1", "p2"].iter().for_each(|peer| world.ack(peer));
    world.drained("p1");
    world.drained("p2");
    assert_eq!((world.state("p1"), world.state("p2")), (PeerState::Waiting, PeerState::Sealing));
    world.die("p2");
    assert_eq!(world.state("p1"), PeerState::Sealing);
    assert_eq!(world.offer("p1").partitions.len(), 2);
    world.die("p1");
    world.join("p3");
    world.ack("p3");
    world.drained("p3");
    world.seals("p3");
    assert!(world.is_complete("j"));
}

#[test]
fn the_first_who_is_drained_waits_for_the_second() {
    let mut world = World::with(&[("j", &[2])], &["p1", "p2"]);
    ["p1", "p2"].iter().for_each(|peer| world.ack(peer));
    world.drained("p1");
    assert_eq!(world.state("p1"), PeerState::Waiting);
    world.drained("p2");
    assert_eq!(world.state("p2"), PeerState::Sealing);
    world.seals("p2");
    assert!(world.is_complete("j"));
    assert_eq!((world.state("p1"), world.state("p2")), (PeerState::Idle, PeerState::Idle));
}

#[test]
fn whoever_waits_begins_again_when_the_last_who_works_dies() {
    use PeerState::{Acking, Active, Idle, Sealing, Waiting};
    let mut world = World::with(&[("j", &[2])], &["p1", "p2"]);
    ["p1", "p2"].iter().for_each(|peer| world.ack(peer));
    world.drained("p1");
    world.die("p2");
    assert_eq!(world.state("p1"), PeerState::Acking, "it was released, and offered the same task");
    world.ack("p1");
    world.drained("p1");
    world.seals("p1");
    assert!(world.is_complete("j"));
    let expected = [Acking, Active, Waiting, Idle, Acking, Active, Sealing, Idle];
    assert_eq!(world.history[&name("p1")], expected);
}

#[test]
fn a_share_that_was_dealt_anew_is_not_drained_yet() {
    let mut world = World::with(&[("j", &[2])], &["p1", "p2"]);
    ["p1", "p2"].iter().for_each(|peer| world.ack(peer));
    let before = world.offer("p1");
    world.die("p2");
    world.says("p1", |signals| signals.seal = Seal { offer: before.number, share: before.share });
    assert_eq!(world.state("p1"), PeerState::Active);
}

#[test]
fn what_a_peer_reported_before_it_died_counts() {
    let mut world = World::with(&[("j", &[1])], &["p1"]);
    world.ack("p1");
    world.drained("p1");
    world.facts.alive.remove(&name("p1"));
    world.seals("p1");
    assert!(world.is_complete("j") && world.state.peers.is_empty());
}

#[test]
fn late_and_repeated_signals_change_nothing() {
    let mut world = World::with(&[("j", &[1, 1])], &["p1"]);
    world.ack("p1");
    let old = world.offer("p1");
    world.drained("p1");
    world.seals("p1");
    let before = world.state.clone();
    for event in [
        Event::Ack { peer: name("p1"), offer: old.number },
        Event::Exhaust { peer: name("p1"), offer: old.number, share: old.share },
        Event::Complete { peer: name("p1"), offer: old.number, ends: Ends::new() },
        Event::Fail { peer: name("p1"), offer: old.number, why: String::new() },
        Event::Born(name("p1")),
        Event::Kill(name("other")),
    ] {
        let (after, effects) = step(before.clone(), event.clone(), 7);
        assert_eq!((&after, effects), (&before, vec![]), "{event:?}");
    }
}

#[test]
fn every_task_gets_a_peer_before_any_gets_a_second_and_jobs_take_turns() {
    let mut world = World::with(&[("a", &[1, 4, 1]), ("b", &[2, 1])], &[]);
    let peers: Vec<String> = (1..=9).map(|number| format!("p{number}")).collect();
    peers.iter().for_each(|peer| world.join(peer));
    let offers: Vec<(String, u32)> = peers
        .iter()
        .filter_map(|peer| world.state.peers[&name(peer)].offer().cloned())
        .map(|offer| (offer.task.job.as_str().to_owned(), offer.task.task))
        .collect();
    let expected = [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3), ("b", 1), ("a", 2), ("a", 2), ("a", 2)];
    assert_eq!(offers, expected.map(|(job, task)| (job.to_owned(), task)));
}

#[test]
fn a_peer_that_could_only_starve_goes_where_it_is_needed() {
    let mut world = World::with(&[("j", &[1, 1])], &["p1", "p2"]);
    ["p1", "p2"].iter().for_each(|peer| world.ack(peer));
    assert_eq!(world.offer("p2").task.task, 2);
    world.die("p1");
    assert_eq!((world.state("p2"), world.offer("p2").task.task), (PeerState::Acking, 1));
}

#[test]
fn killed_and_failed_jobs_leave_their_peers_to_others() {
    let mut world = World::with(&[("a", &[1]), ("b", &[1])], &["p1", "p2"]);
    ["p1", "p2"].iter().for_each(|peer| world.ack(peer));
    world.facts.kills.insert(name("a"));
    world.settle();
    assert_eq!(
        (world.state.jobs[&name("a")].record.state, world.state("p1")),
        (JobState::Killed, PeerState::Idle)
    );
    let offer = world.offer("p2").number;
    let outcome = Outcome::Failed("line 3 is no object".to_owned());
    world.says("p2", |signals| signals.completion = Completion { offer, outcome });
    let record = &world.state.jobs[&name("b")].record;
    assert_eq!((record.state, record.why.as_deref()), (JobState::Failed, Some("line 3 is no object")));
    assert_eq!((world.state("p2"), record.ended_ms), (PeerState::Idle, Some(7)));
}

#[derive(Debug, Clone)]
enum Move {
    Join,
    Die(usize),
    Kill(usize),
    Fail(usize),
    Ack(usize),
    Drained(usize),
    Seals(usize),
}

fn any_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        2 => Just(Move::Join),
        1 => (0..9_usize).prop_map(Move::Die),
        1 => (0..40_usize).prop_map(Move::Kill),
        1 => (0..40_usize).prop_map(Move::Fail),
        6 => (0..9_usize).prop_map(Move::Ack),
        6 => (0..9_usize).prop_map(Move::Drained),
        6 => (0..9_usize).prop_map(Move::Seals),
    ]
}

proptest! {
    #[test]
    fn invariants_hold_whatever_happens_and_the_peers_that_are_left_finish_every_job(
        jobs in prop::collection::vec(prop::collection::vec(1..5_u32, 1..5), 1..4),
        moves in prop::collection::vec(any_move(), 0..150),
    ) {
        let mut world = World::default();
        for (index, partitions) in jobs.iter().enumerate() {
            world.event(Event::Plan { job: name(&format!("j{index}")), view: chain(partitions), documents: Default::default() });
        }
        let mut born = 0;
        for action in moves {
            let nth = |n: usize| world.state.peers.keys().nth(n % world.state.peers.len().max(1)).cloned();
            let in_state = |peer: &Option<Name>, state| {
                peer.as_ref().is_some_and(|peer| world.state.peers[peer].state() == state)
            };
            match action {
                Move::Join => {
                    born += 1;
                    world.join(&format!("p{born}"));
                }
                Move::Die(n) => if let Some(peer) = nth(n) { world.die(peer.as_str()) },
                Move::Kill(n) => {
                    // Most of the numbers mean no job.
                    world.facts.kills.insert(name(&format!("j{n}")));
                    world.settle();
                }
                Move::Fail(n) => {
                    let peer = nth(n);
                    if n < 3 && in_state(&peer, PeerState::Active) {
                        let offer = world.offer(peer.as_ref().unwrap().as_str()).number;
                        let outcome = Outcome::Failed(String::new());
                        world.says(peer.unwrap().as_str(), |signals| signals.completion = Completion { offer, outcome });
                    }
                }
                Move::Ack(n) => {
                    let peer = nth(n);
                    if in_state(&peer, PeerState::Acking) { world.ack(peer.unwrap().as_str()) }
                }
                Move::Drained(n) => {
                    let peer = nth(n);
                    if in_state(&peer, PeerState::Active) { world.drained(peer.unwrap().as_str()) }
                }
                Move::Seals(n) => {
                    let peer = nth(n);
                    if in_state(&peer, PeerState::Sealing) { world.seals(peer.unwrap().as_str()) }
                }
            }
        }
        world.join("last");
        // Every busy peer takes its next step, until nobody is busy.
        for _ in 0..10_000 {
            let Some((peer, state)) = world.state.peers.iter().map(|(id, peer)| (id.clone(), peer.state()))
                .find(|(_, state)| !matches!(state, PeerState::Idle | PeerState::Waiting)) else { break };
            match state {
                PeerState::Acking => world.ack(peer.as_str()),
                PeerState::Active => world.drained(peer.as_str()),
                PeerState::Sealing => world.seals(peer.as_str()),
                PeerState::Idle | PeerState::Waiting => unreachable!(),
            }
        }
        for job in world.state.jobs.values() {
            prop_assert_ne!(job.record.state, JobState::Running);
            let is_whole = job.tasks.values().all(|task| task.is_complete);
            prop_assert_eq!(is_whole, job.record.state == JobState::Complete);
        }
    }
}
