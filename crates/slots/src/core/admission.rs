//! Admission. Facts are read in the order pool, slots, queue. An admission commits only if the pool still has the
//! version that was read, and every admission and every change of the maximum gives it a new one: a decision on stale
//! facts does not happen. A release gives no new version: more room than was seen does no harm, and whoever waits for
//! room watches the slots.

use std::collections::BTreeMap;

use menagerie_znodes::slots::{Holder, Pool};

use super::order::QueuePlace;

/// The facts of one read.
#[expect(missing_docs, reason = "fields name themselves")]
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub pool: &'a Pool,
    /// Holders by slot.
    pub slots: &'a BTreeMap<u32, Holder>,
    /// Waiters in order.
    pub queue: &'a [QueuePlace],
}

/// The contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contender<'a> {
    /// It has no place in the queue yet.
    Newcomer,
    /// It waits at this place.
    Waiter(&'a QueuePlace),
}

/// What to watch before asking again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitFor {
    /// A release, or a change of the pool: only the first in the queue waits for that.
    Room,
    /// The end of the place ahead.
    Predecessor(QueuePlace),
    /// The slot of another run of the same holder.
    Own(u32),
}

/// What the contender should do.
#[expect(missing_docs, reason = "variants name themselves")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Take this slot.
    Enter(u32),
    Queue,
    Wait(WaitFor),
    /// The place in the queue is gone: ask again as a newcomer.
    Again,
}

/// Decides for `holder`, who is `me`.
pub fn decide(facts: Facts<'_>, holder: &str, me: Contender<'_>) -> Decision {
    if let Some(number) = slot_of(facts.slots, holder) {
        return Decision::Wait(WaitFor::Own(number));
    }
    let before = match me {
        Contender::Newcomer if !facts.queue.is_empty() => return Decision::Queue,
        Contender::Newcomer => None,
        Contender::Waiter(place) => match facts.queue.iter().position(|other| other == place) {
            None => return Decision::Again,
            Some(position) => position.checked_sub(1).map(|before| &facts.queue[before]),
        },
    };
    if let Some(before) = before {
        return Decision::Wait(WaitFor::Predecessor(before.clone()));
    }
    match (free_slot(facts.pool, facts.slots), me) {
        (Some(number), _) => Decision::Enter(number),
        (None, Contender::Newcomer) => Decision::Queue,
        (None, Contender::Waiter(_)) => Decision::Wait(WaitFor::Room),
    }
}

/// Whether a place stays in the queue until its slot is released. In a pool of one, the next waiter cannot enter
/// before that, so deleting the place wakes exactly that waiter, once. In a larger pool any release makes room, and
/// the next waiter must watch for that itself from now on. Raising the maximum deletes the places that stayed.
pub fn place_stays(pool: &Pool) -> bool {
    pool.max == 1
}

/// The slot of this holder.
pub fn slot_of(slots: &BTreeMap<u32, Holder>, holder: &str) -> Option<u32> {
    slots.iter().find(|(_, other)| other.holder == holder).map(|(number, _)| *number)
}

/// The lowest free slot, if there is room for one more. Slots above a lowered maximum count as taken.
pub fn free_slot(pool: &Pool, slots: &BTreeMap<u32, Holder>) -> Option<u32> {
    if pool.frozen.is_some() || slots.len() >= pool.max as usize {
        return None;
    }
    (1..=pool.max).find(|number| !slots.contains_key(number))
}
