//! Bounds on waiting clients that poll. Their places outlive their sessions, and nobody verifies the ids they send:
//! without a bound, any client could fill the queue with names that every reader of the queue must then read.

use std::net::IpAddr;

use super::order::QueuePlace;

/// Largest numbers of waiting clients that poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Waiting clients in a pool.
    pub waiters: usize,
    /// Waiting clients from one source.
    pub per_source: usize,
}

/// A client's origin, as the name of its place records it: an IPv4 address, or the /64 network of an IPv6 host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source(String);

impl Source {
    /// The source of this address.
    pub fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => format!("{:08x}", address.to_bits()),
            // A host picks any of the 2^64 addresses of its network.
            IpAddr::V6(address) => format!("{:016x}", address.to_bits() >> 64),
        })
    }

    /// In lower-case hexadecimal.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Which bound is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crowded {
    /// This many clients wait in the pool.
    Pool(usize),
    /// This many clients of this source wait.
    Source(usize),
}

/// Whether the places ahead reach a bound for this source. Two clients that arrive at once may both take the last
/// place; the later one notices when it reads which places are ahead of it.
pub fn crowded(before: &[QueuePlace], source: &Source, limits: Limits) -> Option<Crowded> {
    let polling = before.iter().filter(|place| place.is_polling());
    let (mut all, mut own) = (0, 0);
    for place in polling {
        all += 1;
        own += usize::from(place.source() == Some(source.as_str()));
    }
    if own >= limits.per_source {
        return Some(Crowded::Source(own));
    }
    (all >= limits.waiters).then_some(Crowded::Pool(all))
}

#[cfg(test)]
mod unit {
    use super::*;

    fn source(text: &str) -> Source {
        Source::of(text.parse().unwrap())
    }

    #[test]
    fn one_host_is_one_source_whichever_address_it_picks() {
        assert_eq!(source("10.2.0.1"), source("::ffff:10.2.0.1"));
        assert_eq!(source("2001:db8::1"), source("2001:db8::dead:beef"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_ne!(source("10.2.0.1"), source("10.2.0.2"));
    }

    #[test]
    fn only_clients_that_poll_count_and_each_source_has_a_share() {
        let [a, b, c] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(source);
        let polls = |holder: &str, source: &Source, number: usize| {
            format!("{}{number:010}", QueuePlace::polling_prefix(holder, source))
        };
        let names = [
            "p000-0f-1a-0000000000".to_owned(),
            polls("w", &a, 1),
            polls("x", &a, 2),
            polls("y", &b, 3),
            "p009-1b-0000000004".to_owned(),
        ];
        let queue = QueuePlace::in_order(names.iter().map(String::as_str));
        let limits = |waiters, per_source| Limits { waiters, per_source };
        assert_eq!(crowded(&queue, &a, limits(4, 3)), None);
        assert_eq!(crowded(&queue, &a, limits(4, 2)), Some(Crowded::Source(2)));
        assert_eq!(crowded(&queue, &b, limits(4, 2)), None);
        assert_eq!(crowded(&queue, &c, limits(3, 2)), Some(Crowded::Pool(3)));
        assert_eq!(crowded(&[], &c, limits(0, 1)), Some(Crowded::Pool(0)), "nobody is to wait");
    }

    #[test]
    fn places_that_were_made_without_a_source_count_for_the_pool() {
        let queue = QueuePlace::in_order(["p000-poll-61-0000000001"]);
        let (limits, one) = (Limits { waiters: 1, per_source: 1 }, source("10.0.0.1"));
        assert_eq!(crowded(&queue, &one, limits), Some(Crowded::Pool(1)));
    }
}
