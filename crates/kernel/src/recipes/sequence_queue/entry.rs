//! Entries, their names and their order. Pure.
//!
//! The znode `<id>-q<number>` carries its data; `<id>-s<number>` has its data in a side znode with the same id. So two
//! lists of names show what belongs together, without reading any data.

use std::collections::BTreeSet;
use std::fmt;

use crate::recipes::logical_time::Ltime;

/// Longer data goes into a side znode: entries are read many at a time, and a transaction may put several.
const INLINE_BYTES_MAX: usize = 64 * 1024;

/// The name of an entry. Ordered as the entries are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    /// The server's sequence number. The server's counter turns negative after 2^31; read as unsigned, it just goes on.
    number: u32,
    name: String,
}

/// An entry of the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueEntry {
    /// Its name, for [`ack`](super::SequenceQueue::ack).
    pub id: EntryId,
    /// When it was put: the logical time.
    pub put_at: Ltime,
    /// When it was put, by the server's clock.
    pub put_at_ms: i64,
    /// What was put.
    pub content: Content,
}

/// What an entry holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// As it was put.
    Whole(Vec<u8>),
    /// Its side data is damaged; the text says how. It stays until it is acked like any other.
    Damaged(String),
}

/// Where an entry's data is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataLocation {
    /// In the entry itself.
    Inline,
    /// In a side znode.
    Side,
}

impl DataLocation {
    /// Where this data belongs.
    pub fn of(data: &[u8]) -> Self {
        if data.len() <= INLINE_BYTES_MAX { Self::Inline } else { Self::Side }
    }

    /// The name of an entry, without its number.
    pub fn prefix(self, id: &str) -> String {
        match self {
            Self::Inline => format!("{id}-q"),
            Self::Side => format!("{id}-s"),
        }
    }
}

impl EntryId {
    /// Parses a name; `None` if it is none of ours.
    pub fn parse(name: &str) -> Option<Self> {
        let (id, rest) = name.split_once('-')?;
        let number = rest.strip_prefix(['q', 's'])?;
        let number: i32 = number.parse().ok()?;
        (!id.is_empty()).then(|| Self { number: number.cast_unsigned(), name: name.to_owned() })
    }

    /// The name of its znode.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of its side data, if it has any.
    pub fn side(&self) -> Option<&str> {
        let (id, rest) = self.name.split_once('-')?;
        rest.starts_with('s').then_some(id)
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The entries after this one, in order.
pub fn in_order(names: &[String], after: Option<&EntryId>) -> Vec<EntryId> {
    let mut entries: Vec<EntryId> = names
        .iter()
        .filter_map(|name| EntryId::parse(name))
        .filter(|entry| after.is_none_or(|after| entry > after))
        .collect();
    entries.sort_unstable();
    entries
}

/// The side znodes that no entry refers to. `sides` must have been listed before `entries`.
pub fn orphans<'a>(sides: &'a [String], entries: &[String]) -> Vec<&'a str> {
    let entries = in_order(entries, None);
    let referenced: BTreeSet<&str> = entries.iter().filter_map(EntryId::side).collect();
    sides.iter().map(String::as_str).filter(|side| !referenced.contains(side)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn order_is_that_of_the_numbers_even_beyond_the_sign() {
        let listed = names(&["f-q0000000002", "a-s0000000010", "lock", "c-q-2147483648", "b-q2147483647"]);
        let order = in_order(&listed, None);
        let order: Vec<&str> = order.iter().map(EntryId::name).collect();
        assert_eq!(order, ["f-q0000000002", "a-s0000000010", "b-q2147483647", "c-q-2147483648"]);
    }

    #[test]
    fn side_data_without_an_entry_is_an_orphan() {
        let sides = names(&["a", "b", "c"]);
        let entries = names(&["a-s0000000001", "b-q0000000002"]);
        assert_eq!(orphans(&sides, &entries), ["b", "c"]);
    }

    proptest! {
        #[test]
        fn going_on_after_an_entry_skips_none_and_repeats_none(
            numbers in proptest::collection::btree_set(0_i32.., 1..50),
            at in any::<prop::sample::Index>(),
        ) {
            let listed: Vec<String> = numbers.iter().rev().map(|n| format!("x-q{n:010}")).collect();
            let all = in_order(&listed, None);
            let seen = at.index(all.len());
            prop_assert_eq!(in_order(&listed, Some(&all[seen])), &all[seen + 1..]);
        }
    }
}
