//! A model of the server: versions and transactions.

use std::collections::BTreeMap;

use menagerie_znodes::slots::{Holder, Pool, Process};

use super::super::admission::place_stays;
use super::super::order::QueuePlace;
use super::super::resume::Local;

/// The server's znodes.
#[derive(Debug, Clone)]
pub struct Tree {
    pub pool: Pool,
    pub version: u32,
    pub slots: BTreeMap<u32, Holder>,
    pub tickets: BTreeMap<String, u32>,
    pub queue: BTreeMap<String, usize>,
    pub sequence: u32,
}

/// An admission: one transaction, atomic.
#[derive(Debug, Clone)]
pub struct Admission {
    pub process: usize,
    pub place: Option<String>,
    /// The place stays until the release.
    pub keeps: bool,
    /// The pool's version.
    pub version: u32,
    pub slot: u32,
    /// The holder whose slot is taken over, as read.
    pub earlier: Option<Holder>,
    /// Left-over tickets of that slot, and the places that stayed with them.
    pub left: Vec<String>,
    pub left_places: Vec<String>,
    pub ticket: String,
}

/// Two processes share each name: they must not hold at the same time.
pub fn holder_name(process: usize) -> String {
    format!("host-{}", process / 2)
}

/// One process in four, also beside a namesake whose slot outlives it.
pub fn is_ephemeral(process: usize) -> bool {
    process % 4 == 1
}

fn pid(process: usize) -> Process {
    Process { pid: process as u32, started: 1 }
}

pub fn host() -> Local {
    Local { host: "here".to_owned(), machine_id: None, boot_id: "boot".to_owned(), pid_namespace: 1 }
}

pub fn holder(process: usize, ticket: &str) -> Holder {
    let Local { host, boot_id, pid_namespace, .. } = host();
    Holder {
        holder: holder_name(process),
        host: Some(host),
        boot_id: Some(boot_id),
        pid_namespace: Some(pid_namespace),
        process: Some(pid(process)),
        ticket: Some(ticket.to_owned()),
        ephemeral: is_ephemeral(process),
        ..Holder::default()
    }
}

impl Tree {
    pub fn new(max: u32) -> Self {
        Self {
            pool: Pool { max, count: 0, frozen: None },
            version: 0,
            slots: BTreeMap::new(),
            tickets: BTreeMap::new(),
            queue: BTreeMap::new(),
            sequence: 0,
        }
    }

    /// Commits all of it or nothing; returns whether it did.
    pub fn admit(&mut self, admission: &Admission) -> bool {
        let Admission { process, place, keeps, version, slot, earlier, left, left_places, ticket } =
            admission;
        let place_is_there = place.iter().chain(left_places).all(|name| self.queue.contains_key(name));
        let left_are_there = left.iter().all(|ticket| self.tickets.contains_key(ticket));
        let slot_is_as_read = self.slots.get(slot).map(|holder| &holder.ticket)
            == earlier.as_ref().map(|holder| &holder.ticket);
        if self.version != *version || !slot_is_as_read || !place_is_there || !left_are_there {
            return false;
        }
        self.tickets.retain(|ticket, _| !left.contains(ticket));
        self.version += 1;
        self.queue.retain(|name, _| !left_places.contains(name) && (*keeps || place.as_ref() != Some(name)));
        if earlier.is_none() {
            assert!(self.slots.len() < self.pool.max as usize, "admitted beyond the maximum");
            assert!(self.pool.frozen.is_none(), "admitted into a frozen pool");
        }
        let mut holder = holder(*process, ticket);
        // A take-over does not make a persistent slot ephemeral.
        holder.ephemeral &= earlier.is_none();
        self.slots.insert(*slot, holder);
        self.tickets.insert(ticket.clone(), *slot);
        self.pool.count = self.slots.len() as u32;
        true
    }

    /// One transaction that checks the ticket and nothing else.
    pub fn release(&mut self, slot: u32, ticket: &str) {
        if self.tickets.remove(ticket).is_none() {
            return;
        }
        self.queue.retain(|name, _| !QueuePlace::parse(name).is_some_and(|place| place.stays_with(ticket)));
        let Some(holder) = self.slots.remove(&slot) else { return };
        assert_eq!(holder.ticket.as_deref(), Some(ticket), "nobody frees what is not theirs");
    }

    /// Waiters in order; and the places of holders with these tickets.
    pub fn places(&self, tickets: &BTreeMap<String, u32>) -> (Vec<QueuePlace>, Vec<QueuePlace>) {
        let places = QueuePlace::in_order(self.queue.keys().map(String::as_str)).into_iter();
        places.partition(|place| !tickets.keys().any(|ticket| place.stays_with(ticket)))
    }

    /// An operator changes the maximum and deletes the places that no longer stay.
    pub fn set_max(&mut self, max: u32) {
        self.pool.max = max;
        self.version += 1;
        if !place_stays(&self.pool) {
            let (_, kept) = self.places(&self.tickets);
            self.queue.retain(|name, _| kept.iter().all(|place| place.name() != name));
        }
    }

    /// Ends a session: deletes the ephemeral znodes of this process.
    pub fn end(&mut self, process: usize) {
        self.queue.retain(|_, owner| *owner != process);
        let gone = |holder: &Holder| holder.ephemeral && holder.process == Some(pid(process));
        for holder in self.slots.values().filter(|holder| gone(holder)) {
            holder.ticket.as_ref().map(|ticket| self.tickets.remove(ticket));
        }
        self.slots.retain(|_, holder| !gone(holder));
    }
}
