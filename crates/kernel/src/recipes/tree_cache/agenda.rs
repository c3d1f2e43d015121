//! Decides what to read next. Pure.
//!
//! Three rules make the mirror right:
//! - Only a read changes what is known of a path; an event only requests one. So events and replies may be processed in
//!   any order.
//! - At most one read per path is in flight. What one session reads never goes back in time, so neither does the
//!   mirror: no older read of the same path can arrive late.
//! - An event that comes while a read of its path is in flight requests another one: the server may have answered the
//!   first one before the change.
//!
//! A *walk* reads the whole subtree: at the start, and when events may have been missed. The watch is set before it, so
//! no change meanwhile is missed.

use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};
use std::sync::Arc;

use super::mirror::{Mirror, below};
use crate::session::Stat;

/// Why a path is read. A walk also lists its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Purpose {
    Event,
    Walk,
}

/// Pending work for a path.
#[derive(Debug, Default)]
struct Pending {
    wanted: Option<Purpose>,
    flying: Option<Purpose>,
}

/// A request to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Job {
    /// Data and facts of these.
    Read(Vec<Arc<str>>),
    /// The names of the children of this one.
    List(Arc<str>),
}

/// Limits of one request.
#[derive(Debug, Clone, Copy)]
pub struct Batch {
    /// Paths.
    pub paths_max: usize,
    /// Bytes in all of them.
    pub bytes_max: usize,
}

/// Everything that is to be read.
#[derive(Debug, Default)]
pub struct Agenda {
    pending: HashMap<Arc<str>, Pending>,
    queue: VecDeque<Arc<str>>,
    lists: VecDeque<Arc<str>>,
    /// The number of this walk.
    walk: u64,
    /// Reads and lists of this walk that are still open.
    left: usize,
}

impl Agenda {
    /// Begins a walk, and forgets all pending reads, also those in flight: their replies must not be passed to
    /// [`read`](Self::read) any more.
    pub fn restart(&mut self, root: &Arc<str>, mirror: &Mirror) {
        *self = Self { walk: self.walk + 1, ..Self::default() };
        self.want(root, Purpose::Walk);
        for path in mirror.paths() {
            self.want(path, Purpose::Walk);
        }
    }

    /// Whether the walk is done: everything that existed when it began has been read since.
    pub fn is_walked(&self) -> bool {
        self.left == 0
    }

    /// Requests a read of a path that changed.
    pub fn changed(&mut self, path: &Arc<str>) {
        self.want(path, Purpose::Event);
    }

    fn want(&mut self, path: &Arc<str>, purpose: Purpose) {
        let pending = self.pending.entry(path.clone()).or_default();
        let before = pending.wanted;
        pending.wanted = before.max(Some(purpose));
        if pending.wanted == Some(Purpose::Walk) && before != Some(Purpose::Walk) {
            self.left += 1;
        }
        if before.is_none() && pending.flying.is_none() {
            self.queue.push_back(path.clone());
        }
    }

    /// The next request. Lists first: they tell what else to read.
    pub fn next(&mut self, batch: Batch) -> Option<Job> {
        if let Some(path) = self.lists.pop_front() {
            return Some(Job::List(path));
        }
        let (mut paths, mut bytes) = (Vec::new(), 0);
        while let Some(path) = self.queue.front() {
            bytes += path.len();
            if paths.len() >= batch.paths_max || (bytes > batch.bytes_max && !paths.is_empty()) {
                break;
            }
            let path = self.queue.pop_front()?;
            let pending = self.pending.get_mut(&path)?;
            pending.flying = pending.wanted.take();
            paths.push(path);
        }
        (!paths.is_empty()).then_some(Job::Read(paths))
    }

    /// Applies the read of a path. Returns whether that is new to the mirror.
    pub fn read(&mut self, path: &Arc<str>, found: Option<(Vec<u8>, Stat)>, mirror: &mut Mirror) -> bool {
        let Entry::Occupied(mut entry) = self.pending.entry(path.clone()) else { return false };
        let walked = entry.get_mut().flying.take() == Some(Purpose::Walk);
        if entry.get().wanted.is_some() {
            self.queue.push_back(path.clone());
        } else {
            entry.remove();
        }
        if walked {
            self.left -= 1;
            if found.as_ref().is_some_and(|(_, stat)| stat.children > 0) {
                self.left += 1;
                self.lists.push_back(path.clone());
            }
        }
        mirror.apply(path, found, walked.then_some(self.walk))
    }

    /// Applies the list of a path's children.
    pub fn listed(&mut self, parent: &str, names: &[String], mirror: &Mirror) {
        self.left -= 1;
        let prefix = below(parent);
        for name in names {
            let path: Arc<str> = format!("{prefix}{name}").into();
            let known = mirror.walked(&path, self.walk)
                || self
                    .pending
                    .get(&path)
                    .is_some_and(|pending| pending.wanted.max(pending.flying) == Some(Purpose::Walk));
            if !known {
                self.want(&path, Purpose::Walk);
            }
        }
    }
}
