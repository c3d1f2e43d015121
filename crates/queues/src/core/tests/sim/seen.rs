//! What has happened in a simulated world: a simulation in which nothing goes wrong proves nothing.

use std::collections::BTreeMap;

/// How often each thing happened.
#[derive(Debug, Default)]
pub struct Seen(BTreeMap<String, u64>);

impl Seen {
    pub fn count(&mut self, what: impl Into<String>) {
        *self.0.entry(what.into()).or_default() += 1;
    }

    pub fn times(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    pub fn add(&mut self, other: Self) {
        for (what, times) in other.0 {
            *self.0.entry(what).or_default() += times;
        }
    }
}
