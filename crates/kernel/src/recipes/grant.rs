//! What a holder may do while it holds, for every recipe with a ticket: locks, elections and the like.

use std::future::{Future, pending};

use tokio::sync::watch;

use crate::Fence;
use crate::clock::Moment;
use crate::error::CallError;
use crate::session::{State, Term};
use crate::transaction::Transaction;

/// Why a holder holds no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The lease clock has run out: from now on somebody else may hold it. The server may still think that we do.
    Lapsed,
    /// The ZooKeeper session is over.
    Expired,
    /// Somebody removed our ticket, or it was released.
    Removed,
}

/// Access to what is held under a ticket. Cheap to clone. It does not release: the guard that it came from does, and
/// from then on all writes through it are refused.
#[derive(Debug, Clone)]
pub struct Grant {
    term: Term,
    ticket: String,
    fence: Fence,
}

impl Grant {
    pub(crate) fn new(term: Term, ticket: String, fence: Fence) -> Self {
        Self { term, ticket, fence }
    }

    /// The token for systems outside of ZooKeeper: pass it along, and let the far side refuse an older one.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// The path of the ticket. Its name is never used again.
    pub fn ticket(&self) -> &str {
        &self.ticket
    }

    /// The ZooKeeper session that owns the ticket.
    pub fn term(&self) -> &Term {
        &self.term
    }

    /// A transaction whose writes happen only if the ticket still exists.
    pub fn transaction(&self) -> Transaction {
        Transaction::fenced(&self.term, &self.ticket)
    }

    /// Until when nobody else can hold it, unless somebody removes the ticket by hand. It moves forward as long as the
    /// server answers.
    pub fn valid_until(&self) -> watch::Receiver<Moment> {
        self.term.valid_until()
    }

    /// Whether at this moment nobody else can hold it, unless somebody removed the ticket by hand. Check it right before
    /// anything that begins under it outside of ZooKeeper.
    pub fn is_valid(&self) -> bool {
        self.term.is_valid()
    }

    /// Waits until it is lost. Work under it must have ended by then.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        let (term, ticket) = (self.term.patient(), self.ticket.clone());
        async move {
            tokio::select! {
                () = term.lapsed() => match *term.state().borrow() {
                    State::Lost => Loss::Expired,
                    State::Connected | State::Suspended => Loss::Lapsed,
                },
                () = removed(&term, &ticket) => Loss::Removed,
            }
        }
    }
}

/// Waits until a znode is gone. If that cannot be found out it waits for ever: the lease clock decides then.
async fn removed(term: &Term, path: &str) {
    loop {
        // Not an exists watch: on a deleted znode it would stay with the server for ever.
        match term.get_watched(path).await {
            Ok((_, _, watch)) => drop(watch.changed().await),
            Err(CallError::NoZnode { .. }) => return,
            Err(_) => pending().await,
        }
    }
}
