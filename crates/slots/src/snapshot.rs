//! A pool at one moment, as far as one reader can tell.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use menagerie_kernel::session::{Read, ReadResult, Stat};
use menagerie_kernel::{Term, Versioned};
use menagerie_znodes::slots::{self, Holder, Pool};
use menagerie_znodes::{MaybeDamaged, Name};

use crate::core::{Facts, QueuePlace};
use crate::error::SlotsError;

/// Slots read together with the pool, taken or not: most pools have no more.
const AT_ONCE: u32 = 8;

/// The facts of a pool. The pool itself is read first: any later admission gives it a new version.
#[expect(missing_docs, reason = "fields name themselves")]
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub pool: Pool,
    /// The version that decisions are bound to.
    pub version: i32,
    /// Distinguishes it from earlier pools of its name; `None` for a pool of an older version.
    pub born: Option<String>,
    /// Number of slots, including unreadable ones.
    pub taken: usize,
    /// Holders by slot.
    pub slots: BTreeMap<u32, Holder>,
    /// Stats of those slots.
    pub stats: BTreeMap<u32, Stat>,
    /// Waiters in order.
    pub queue: Vec<QueuePlace>,
    /// Places that stay with a held slot.
    pub kept: Vec<QueuePlace>,
    /// Tickets of slots; one whose slot was deleted by hand is left over.
    pub tickets: Vec<String>,
    /// Tickets whose process lives.
    pub alive: BTreeSet<String>,
    /// Folders that are missing or unreadable. They count as empty: pool and slots alone decide who may enter.
    pub missing: Vec<String>,
}

impl Snapshot {
    /// Reads a pool: one round trip if it is small, two otherwise.
    pub async fn read(term: &Term, name: &Name) -> Result<Self, SlotsError> {
        let sound = |pool| match pool {
            MaybeDamaged::Sound(pool) => Ok(pool),
            MaybeDamaged::Damaged { why, .. } => {
                let path = slots::pool(name).path().to_owned();
                Err(SlotsError::Damaged { pool: name.to_string(), path, why })
            }
        };
        Self::read_with(term, name, sound).await
    }

    /// The same for a release or a deletion, which do not depend on the pool's own data.
    pub async fn read_damaged(term: &Term, name: &Name) -> Result<Self, SlotsError> {
        let closed = Pool { max: 0, count: 0, frozen: None };
        Self::read_with(term, name, |pool| Ok(pool.sound().unwrap_or(closed))).await
    }

    async fn read_with(
        term: &Term,
        name: &Name,
        sound: impl FnOnce(MaybeDamaged<Pool>) -> Result<Pool, SlotsError>,
    ) -> Result<Self, SlotsError> {
        let pool = slots::pool(name);
        let mut reads = vec![
            Read::Data(pool.path().to_owned()),
            Read::Children(pool.path().to_owned()),
            Read::Children(slots::queue(name).path().to_owned()),
            Read::Children(slots::tickets(name).path().to_owned()),
            Read::Children(slots::alive_dir(name).path().to_owned()),
        ];
        reads.extend((1..=AT_ONCE).map(|number| slot(name, number)));
        let found = term.read_together(&reads).await?;
        let no_pool = || SlotsError::NoPool { pool: name.to_string() };
        let [data, ReadResult::Children(children), queue, tickets, alive, first @ ..] = found.as_slice()
        else {
            return Err(no_pool());
        };
        let Versioned { value, stat } = data.read(&pool.maybe_damaged())?.ok_or_else(no_pool)?;
        let mut missing = Vec::new();
        let [queue, tickets, alive] =
            [(queue, &reads[2]), (tickets, &reads[3]), (alive, &reads[4])].map(|(found, read)| {
                match (found, read) {
                    (ReadResult::Children(names), _) => names.as_slice(),
                    (_, Read::Children(path) | Read::Data(path)) => {
                        missing.push(path.clone());
                        &[]
                    }
                }
            });
        let pool = sound(value)?;
        let (slots, stats) = read_slots(term, name, children, first).await?;
        let held: HashSet<&str> = tickets.iter().filter_map(|ticket| slots::ticket_unique(ticket)).collect();
        let stays = |place: &QueuePlace| held.contains(place.unique());
        let (kept, queue) =
            QueuePlace::in_order(queue.iter().map(String::as_str)).into_iter().partition(stays);
        Ok(Self {
            pool,
            version: stat.version,
            born: children.iter().find_map(|child| slots::born_unique(child)).map(str::to_owned),
            taken: taken(children),
            slots,
            stats,
            queue,
            kept,
            tickets: tickets.to_vec(),
            alive: alive.iter().cloned().collect(),
            missing,
        })
    }

    /// The facts for [`decide`](crate::core::admission::decide).
    pub fn facts(&self) -> Facts<'_> {
        Facts { pool: &self.pool, slots: &self.slots, queue: &self.queue }
    }

    /// The place that stays with this ticket, if there is one.
    pub fn place_of(&self, ticket: &str) -> Option<&QueuePlace> {
        self.kept.iter().chain(&self.queue).find(|place| place.stays_with(ticket))
    }

    /// Whether the holder's sign of life exists.
    pub fn is_alive(&self, holder: &Holder) -> bool {
        holder.ticket.as_ref().is_some_and(|ticket| self.alive.contains(ticket))
    }
}

/// Number of slots among a pool's children.
pub(crate) fn taken(children: &[String]) -> usize {
    children.iter().filter(|child| slots::slot_number(child).is_some()).count()
}

fn slot(name: &Name, number: u32) -> Read {
    Read::Data(slots::slot(name, number).path().to_owned())
}

type Slots = (BTreeMap<u32, Holder>, BTreeMap<u32, Stat>);

/// Holders by slot; the `first` slots were read already.
async fn read_slots(
    term: &Term,
    name: &Name,
    children: &[String],
    first: &[ReadResult],
) -> Result<Slots, SlotsError> {
    let listed: BTreeSet<u32> = children.iter().filter_map(|child| slots::slot_number(child)).collect();
    let others: Vec<u32> = listed.iter().copied().filter(|number| *number > AT_ONCE).collect();
    let reads: Vec<Read> = others.iter().map(|number| slot(name, *number)).collect();
    let read_later = others.into_iter().zip(term.read_together(&reads).await?);
    let mut found = (BTreeMap::new(), BTreeMap::new());
    for (number, read) in (1..=AT_ONCE).zip(first.iter().cloned()).chain(read_later) {
        let slot = slots::slot(name, number);
        let (holder, stat) = match read.read(&slot.maybe_damaged())? {
            Some(found) => (holder(found.value), found.stat),
            // A slot that we may not read is taken all the same.
            None if listed.contains(&number) => match term.stat(slot.path()).await? {
                Some(stat) => (Holder::default(), stat),
                // Released meanwhile; the pool's version will tell if that matters.
                None => continue,
            },
            None => continue,
        };
        found.0.insert(number, holder);
        found.1.insert(number, stat);
    }
    Ok(found)
}

/// Even a slot with unreadable data is taken.
fn holder(stored: MaybeDamaged<Holder>) -> Holder {
    match stored {
        MaybeDamaged::Sound(holder) => holder,
        MaybeDamaged::Damaged { data, .. } => {
            Holder { holder: String::from_utf8_lossy(&data).into_owned(), ..Holder::default() }
        }
    }
}
