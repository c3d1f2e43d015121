//! How often somebody may ask: so many requests a second, and as many at once.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Those who have been silent for a second have nothing to remember; they are forgotten when there are so many.
const REMEMBERED_MAX: usize = 10_000;

/// What is left to one who asks.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bucket {
    requests: f64,
    at: Instant,
}

/// What is left to all who ask.
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
    /// Takes one request of `rate` a second; or says for how long there is none left.
    pub fn take(&mut self, key: &K, rate: u32, now: Instant) -> Result<(), Duration> {
        let rate = f64::from(rate.max(1));
        if self.by_key.len() >= REMEMBERED_MAX && !self.by_key.contains_key(key) {
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
    fn who_asks_too_often_is_told_when_to_come_again() {
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
    fn the_silent_are_forgotten() {
        let (mut buckets, start) = (Buckets::default(), Instant::now());
        for key in 0..REMEMBERED_MAX {
            buckets.take(&key, 5, start).unwrap();
        }
        buckets.take(&REMEMBERED_MAX, 5, start + Duration::from_secs(2)).unwrap();
        assert_eq!(buckets.by_key.len(), 1);
    }
}
