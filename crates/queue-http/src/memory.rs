//! Memory for requests in flight: bodies on their way in, replies on their way out.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// Default budget for all requests together.
pub const IN_FLIGHT_BYTES_MAX: usize = 512 << 20;

/// One client may take this fraction of the budget, 1/2, and leaves the rest to others.
const CLIENT_SHARE: usize = 2;

/// The client's share, or the whole budget, is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetExceeded;

/// A budget of bytes, tracked in total and per client. Clones share it.
#[derive(Debug)]
pub struct MemoryBudget<K> {
    used: Arc<Mutex<Used<K>>>,
    bytes_max: usize,
}

#[derive(Debug)]
struct Used<K> {
    all: usize,
    by_client: HashMap<K, usize>,
}

impl<K> Clone for MemoryBudget<K> {
    fn clone(&self) -> Self {
        Self { used: self.used.clone(), bytes_max: self.bytes_max }
    }
}

impl<K: Hash + Eq + Clone> MemoryBudget<K> {
    /// A budget of `bytes_max`.
    pub fn new(bytes_max: usize) -> Self {
        let used = Used { all: 0, by_client: HashMap::new() };
        Self { used: Arc::new(Mutex::new(used)), bytes_max }
    }

    /// An empty reservation for one request.
    pub fn reserve(&self, client: K) -> Reservation<K> {
        Reservation { budget: self.clone(), client, bytes: 0 }
    }
}

/// The bytes reserved by one request; dropping it releases them.
#[derive(Debug)]
pub struct Reservation<K: Hash + Eq + Clone> {
    budget: MemoryBudget<K>,
    client: K,
    bytes: usize,
}

impl<K: Hash + Eq + Clone> Reservation<K> {
    /// Reserves more bytes. The only request of a client, or of all clients, is never refused: other limits bound its
    /// size, and a client that retries must succeed some time.
    pub fn grow(&mut self, bytes: usize) -> Result<(), BudgetExceeded> {
        let budget = self.budget.clone();
        let mut used = budget.used.lock().unwrap_or_else(PoisonError::into_inner);
        let own = used.by_client.get(&self.client).copied().unwrap_or_default();
        let exceeds = |held: usize, max: usize| held > self.bytes && held.saturating_add(bytes) > max;
        if exceeds(own, budget.bytes_max / CLIENT_SHARE) || exceeds(used.all, budget.bytes_max) {
            return Err(BudgetExceeded);
        }
        self.update(&mut used, self.bytes.saturating_add(bytes));
        Ok(())
    }

    /// Sets the reservation to memory that is already allocated, even beyond the budget.
    pub fn set_bytes(&mut self, bytes: usize) {
        let budget = self.budget.clone();
        self.update(&mut budget.used.lock().unwrap_or_else(PoisonError::into_inner), bytes);
    }

    fn update(&mut self, used: &mut Used<K>, bytes: usize) {
        let moved = |held: usize| held.saturating_sub(self.bytes).saturating_add(bytes);
        used.all = moved(used.all);
        match moved(used.by_client.get(&self.client).copied().unwrap_or_default()) {
            // Keep no entries for clients without reservations.
            0 => used.by_client.remove(&self.client),
            own => used.by_client.insert(self.client.clone(), own),
        };
        self.bytes = bytes;
    }
}

impl<K: Hash + Eq + Clone> Drop for Reservation<K> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.set_bytes(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_fills_its_share_leaves_the_rest_to_others() {
        let budget = MemoryBudget::new(100);
        let (mut first, mut second) = (budget.reserve("a"), budget.reserve("a"));
        assert_eq!((first.grow(40), second.grow(10), second.grow(1)), (Ok(()), Ok(()), Err(BudgetExceeded)));
        let mut other = budget.reserve("b");
        assert_eq!((other.grow(50), other.grow(1)), (Ok(()), Err(BudgetExceeded)));
        assert_eq!(budget.reserve("c").grow(1), Err(BudgetExceeded), "all of it is used");
        drop(first);
        assert_eq!((second.grow(40), budget.reserve("c").grow(1)), (Ok(()), Err(BudgetExceeded)));
    }

    #[test]
    fn the_only_request_is_never_refused() {
        let budget = MemoryBudget::new(100);
        let mut alone = budget.reserve("a");
        assert_eq!((alone.grow(70), alone.grow(70)), (Ok(()), Ok(())));
        assert_eq!(budget.reserve("b").grow(1), Err(BudgetExceeded));
        alone.set_bytes(10);
        assert_eq!(budget.reserve("b").grow(1), Ok(()));
    }

    #[test]
    fn dropping_a_reservation_releases_it() {
        let budget = MemoryBudget::new(100);
        {
            let (mut one, mut other) = (budget.reserve("a"), budget.reserve("b"));
            one.set_bytes(1_000);
            other.set_bytes(7);
            one.set_bytes(0);
        }
        let used = budget.used.lock().unwrap();
        assert_eq!((used.all, used.by_client.len()), (0, 0));
    }
}
