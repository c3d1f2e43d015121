//! Limits for those who guess: after a few wrong tokens an address has to wait.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::problem::Problem;

/// Wrong tokens from one address within [`WINDOW`].
const FAILURES_MAX: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses remembered; when there are more, the oldest are forgotten.
const ADDRESSES_MAX: usize = 10_000;

/// Counts wrong tokens by address. Valid tokens that are known are not held up.
#[derive(Debug, Default)]
pub struct Throttle {
    failures: Mutex<HashMap<IpAddr, Failures>>,
}

#[derive(Debug)]
struct Failures {
    since: Instant,
    count: u32,
}

impl Throttle {
    /// Refuses an address that has guessed too often.
    pub fn check(&self, address: IpAddr) -> Result<(), Problem> {
        self.check_at(address, Instant::now())
    }

    /// A token from this address was wrong.
    pub fn failed(&self, address: IpAddr) {
        self.failed_at(address, Instant::now());
    }

    fn check_at(&self, address: IpAddr, now: Instant) -> Result<(), Problem> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let left = failures.get(&group(address)).and_then(|failures| {
            let left = WINDOW.checked_sub(now.duration_since(failures.since))?;
            (failures.count >= FAILURES_MAX && !left.is_zero()).then_some(left)
        });
        match left {
            Some(left) => {
                Err(Problem::busy(429, "too many wrong tokens from this address", left.as_secs() + 1))
            }
            None => Ok(()),
        }
    }

    fn failed_at(&self, address: IpAddr, now: Instant) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= ADDRESSES_MAX {
            failures.retain(|_, failures| now.duration_since(failures.since) < WINDOW);
        }
        if failures.len() >= ADDRESSES_MAX {
            let oldest =
                failures.iter().min_by_key(|(_, failures)| failures.since).map(|(address, _)| *address);
            oldest.map(|address| failures.remove(&address));
        }
        let entry = failures.entry(group(address)).or_insert(Failures { since: now, count: 0 });
        if now.duration_since(entry.since) >= WINDOW {
            *entry = Failures { since: now, count: 0 };
        }
        entry.count += 1;
    }
}

/// One IPv6 customer has 2^64 addresses at least.
fn group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let mut segments = address.segments();
            segments[4..].fill(0);
            IpAddr::from(segments)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guessing_is_stopped_for_a_while_and_for_nobody_else() {
        let throttle = Throttle::default();
        let (guesser, other) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let now = Instant::now();
        for _ in 0..FAILURES_MAX {
            assert!(throttle.check_at(guesser, now).is_ok());
            throttle.failed_at(guesser, now);
        }
        assert_eq!(throttle.check_at(guesser, now).unwrap_err().status, 429);
        assert!(throttle.check_at(other, now).is_ok());
        assert!(throttle.check_at(guesser, now + WINDOW).is_ok());
    }

    #[test]
    fn addresses_of_one_network_count_as_one() {
        assert_eq!(group("2001:db8::1".parse().unwrap()), group("2001:db8::ffff".parse().unwrap()));
        assert_ne!(group("2001:db8::1".parse().unwrap()), group("2001:db8:0:1::1".parse().unwrap()));
    }
}
