//! Who may enter. The facts are read in the order pool, slots, queue; the admission is committed only if the pool still
//! has the version that was read, and every admission and every change of the maximum gives it a new one. So whatever is
//! decided here on old facts does not happen. Who leaves gives it none: that there is more room than was seen does no harm,
//! and whoever waits for room watches the slots.

use std::collections::BTreeMap;

use menagerie_znodes::slots::{Holder, Pool};

use super::order::Place;

/// What was read.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The pool.
    pub pool: &'a Pool,
    /// Who is in, by slot.
    pub slots: &'a BTreeMap<u32, Holder>,
    /// Who waits, in order.
    pub queue: &'a [Place],
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Me<'a> {
    /// Somebody who has no place in the queue yet.
    Newcomer,
    /// Somebody who has one.
    Waiter(&'a Place),
}

/// What to watch before asking again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitFor {
    /// Somebody leaves, or the pool changes: only the first in the queue waits for that.
    Room,
    /// The one before has left the queue.
    Place(Place),
    /// The slot that another run of the same holder has.
    Own(u32),
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Take this slot.
    Enter(u32),
    /// Queue up.
    Queue,
    /// Wait.
    Wait(WaitFor),
    /// The place in the queue is gone: ask as a newcomer.
    Again,
}

/// Decides for `holder`, who is `me`.
pub fn decide(facts: Facts<'_>, holder: &str, me: Me<'_>) -> Decision {
    if let Some(number) = slot_of(facts.slots, holder) {
        return Decision::Wait(WaitFor::Own(number));
    }
    let before = match me {
        Me::Newcomer if !facts.queue.is_empty() => return Decision::Queue,
        Me::Newcomer => None,
        Me::Waiter(place) => match facts.queue.iter().position(|other| other == place) {
            None => return Decision::Again,
            Some(position) => position.checked_sub(1).map(|before| &facts.queue[before]),
        },
    };
    if let Some(before) = before {
        return Decision::Wait(WaitFor::Place(before.clone()));
    }
    match (room(facts.pool, facts.slots), me) {
        (Some(number), _) => Decision::Enter(number),
        (None, Me::Newcomer) => Decision::Queue,
        (None, Me::Waiter(_)) => Decision::Wait(WaitFor::Room),
    }
}

/// Whether the place in the queue stays until the slot is free again. Where one may be in, the next in the queue cannot enter
/// before that; so it is the end of the place that tells it, once. Where more may be in, there is room when anybody leaves, and
/// the next in the queue has to look for that itself from now on. Whoever lets more in takes away the places that stay.
pub fn place_stays(pool: &Pool) -> bool {
    pool.max == 1
}

/// The slot that somebody has.
pub fn slot_of(slots: &BTreeMap<u32, Holder>, holder: &str) -> Option<u32> {
    slots.iter().find(|(_, other)| other.holder == holder).map(|(number, _)| *number)
}

/// The lowest free slot, if another one may enter. Slots above a maximum that was lowered count.
pub fn room(pool: &Pool, slots: &BTreeMap<u32, Holder>) -> Option<u32> {
    if pool.frozen.is_some() || slots.len() >= pool.max as usize {
        return None;
    }
    (1..=pool.max).find(|number| !slots.contains_key(number))
}
