//! The admission core under every interleaving that a seed produces: processes read piece by piece, decide, commit,
//! lose replies, and crash between any two steps; their slots outlive them and are taken over, or end with them;
//! operators change the maximum, freeze, release by force, and delete slots by hand. The server is a small model of
//! versions and transactions.

mod server;

use std::collections::BTreeMap;

use menagerie_znodes::slots::{Frozen, Holder, Pool, Process, ticket_name};
use proptest::prelude::*;

use super::admission::{Contender, Decision, Facts, WaitFor, decide, free_slot, place_stays};
use super::order::QueuePlace;
use super::resume::{Resume, is_ours, resume};
use server::{Admission, Tree, holder_name, host, is_ephemeral};

/// The slots of a pool, and their tickets.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    slots: BTreeMap<u32, Holder>,
    tickets: BTreeMap<String, u32>,
}

/// The state of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// Is about to read the pool.
    Asks {
        place: Option<String>,
    },
    /// Has read the pool, at this version.
    HasPool {
        place: Option<String>,
        pool: Pool,
        version: u32,
    },
    /// Has read the slots, too.
    HasSlots {
        place: Option<String>,
        pool: Pool,
        version: u32,
        seen: Seen,
    },
    /// Has sent an admission under this ticket and does not know its outcome.
    Wonders {
        place: Option<String>,
        slot: u32,
        ticket: String,
    },
    /// Waits, in the queue or for its own slot.
    Waits {
        place: Option<String>,
        on: WaitFor,
    },
    Holds {
        slot: u32,
        ticket: String,
    },
    /// Has released.
    Done,
    /// Has crashed.
    Dead,
}

/// What becomes of an admission, if the next step is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Told,
    /// The reply is lost.
    Lost,
    /// The process gives it up as lost, and then it arrives after all.
    Late,
}

#[derive(Debug, Clone)]
enum Action {
    /// A process takes its next step.
    Go(usize, Fate),
    /// A late admission arrives.
    Arrive,
    /// A process crashes: its ephemeral znodes go, its persistent ones stay.
    Crash(usize),
    SetMax(u32),
    Freeze(bool),
    /// An operator releases the holder of this slot by force.
    Force(u32),
    /// Somebody deletes this slot by hand, and nothing else.
    ByHand(u32),
}

const PROCESSES: usize = 8;

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![4 => Just(Fate::Told), 1 => Just(Fate::Lost), 1 => Just(Fate::Late)]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        40 => (0..PROCESSES, fate()).prop_map(|(process, fate)| Action::Go(process, fate)),
        1 => Just(Action::Arrive),
        2 => (0..PROCESSES).prop_map(Action::Crash),
        1 => (1..5_u32).prop_map(Action::SetMax),
        1 => any::<bool>().prop_map(Action::Freeze),
        1 => (1..5_u32).prop_map(Action::Force),
        1 => (1..5_u32).prop_map(Action::ByHand),
    ]
}

struct World {
    tree: Tree,
    steps: Vec<Step>,
    /// Admissions still on their way.
    late: Vec<Admission>,
    /// Tickets that each process believes lost.
    tried: Vec<Vec<String>>,
    last_ticket: u32,
}

impl World {
    fn new(max: u32) -> Self {
        Self {
            tree: Tree::new(max),
            steps: vec![Step::Asks { place: None }; PROCESSES],
            late: Vec::new(),
            tried: vec![Vec::new(); PROCESSES],
            last_ticket: 0,
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Go(process, fate) => self.go(process, fate),
            Action::Arrive => {
                if let Some(admission) = self.late.pop() {
                    self.admit(&admission);
                }
            }
            Action::Crash(process) => {
                self.tree.end(process);
                self.steps[process] = Step::Dead;
            }
            Action::SetMax(max) => self.tree.set_max(max),
            Action::Freeze(frozen) => {
                let by = || Frozen { by: "operator".to_owned(), reason: None, tell: false };
                self.tree.pool.frozen = frozen.then(by);
                self.tree.version += 1;
            }
            Action::Force(slot) => {
                let ticket = self.tree.slots.get(&slot).and_then(|holder| holder.ticket.clone());
                if let Some(ticket) = ticket {
                    self.tree.release(slot, &ticket);
                }
            }
            Action::ByHand(slot) => drop(self.tree.slots.remove(&slot)),
        }
    }

    fn go(&mut self, process: usize, fate: Fate) {
        let step = self.steps[process].clone();
        self.steps[process] = match step {
            Step::Asks { place } => {
                Step::HasPool { place, pool: self.tree.pool.clone(), version: self.tree.version }
            }
            Step::HasPool { place, pool, version } => {
                let seen = Seen { slots: self.tree.slots.clone(), tickets: self.tree.tickets.clone() };
                Step::HasSlots { place, pool, version, seen }
            }
            Step::HasSlots { place, pool, version, seen } => {
                self.decide(process, place, &pool, version, &seen, fate)
            }
            Step::Wonders { slot, ticket, .. } if self.tree.tickets.contains_key(&ticket) => {
                Step::Holds { slot, ticket }
            }
            Step::Wonders { place, ticket, .. } => {
                // Its session is over, and so is its place.
                place.map(|name| self.tree.queue.remove(&name));
                self.tried[process].push(ticket);
                Step::Asks { place: None }
            }
            Step::Waits { place, on } => {
                if self.is_over(&on) || self.looks_again(&on) {
                    Step::Asks { place }
                } else {
                    Step::Waits { place, on }
                }
            }
            Step::Holds { slot, ticket } => {
                self.tree.release(slot, &ticket);
                Step::Done
            }
            step @ (Step::Done | Step::Dead) => step,
        };
    }

    fn decide(
        &mut self,
        process: usize,
        place: Option<String>,
        pool: &Pool,
        version: u32,
        seen: &Seen,
        fate: Fate,
    ) -> Step {
        let (queue, kept) = self.tree.places(&seen.tickets);
        let holder = holder_name(process);
        let mine = place.as_deref().and_then(QueuePlace::parse);
        let me = mine.as_ref().map_or(Contender::Newcomer, Contender::Waiter);
        match decide(Facts { pool, slots: &seen.slots, queue: &queue }, &holder, me) {
            Decision::Enter(slot) => {
                let keeps = place.is_some() && place_stays(pool);
                let mut admission = self.admission(process, place, version, slot, seen, &kept);
                if keeps && let Some(mine) = &mine {
                    (admission.keeps, admission.ticket) = (true, ticket_name(slot, mine.unique()));
                }
                self.commit(admission, fate)
            }
            Decision::Wait(WaitFor::Own(slot)) if self.may_take_over(process, pool, &seen.slots[&slot]) => {
                let place = place.filter(|name| self.tree.queue.remove(name).is_none());
                let admission = self.admission(process, place, version, slot, seen, &kept);
                self.commit(admission, fate)
            }
            Decision::Queue => {
                let unique = format!("u{}", self.tree.sequence);
                let name = format!("{}{:010}", QueuePlace::prefix(0, &unique), self.tree.sequence);
                self.tree.sequence += 1;
                self.tree.queue.insert(name.clone(), process);
                Step::Asks { place: Some(name) }
            }
            Decision::Wait(on) => {
                // A process that waits for its own slot leaves the queue, so as not to block others.
                let leaves = matches!(on, WaitFor::Own(_));
                let place = place.filter(|name| !leaves || self.tree.queue.remove(name).is_none());
                Step::Waits { place, on }
            }
            Decision::Again => Step::Asks { place: None },
        }
    }

    fn may_take_over(&self, process: usize, pool: &Pool, holder: &Holder) -> bool {
        if is_ours(holder, |ticket| self.tried[process].iter().any(|tried| tried == ticket)) {
            return true;
        }
        let lives = |other: Process| !matches!(self.steps[other.pid as usize], Step::Done | Step::Dead);
        let alive = holder.process.is_some_and(lives);
        pool.frozen.is_none() && resume(holder, alive, &host(), lives) == Resume::Take
    }

    fn admission(
        &mut self,
        process: usize,
        place: Option<String>,
        version: u32,
        slot: u32,
        seen: &Seen,
        kept: &[QueuePlace],
    ) -> Admission {
        self.last_ticket += 1;
        let left = seen.tickets.iter().filter(|(_, other)| **other == slot);
        let left: Vec<String> = left.map(|(ticket, _)| ticket.clone()).collect();
        let left_places = kept.iter().filter(|place| left.iter().any(|ticket| place.stays_with(ticket)));
        Admission {
            process,
            place,
            keeps: false,
            version,
            slot,
            earlier: seen.slots.get(&slot).cloned(),
            left_places: left_places.map(|place| place.name().to_owned()).collect(),
            left,
            ticket: ticket_name(slot, &format!("t{}", self.last_ticket)),
        }
    }

    fn admit(&mut self, admission: &Admission) -> bool {
        let done = self.tree.admit(admission);
        let earlier = admission.earlier.as_ref().filter(|_| done).and_then(|holder| holder.ticket.as_ref());
        let works = |step: &Step| matches!(step, Step::Holds { ticket, .. } if Some(ticket) == earlier);
        assert!(!self.steps.iter().any(works), "a slot was taken over under the hands of who works in it");
        done
    }

    fn commit(&mut self, admission: Admission, fate: Fate) -> Step {
        let Admission { place, slot, ticket, .. } = admission.clone();
        match fate {
            Fate::Told if self.admit(&admission) => return Step::Holds { slot, ticket },
            Fate::Told => return Step::Asks { place },
            Fate::Lost => drop(self.admit(&admission)),
            // An ephemeral znode cannot be created after its session.
            Fate::Late if is_ephemeral(admission.process) => {}
            Fate::Late => self.late.push(admission),
        }
        Step::Wonders { place, slot, ticket }
    }

    fn is_over(&self, on: &WaitFor) -> bool {
        match on {
            WaitFor::Room => false,
            WaitFor::Predecessor(place) => !self.tree.queue.contains_key(place.name()),
            WaitFor::Own(slot) => !self.tree.slots.contains_key(slot),
        }
    }

    /// A watch on the pool fires at any change, and a process that waits for its own slot polls; asking once too
    /// often does no harm.
    fn looks_again(&self, on: &WaitFor) -> bool {
        matches!(on, WaitFor::Room | WaitFor::Own(_))
    }

    fn check(&self) {
        let tree = &self.tree;
        let mut holders: Vec<&str> = tree.slots.values().map(|holder| holder.holder.as_str()).collect();
        holders.sort_unstable();
        assert!(holders.windows(2).all(|pair| pair[0] != pair[1]), "somebody holds two slots: {holders:?}");
        for (slot, holder) in &tree.slots {
            let ticket = holder.ticket.as_ref().expect("every slot has an owner");
            assert_eq!(tree.tickets.get(ticket), Some(slot), "every slot has its ticket");
        }
        let mut held: Vec<u32> = tree.tickets.values().copied().collect();
        held.sort_unstable();
        assert!(held.windows(2).all(|pair| pair[0] != pair[1]), "a slot has one ticket: {:?}", tree.tickets);
        for (process, step) in self.steps.iter().enumerate() {
            if let Step::Waits { place: Some(name), .. } = step {
                assert_eq!(tree.queue.get(name), Some(&process), "no waiter is lost");
            }
        }
        self.check_that_no_wake_up_is_lost();
    }

    /// While there is room, the first in the queue must not sleep on: what it waits for is over, or it watches the
    /// pool itself. Only after a deletion by hand it learns later, from the former holder.
    fn check_that_no_wake_up_is_lost(&self) {
        let tree = &self.tree;
        let (queue, _) = tree.places(&tree.tickets);
        let (Some(first), Some(_)) = (queue.first(), free_slot(&tree.pool, &tree.slots)) else { return };
        let Step::Waits { on: WaitFor::Predecessor(before), .. } = &self.steps[tree.queue[first.name()]]
        else {
            return;
        };
        let mut stays_with = tree.tickets.iter().filter(|(ticket, _)| before.stays_with(ticket));
        let by_hand = stays_with.any(|(_, slot)| !tree.slots.contains_key(slot));
        assert!(
            by_hand || !tree.queue.contains_key(before.name()),
            "{first} was not told that there is room"
        );
    }

    /// Every living process gets through once nobody interferes and the slots of the dead are released by force.
    fn drain(&mut self) {
        self.act(Action::Freeze(false));
        for _ in 0..PROCESSES * 40 {
            let left: Vec<(u32, String)> = self
                .tree
                .slots
                .iter()
                .filter(|(slot, holder)| !self.is_held_by_the_living(**slot, holder))
                .filter_map(|(slot, holder)| Some((*slot, holder.ticket.clone()?)))
                .collect();
            for (slot, ticket) in left {
                self.tree.release(slot, &ticket);
            }
            for process in 0..PROCESSES {
                self.go(process, Fate::Told);
                self.check();
            }
        }
        for step in &self.steps {
            assert!(matches!(step, Step::Done | Step::Dead), "somebody never got its turn: {step:?}");
        }
    }

    fn is_held_by_the_living(&self, slot: u32, holder: &Holder) -> bool {
        self.steps.iter().any(|step| {
            matches!(step, Step::Holds { slot: held, ticket } | Step::Wonders { slot: held, ticket, .. }
                if *held == slot && holder.ticket.as_ref() == Some(ticket))
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn never_more_than_the_maximum_no_lost_waiter_no_slot_without_an_owner(
        max in 1..4_u32,
        actions in prop::collection::vec(action(), 0..200),
    ) {
        let mut world = World::new(max);
        for action in actions {
            world.act(action);
            world.check();
        }
        world.drain();
    }
}

#[test]
fn lowered_maximum_evicts_nobody_and_admits_nobody_until_the_count_is_below() {
    let slots: BTreeMap<u32, Holder> =
        (1..=3).map(|slot| (slot, Holder { holder: format!("host-{slot}"), ..Holder::default() })).collect();
    let decide_with = |max, slots: &BTreeMap<u32, Holder>| {
        let pool = Pool { max, count: 3, frozen: None };
        decide(Facts { pool: &pool, slots, queue: &[] }, "new", Contender::Newcomer)
    };
    assert_eq!(decide_with(2, &slots), Decision::Queue);
    let mut fewer = slots.clone();
    fewer.remove(&1);
    assert_eq!(decide_with(2, &fewer), Decision::Queue, "two are in, though one of them above the maximum");
    fewer.remove(&2);
    assert_eq!(decide_with(2, &fewer), Decision::Enter(1));
}
