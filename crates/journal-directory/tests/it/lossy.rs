//! A journal that loses replies.

use std::collections::VecDeque;
use std::sync::Mutex;

use menagerie_journal::{
    Commit, Committed, Consumer, Fence, Journal as _, JournalError, Opened, PartitionId, Reply, Store,
};
use menagerie_testkit::{Interpose, Interposed};

/// What happens to a commit, or to the open after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It happens, but the reply is lost.
    ReplyLost,
    /// It does not happen, and the reply is lost.
    RequestLost,
    /// It happens only after the next one.
    Late,
    /// The journal is down.
    Away,
    /// The journal never answers.
    Silent,
}

/// A bad connection to a store.
pub struct Lossy {
    faults: Mutex<VecDeque<Fault>>,
    late: Mutex<Option<Commit>>,
}

impl Lossy {
    /// Commits, and the opens that check them, meet these faults in turn; then all is well.
    pub fn before(store: &Store, faults: &[Fault]) -> Interposed<Self> {
        let faults = Mutex::new(faults.iter().copied().collect());
        Interposed::new(store, Self { faults, late: Mutex::default() })
    }

    fn fault(&self) -> Option<Fault> {
        self.faults.lock().unwrap().pop_front()
    }
}

fn unknown() -> JournalError {
    JournalError::Unknown("the line is bad".to_owned())
}

fn away() -> JournalError {
    JournalError::Unreachable { address: "here".to_owned(), why: "it is away".to_owned() }
}

impl Interpose for Lossy {
    fn open<'a>(
        &'a self,
        store: &'a Store,
        partition: &'a PartitionId,
        consumer: &'a Consumer,
        fence: Fence,
    ) -> Reply<'a, Opened> {
        let is_away = self.faults.lock().unwrap().front() == Some(&Fault::Away);
        if is_away {
            self.fault();
        }
        match is_away {
            true => Box::pin(async { Err(away()) }),
            false => store.open(partition, consumer, fence),
        }
    }

    fn commit<'a>(&'a self, store: &'a Store, commit: Commit) -> Reply<'a, Committed> {
        let fault = self.fault();
        Box::pin(async move {
            match fault {
                Some(Fault::ReplyLost) => {
                    store.commit(commit).await?;
                    Err(unknown())
                }
                Some(Fault::RequestLost) => Err(unknown()),
                Some(Fault::Late) => {
                    *self.late.lock().unwrap() = Some(commit);
                    Err(unknown())
                }
                Some(Fault::Away) => Err(away()),
                Some(Fault::Silent) => std::future::pending().await,
                None => {
                    let committed = store.commit(commit).await;
                    let late = self.late.lock().unwrap().take();
                    if let Some(late) = late {
                        store.commit(late).await?;
                    }
                    committed
                }
            }
        })
    }
}
