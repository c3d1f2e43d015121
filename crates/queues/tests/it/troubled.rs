//! A journal in trouble.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use menagerie_journal::{
    Append, Commit, Committed, Consumer, Fence, Journal as _, JournalError, Opened, PartitionId, Reply, Store,
};
use menagerie_queues::Journals;
use menagerie_testkit::{Interpose, Interposed};

use crate::world::{JOURNAL, World};

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// There is no answer to opening a partition.
    Silence,
    /// Opening a partition panics the first time.
    Panic,
    /// Messages that say "large" are too large.
    SmallLimit,
    /// Messages of more than 300 bytes are too large, and so are commits of more than two messages.
    SmallCommits,
    /// The disk is full.
    Full,
}

pub struct Troubled {
    trouble: Trouble,
    opened: AtomicBool,
}

impl Troubled {
    /// The world's journal, with this trouble.
    pub fn journals(world: &World, trouble: Trouble) -> Journals {
        let journal = Interposed::new(world.store(), Self { trouble, opened: AtomicBool::new(false) });
        Journals::from([(JOURNAL.to_owned(), Arc::new(journal) as _)])
    }
}

impl Interpose for Troubled {
    fn open<'a>(
        &'a self,
        store: &'a Store,
        partition: &'a PartitionId,
        consumer: &'a Consumer,
        fence: Fence,
    ) -> Reply<'a, Opened> {
        match self.trouble {
            Trouble::Silence => Box::pin(std::future::pending()),
            Trouble::Panic if !self.opened.swap(true, Ordering::Relaxed) => panic!("a bug"),
            Trouble::Panic | Trouble::SmallLimit | Trouble::SmallCommits | Trouble::Full => {
                store.open(partition, consumer, fence)
            }
        }
    }

    fn commit<'a>(&'a self, store: &'a Store, commit: Commit) -> Reply<'a, Committed> {
        let is_large = |append: &Append| &append.message.body[..] == b"large";
        let is_too_large = match self.trouble {
            Trouble::SmallLimit => commit.appends.iter().any(is_large),
            Trouble::SmallCommits => {
                commit.appends.len() > 2
                    || commit.appends.iter().any(|append| append.message.body.len() > 300)
            }
            Trouble::Silence | Trouble::Panic | Trouble::Full => false,
        };
        if is_too_large {
            let refused = JournalError::TooLarge { what: "a message".into(), size: 5, max: 4 };
            return Box::pin(async move { Err(refused) });
        }
        if self.trouble == Trouble::Full && !commit.appends.is_empty() {
            return Box::pin(async { Err(JournalError::DiskFull) });
        }
        store.commit(commit)
    }
}
