//! Slots: at most N hosts at a time (seed 002).

mod payloads;

use crate::Name;
use crate::payload::check;
use crate::quote::Quoted;
use crate::spec::{Kind, ZnodeSpec};
use crate::znode::{Dir, Znode};

pub use payloads::{Disarmed, Event, Frozen, Holder, Pool, Process, Waiter, What};

const POOLS: ZnodeSpec = ZnodeSpec {
    pattern: "/slots",
    kind: Kind::Persistent,
    payload: "nothing",
    check: check::<()>,
    written_by: "whoever creates the first pool",
    guarded_by: "nothing: it only exists",
    deleted_by: "nobody",
    seed: "002: the folder of lock znodes",
};

const POOL: ZnodeSpec = ZnodeSpec {
    pattern: "/slots/<pool>",
    kind: Kind::Persistent,
    payload: "JSON: maximum, count, frozen (by whom, why)",
    check: check::<Pool>,
    written_by: "`slots create`, `set-max`, `freeze`, `thaw`; every admission",
    guarded_by: "its version: every write names the one it was decided by",
    deleted_by: "`slots delete`",
    seed: "002: the number of lock names, which was in the scripts' code",
};

const BORN: ZnodeSpec = ZnodeSpec {
    pattern: "/slots/<pool>/born-<unique>",
    kind: Kind::Persistent,
    payload: "nothing",
    check: check::<()>,
    written_by: "`slots create`",
    guarded_by: "its name, which is never used again: an admission checks it, because a pool that was made anew counts its versions anew",
    deleted_by: "`slots delete`",
    seed: "none: closes `a late host is admitted by what an earlier pool of that name allowed`",
};

const SLOT: ZnodeSpec = ZnodeSpec {
    pattern: "/slots/<pool>/lock<number>",
    kind: Kind::Persistent,
    payload: "JSON: holder, host, boot id, pid and its start time, who, reason, command, since, ticket; plain text is read as the holder's name",
    check: check::<Holder>,
    written_by: "the holder, when it is admitted or resumes; ephemeral if asked for",
    guarded_by: "the holder's ticket",
    deleted_by: "the holder, on release; an operator, by force",
    seed: "002: `/lock1` … `/lockN`",
};

const TICKETS: ZnodeSpec = dir("/slots/<pool>/tickets", "the folder of tickets");
const TICKET: ZnodeSpec = ZnodeSpec {
    pattern: "/slots/<pool>/tickets/<ticket>",
    kind: Kind::Persistent,
    payload: "the slot's number, which its name begins with",
    check: check::<u64>,
    written_by: "the holder, when it is admitted; ephemeral with an ephemeral slot",
    guarded_by: "its name, which is never used again; an admission leaves no other ticket for its slot",
    deleted_by: "whoever deletes the slot, in the same transaction; if the slot was deleted by hand, who is admitted to it next",
    seed: "none: closes `a late script deletes its successor's slot`",
};

const ALIVE_DIR: ZnodeSpec = dir("/slots/<pool>/alive", "the folder of signs of life");
const ALIVE: ZnodeSpec = ZnodeSpec {
    pattern: "/slots/<pool>/alive/<ticket>",
    kind: Kind::Ephemeral,
    payload: "the holder's name",
    check: check::<crate::Text>,
    written_by: "the process that runs under the slot, in every session",
    guarded_by: "its name, which is never used again",
    deleted_by: "the release, or the end of the session",
    seed: "none: tells a stuck holder from a dead one",
};

const QUEUE: ZnodeSpec = dir("/slots/<pool>/queue", "the folder of waiters");
const WAITER: ZnodeSpec = ZnodeSpec {
    pattern: "/slots/<pool>/queue/<place>",
    kind: Kind::EphemeralSequence,
    payload: "JSON: holder, host, pid, who, reason, polling",
    check: check::<Waiter>,
    written_by: "who waits; persistent for a polling FleetLock client",
    guarded_by: "its name, which is never used again",
    deleted_by: "the admission (in a pool of one: the release, forced or not, who takes the slot over, who raises the maximum, or the holder that finds its slot deleted by hand), who gives up, or the end of the session; a polling client's lapses after 10 minutes of silence",
    seed: "none: the seed's hosts polled without order",
};

const HISTORY: ZnodeSpec = dir("/slots/<pool>/history", "the folder of what happened");
const EVENT: ZnodeSpec = ZnodeSpec {
    pattern: "/slots/<pool>/history/event-",
    kind: Kind::PersistentSequence,
    payload: "JSON: what happened, to which slot and holder, by whom, why",
    check: check::<Event>,
    written_by: "whatever changes the pool, in the same transaction",
    guarded_by: "nothing: it is written once",
    deleted_by: "later writers, beyond the newest 1,000",
    seed: "none: `operator who releases by hand must be recorded`",
};

const DISARMED_DIR: ZnodeSpec = dir("/slots/<pool>/disarmed", "the folder of hosts that are out of service");
const DISARMED: ZnodeSpec = ZnodeSpec {
    pattern: "/slots/<pool>/disarmed/<holder>",
    kind: Kind::Persistent,
    payload: "JSON: why",
    check: check::<Disarmed>,
    written_by: "`slots watch`, after its command succeeded",
    guarded_by: "nothing: it only exists",
    deleted_by: "`slots rearm`",
    seed: "002: `the host stays out of service until a person repairs it`",
};

const fn dir(pattern: &'static str, seed: &'static str) -> ZnodeSpec {
    ZnodeSpec {
        pattern,
        kind: Kind::Persistent,
        payload: "nothing",
        check: check::<()>,
        written_by: "`slots create`",
        guarded_by: "nothing: it only exists",
        deleted_by: "`slots delete`",
        seed,
    }
}

/// The specs of all znodes of slots.
pub const SPECS: &[ZnodeSpec] = &[
    POOLS,
    POOL,
    BORN,
    SLOT,
    TICKETS,
    TICKET,
    ALIVE_DIR,
    ALIVE,
    QUEUE,
    WAITER,
    HISTORY,
    EVENT,
    DISARMED_DIR,
    DISARMED,
];

/// All pools.
pub fn pools() -> Znode<()> {
    POOLS.at(&[])
}

/// One pool.
pub fn pool(pool: &Name) -> Znode<Pool> {
    POOL.at(&[pool])
}

/// Tells a pool from earlier ones of its name.
pub fn born(pool: &Name, unique: &str) -> Znode<()> {
    BORN.at(&[pool, &Quoted(unique)])
}

/// The unique part of such a znode's name; `None` for other children of a pool.
pub fn born_unique(child: &str) -> Option<&str> {
    child.strip_prefix("born-")
}

/// One slot; they count from 1.
pub fn slot(pool: &Name, number: u32) -> Znode<Holder> {
    SLOT.at(&[pool, &number])
}

/// The number of a slot by its name; `None` for other children of a pool.
pub fn slot_number(child: &str) -> Option<u32> {
    let digits = child.strip_prefix("lock")?;
    let number = digits.parse().ok().filter(|number| *number > 0)?;
    // `lock01` is not a name of ours, nor is `lock+1`.
    (digits == u32::to_string(&number)).then_some(number)
}

/// The ticket by which somebody holds a slot.
pub fn ticket(pool: &Name, ticket: &str) -> Znode<u64> {
    TICKET.at(&[pool, &Quoted(ticket)])
}

/// All tickets.
pub fn tickets(pool: &Name) -> Znode<()> {
    TICKETS.at(&[pool])
}

/// The name of a ticket for this slot. `unique` is never used again.
pub fn ticket_name(slot: u32, unique: &str) -> String {
    format!("{slot}-{unique}")
}

/// The slot of a ticket, from its name.
pub fn ticket_slot(ticket: &str) -> Option<u32> {
    ticket.split_once('-')?.0.parse().ok()
}

/// The part of a ticket's name that is never used again.
pub fn ticket_unique(ticket: &str) -> Option<&str> {
    Some(ticket.split_once('-')?.1)
}

/// Shows that the process with this ticket is alive.
pub fn alive(pool: &Name, ticket: &str) -> Znode<crate::Text> {
    ALIVE.at(&[pool, &Quoted(ticket)])
}

/// All signs of life.
pub fn alive_dir(pool: &Name) -> Znode<()> {
    ALIVE_DIR.at(&[pool])
}

/// All waiters.
pub fn queue(pool: &Name) -> Znode<Dir> {
    QUEUE.at(&[pool])
}

/// One waiter.
pub fn waiter(pool: &Name, place: &str) -> Znode<Waiter> {
    WAITER.at(&[pool, &Quoted(place)])
}

/// The history of a pool.
pub fn history(pool: &Name) -> Znode<Dir> {
    HISTORY.at(&[pool])
}

/// The next event of the history.
pub fn event(pool: &Name) -> Znode<Event> {
    EVENT.at(&[pool])
}

/// All holders that are out of service.
pub fn disarmed_dir(pool: &Name) -> Znode<Dir> {
    DISARMED_DIR.at(&[pool])
}

/// A holder that is out of service.
pub fn disarmed(pool: &Name, holder: &Name) -> Znode<Disarmed> {
    DISARMED.at(&[pool, holder])
}

/// The folders of a pool, in the order of their creation.
pub fn folders(pool: &Name) -> Vec<Znode<()>> {
    [TICKETS, ALIVE_DIR, QUEUE, HISTORY, DISARMED_DIR].iter().map(|entry| entry.at(&[pool])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_names_are_slots() {
        for (child, number) in [
            ("lock1", Some(1)),
            ("lock12", Some(12)),
            ("lock01", None),
            ("lock0", None),
            ("queue", None),
            ("lock+1", None),
        ] {
            assert_eq!(slot_number(child), number, "{child}");
        }
    }
}
