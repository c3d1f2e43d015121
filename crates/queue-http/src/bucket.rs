//! Rate limits: a token bucket per client, with a burst as large as one second's rate.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// With more clients than this, buckets idle for a second are dropped: they are full again, so nothing is lost.
const CLIENTS_MAX: usize = 10_000;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Bucket {
    requests: f64,
    at: Instant,
}

/// One token bucket per client.
#[derive(Debug)]
pub struct Buckets<K> {
    by_key: HashMap<K, Bucket>,
}

impl<K> Default for Buckets<K> {
    fn default() -> Self {
        Self { by_key: HashMap::new() }
    }
}

impl<K: Hash + Eq + Clone> Buckets<K> {
    /// Takes one token from a bucket that refills at `rate` per second. On failure, returns how long until the next
    /// token.
    pub fn take(&mut self, key: &K, rate: u32, now: Instant) -> Result<(), Duration> {
        let rate = f64::from(rate.max(1));
        if self.by_key.len() >= CLIENTS_MAX && !self.by_key.contains_key(key) {
            self.by_key.retain(|_, bucket| now.duration_since(bucket.at) < Duration::from_secs(1));
        }
        let bucket = self.by_key.entry(key.clone()).or_insert(Bucket { requests: rate, at: now });
        let grown = now.saturating_duration_since(bucket.at).as_secs_f64() * rate;
        bucket.requests = (bucket.requests + grown).min(rate);
        bucket.at = now;
        if bucket.requests < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.requests) / rate));
        }
        bucket.requests -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_over_its_rate_learns_when_to_retry() {
        let (mut buckets, start) = (Buckets::default(), Instant::now());
        for _ in 0..10 {
            assert_eq!(buckets.take(&"a", 10, start), Ok(()));
        }
        let wait = buckets.take(&"a", 10, start).unwrap_err();
        assert!(wait <= Duration::from_millis(100), "{wait:?}");
        assert_eq!(buckets.take(&"b", 10, start), Ok(()), "others are not concerned");
        assert_eq!(buckets.take(&"a", 10, start + Duration::from_millis(101)), Ok(()));
        assert!(buckets.take(&"a", 10, start + Duration::from_millis(102)).is_err());
    }

    #[test]
    fn idle_clients_are_dropped() {
        let (mut buckets, start) = (Buckets::default(), Instant::now());
        for key in 0..CLIENTS_MAX {
            buckets.take(&key, 5, start).unwrap();
        }
        buckets.take(&CLIENTS_MAX, 5, start + Duration::from_secs(2)).unwrap();
        assert_eq!(buckets.by_key.len(), 1);
    }
}
