//! How much is held in memory for those who ask: bodies on their way in, answers on their way out.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// For all of them together, unless somebody is alone with more.
pub const ROOM_BYTES: usize = 512 << 20;

/// One of them may fill this part of it, and leaves the rest to others.
const SHARE: usize = 2;

/// There is no room left: for who asks, or for anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// Room for so many bytes. Clones share it.
#[derive(Debug)]
pub struct Room<K> {
    used: Arc<Mutex<Used<K>>>,
    bytes_max: usize,
}

#[derive(Debug)]
struct Used<K> {
    all: usize,
    by_asker: HashMap<K, usize>,
}

impl<K> Clone for Room<K> {
    fn clone(&self) -> Self {
        Self { used: self.used.clone(), bytes_max: self.bytes_max }
    }
}

impl<K: Hash + Eq + Clone> Room<K> {
    /// For so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        let used = Used { all: 0, by_asker: HashMap::new() };
        Self { used: Arc::new(Mutex::new(used)), bytes_max }
    }

    /// Where one request has its bytes: none yet.
    pub fn place(&self, asker: K) -> Place<K> {
        Place { room: self.clone(), asker, bytes: 0 }
    }
}

/// What one request holds, until it is dropped.
#[derive(Debug)]
pub struct Place<K: Hash + Eq + Clone> {
    room: Room<K>,
    asker: K,
    bytes: usize,
}

impl<K: Hash + Eq + Clone> Place<K> {
    /// Takes so many bytes more. A request that is alone is never refused: how large it may be is said elsewhere, and who
    /// comes again later must find room some time.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Full> {
        let room = self.room.clone();
        let mut used = room.used.lock().unwrap_or_else(PoisonError::into_inner);
        let own = used.by_asker.get(&self.asker).copied().unwrap_or_default();
        let is_full = |held: usize, max: usize| held > self.bytes && held.saturating_add(bytes) > max;
        if is_full(own, room.bytes_max / SHARE) || is_full(used.all, room.bytes_max) {
            return Err(Full);
        }
        self.set(&mut used, self.bytes.saturating_add(bytes));
        Ok(())
    }

    /// Holds exactly so many bytes from now on; they are there already, whether there is room or not.
    pub fn settle(&mut self, bytes: usize) {
        let room = self.room.clone();
        self.set(&mut room.used.lock().unwrap_or_else(PoisonError::into_inner), bytes);
    }

    fn set(&mut self, used: &mut Used<K>, bytes: usize) {
        let moved = |held: usize| held.saturating_sub(self.bytes).saturating_add(bytes);
        used.all = moved(used.all);
        match moved(used.by_asker.get(&self.asker).copied().unwrap_or_default()) {
            // Who holds nothing is not remembered.
            0 => used.by_asker.remove(&self.asker),
            own => used.by_asker.insert(self.asker.clone(), own),
        };
        self.bytes = bytes;
    }
}

impl<K: Hash + Eq + Clone> Drop for Place<K> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.settle(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_fills_his_share_leaves_the_rest_to_others() {
        let room = Room::new(100);
        let (mut first, mut second) = (room.place("a"), room.place("a"));
        assert_eq!((first.grow(40), second.grow(10), second.grow(1)), (Ok(()), Ok(()), Err(Full)));
        let mut other = room.place("b");
        assert_eq!((other.grow(50), other.grow(1)), (Ok(()), Err(Full)));
        assert_eq!(room.place("c").grow(1), Err(Full), "all of it is used");
        drop(first);
        assert_eq!((second.grow(40), room.place("c").grow(1)), (Ok(()), Err(Full)));
    }

    #[test]
    fn who_is_alone_is_never_refused() {
        let room = Room::new(100);
        let mut alone = room.place("a");
        assert_eq!((alone.grow(70), alone.grow(70)), (Ok(()), Ok(())));
        assert_eq!(room.place("b").grow(1), Err(Full));
        alone.settle(10);
        assert_eq!(room.place("b").grow(1), Ok(()));
    }

    #[test]
    fn what_is_dropped_is_given_back_and_forgotten() {
        let room = Room::new(100);
        {
            let (mut one, mut other) = (room.place("a"), room.place("b"));
            one.settle(1_000);
            other.settle(7);
            one.settle(0);
        }
        let used = room.used.lock().unwrap();
        assert_eq!((used.all, used.by_asker.len()), (0, 0));
    }
}
