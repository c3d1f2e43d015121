//! The order of waiters: by priority, then by arrival.

use std::cmp::Reverse;
use std::fmt;

use menagerie_znodes::slots;

use super::crowd::Source;

/// Largest priority: three digits in a name.
pub const PRIORITY_MAX: u16 = 999;

/// Name prefix of clients that poll. They have no priority: their protocol has none.
const POLLING: &str = "p000-poll-";

/// A place in the queue, encoded in the name of its znode: `p<priority>-<unique>-<number>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePlace {
    priority: u16,
    number: u32,
    name: String,
}

impl QueuePlace {
    /// Name prefix of a new place; the server appends the number. `unique` is never used again.
    pub fn prefix(priority: u16, unique: &str) -> String {
        format!("p{:03}-{unique}-", priority.min(PRIORITY_MAX))
    }

    /// The same for a client that polls: its znode outlives the session that created it, and its name says whose it
    /// is and where it came from.
    pub fn polling_prefix(holder: &str, source: &Source) -> String {
        format!("{}{}-", Self::polling_holder_prefix(holder), source.as_str())
    }

    /// Name prefix of all places of this client, from whatever address: its address may have changed.
    pub fn polling_holder_prefix(holder: &str) -> String {
        let digits: String = holder.bytes().map(|byte| format!("{byte:02x}")).collect();
        format!("{POLLING}{digits}-")
    }

    /// Whether it belongs to a client that polls; such a place lapses when the polls stop.
    pub fn is_polling(&self) -> bool {
        self.name.starts_with(POLLING)
    }

    /// The source of a client that polls.
    pub fn source(&self) -> Option<&str> {
        // The holder's digits, the source's, the number.
        let mut parts = self.name.strip_prefix(POLLING)?.split('-');
        let (_, source, number) = (parts.next()?, parts.next()?, parts.next());
        number.map(|_| source)
    }

    /// Parses a name; `None` if it is not ours.
    pub fn parse(name: &str) -> Option<Self> {
        let (priority, rest) = name.strip_prefix('p')?.split_once('-')?;
        let (_, number) = rest.rsplit_once('-')?;
        Some(Self { priority: priority.parse().ok()?, number: number.parse().ok()?, name: name.to_owned() })
    }

    /// All places among these names, next to be admitted first.
    pub fn in_order<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Self> {
        let mut places: Vec<Self> = names.into_iter().filter_map(Self::parse).collect();
        places.sort_by_key(|place| (Reverse(place.priority), place.number));
        places
    }

    /// Whether this place belongs to the holder of this ticket: then it stays as long as the slot, and nobody waits
    /// there any more.
    pub fn stays_with(&self, ticket: &str) -> bool {
        slots::ticket_unique(ticket) == Some(self.unique())
    }

    /// The part of its name that is never used again.
    pub fn unique(&self) -> &str {
        // As `parse` found them: a priority before it, a number after it.
        let rest = self.name.split_once('-').map_or("", |(_, rest)| rest);
        rest.rsplit_once('-').map_or("", |(unique, _)| unique)
    }

    /// The name of its znode.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Higher priorities are admitted first.
    pub fn priority(&self) -> u16 {
        self.priority
    }
}

impl fmt::Display for QueuePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn importance_comes_before_age_and_strangers_are_ignored() {
        let names =
            ["p000-b-0000000001", "p010-c-0000000009", "p000-a-0000000000", "p010-d-0000000007", "stray"];
        let order: Vec<String> = QueuePlace::in_order(names).iter().map(QueuePlace::to_string).collect();
        assert_eq!(
            order,
            ["p010-d-0000000007", "p010-c-0000000009", "p000-a-0000000000", "p000-b-0000000001"]
        );
    }

    #[test]
    fn unique_part_may_contain_dashes() {
        let place = QueuePlace::parse("p000-0f-1a-0000000042").unwrap();
        assert_eq!((place.priority, place.number), (0, 42));
    }
}
