//! The admission core under every interleaving that a seed brings up: processes read piece by piece, decide, commit, and
//! crash between any two steps; operators change the maximum, freeze, release by force, and delete slots by hand. The server is
//! a small model of versions and transactions.

use std::collections::BTreeMap;

use menagerie_znodes::slots::{Frozen, Holder, Pool};
use proptest::prelude::*;

use super::admission::{Decision, Facts, Me, WaitFor, decide};
use super::order::Place;

/// What the server has.
#[derive(Debug, Clone)]
struct Tree {
    pool: Pool,
    version: u32,
    slots: BTreeMap<u32, Holder>,
    tickets: BTreeMap<String, u32>,
    queue: BTreeMap<String, usize>,
    sequence: u32,
    last_ticket: u32,
}

/// What is in a pool: its slots, and what they are held by.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    slots: BTreeMap<u32, Holder>,
    tickets: BTreeMap<String, u32>,
}

/// Where a process is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// It is about to read the pool.
    Asks { place: Option<String> },
    /// It has read the pool, at this version.
    HasPool { place: Option<String>, pool: Pool, version: u32 },
    /// It has read the slots, too.
    HasSlots { place: Option<String>, pool: Pool, version: u32, seen: Seen },
    /// It waits, in the queue or for its own slot.
    Waits { place: Option<String>, on: WaitFor },
    /// It is in.
    Holds { slot: u32, ticket: String },
    /// It has released.
    Done,
    /// It has crashed.
    Dead,
}

#[derive(Debug, Clone)]
enum Action {
    /// A process makes its next step.
    Go(usize),
    /// A process crashes: what is ephemeral of it goes, what is persistent stays.
    Crash(usize),
    SetMax(u32),
    Freeze(bool),
    /// An operator releases whatever is in this slot.
    Force(u32),
    /// Somebody deletes this slot by hand, and nothing else.
    ByHand(u32),
}

const PROCESSES: usize = 8;

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        40 => (0..PROCESSES).prop_map(Action::Go),
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
}

/// Two processes share each name: nobody may hold twice.
fn holder_name(process: usize) -> String {
    format!("host-{}", process / 2)
}

impl World {
    fn new(max: u32) -> Self {
        let pool = Pool { max, count: 0, frozen: None };
        let tree = Tree {
            pool,
            version: 0,
            slots: BTreeMap::new(),
            tickets: BTreeMap::new(),
            queue: BTreeMap::new(),
            sequence: 0,
            last_ticket: 0,
        };
        Self { tree, steps: vec![Step::Asks { place: None }; PROCESSES] }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Go(process) => self.go(process),
            Action::Crash(process) => {
                self.tree.queue.retain(|_, owner| *owner != process);
                self.steps[process] = Step::Dead;
            }
            Action::SetMax(max) => {
                self.tree.pool.max = max;
                self.tree.version += 1;
            }
            Action::Freeze(frozen) => {
                let by = || Frozen { by: "operator".to_owned(), reason: None, tell: false };
                self.tree.pool.frozen = frozen.then(by);
                self.tree.version += 1;
            }
            Action::Force(slot) => {
                let ticket = self.tree.slots.get(&slot).and_then(|holder| holder.ticket.clone());
                if let Some(ticket) = ticket {
                    self.release(slot, &ticket);
                }
            }
            Action::ByHand(slot) => drop(self.tree.slots.remove(&slot)),
        }
    }

    fn go(&mut self, process: usize) {
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
                self.decide(process, place, &pool, version, &seen)
            }
            Step::Waits { place, on } => {
                if self.is_over(&on) || self.watches_room(&on) {
                    Step::Asks { place }
                } else {
                    Step::Waits { place, on }
                }
            }
            Step::Holds { slot, ticket } => {
                self.release(slot, &ticket);
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
    ) -> Step {
        let queue = Place::in_order(self.tree.queue.keys().map(String::as_str));
        let holder = holder_name(process);
        let mine = place.as_deref().and_then(Place::parse);
        let me = mine.as_ref().map_or(Me::Newcomer, Me::Waiter);
        match decide(Facts { pool, slots: &seen.slots, queue: &queue }, &holder, me) {
            Decision::Enter(slot) => self.enter(process, place, version, slot, &seen.tickets),
            Decision::Queue => {
                let name = format!("{}{:010}", Place::prefix(0, &format!("u{process}")), self.tree.sequence);
                self.tree.sequence += 1;
                self.tree.queue.insert(name.clone(), process);
                Step::Asks { place: Some(name) }
            }
            Decision::Wait(on) => {
                // Whoever waits for its own slot leaves the queue, not to stand in the way of others.
                let leaves = matches!(on, WaitFor::Own(_));
                let place = place.filter(|name| !leaves || self.tree.queue.remove(name).is_none());
                Step::Waits { place, on }
            }
            Decision::Again => Step::Asks { place: None },
        }
    }

    /// One transaction: all of it or nothing.
    fn enter(
        &mut self,
        process: usize,
        place: Option<String>,
        version: u32,
        slot: u32,
        tickets: &BTreeMap<String, u32>,
    ) -> Step {
        let tree = &mut self.tree;
        let place_is_there = place.as_ref().is_none_or(|name| tree.queue.contains_key(name));
        let left: Vec<&String> =
            tickets.iter().filter(|(_, other)| **other == slot).map(|(ticket, _)| ticket).collect();
        let left_are_there = left.iter().all(|ticket| tree.tickets.contains_key(*ticket));
        if tree.version != version || tree.slots.contains_key(&slot) || !place_is_there || !left_are_there {
            return Step::Asks { place };
        }
        tree.tickets.retain(|ticket, _| !left.contains(&ticket));
        tree.version += 1;
        tree.last_ticket += 1;
        let ticket = format!("t{}", tree.last_ticket);
        if let Some(name) = &place {
            tree.queue.remove(name);
        }
        assert!(tree.slots.len() < tree.pool.max as usize, "admitted beyond the maximum");
        assert!(tree.pool.frozen.is_none(), "admitted into a frozen pool");
        let holder =
            Holder { holder: holder_name(process), ticket: Some(ticket.clone()), ..Holder::default() };
        tree.slots.insert(slot, holder);
        tree.tickets.insert(ticket.clone(), slot);
        tree.pool.count = tree.slots.len() as u32;
        Step::Holds { slot, ticket }
    }

    /// One transaction that checks the ticket, and nothing else.
    fn release(&mut self, slot: u32, ticket: &str) {
        if self.tree.tickets.remove(ticket).is_none() {
            return;
        }
        let Some(holder) = self.tree.slots.remove(&slot) else { return };
        assert_eq!(holder.ticket.as_deref(), Some(ticket), "nobody frees what is not theirs");
    }

    fn is_over(&self, on: &WaitFor) -> bool {
        match on {
            WaitFor::Room => false,
            WaitFor::Place(place) => !self.tree.queue.contains_key(place.name()),
            WaitFor::Own(slot) => !self.tree.slots.contains_key(slot),
        }
    }

    /// Whoever watches the pool is told of anything; asking once too often does no harm.
    fn watches_room(&self, on: &WaitFor) -> bool {
        *on == WaitFor::Room
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
    }

    /// Everybody alive gets through once nobody interferes and what the dead left is released by hand.
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
                self.release(slot, &ticket);
            }
            for process in 0..PROCESSES {
                self.go(process);
                self.check();
            }
        }
        for step in &self.steps {
            assert!(matches!(step, Step::Done | Step::Dead), "somebody never got its turn: {step:?}");
        }
    }

    fn is_held_by_the_living(&self, slot: u32, holder: &Holder) -> bool {
        self.steps.iter().any(|step| {
            matches!(step, Step::Holds { slot: held, ticket } if *held == slot && holder.ticket.as_ref() == Some(ticket))
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
        decide(Facts { pool: &pool, slots, queue: &[] }, "new", Me::Newcomer)
    };
    assert_eq!(decide_with(2, &slots), Decision::Queue);
    let mut fewer = slots.clone();
    fewer.remove(&1);
    assert_eq!(decide_with(2, &fewer), Decision::Queue, "two are in, though one of them above the maximum");
    fewer.remove(&2);
    assert_eq!(decide_with(2, &fewer), Decision::Enter(1));
}
