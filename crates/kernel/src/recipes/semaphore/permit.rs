//! Permits and tickets.

use std::ops::Deref;

use menagerie_znodes::Name;
use menagerie_znodes::quote::unquote;

use super::Semaphore;
use super::acquire::HolderZnode;
use super::error::SemaphoreError;
use super::mark::{is_marked, remarked};
use crate::Fence;
use crate::error::CallError;
use crate::recipes::grant::Grant;
use crate::retry;
use crate::session::{Session, Stat, Term};
use crate::transaction::Transaction;

/// A holder znode of ours, which may exist. Dropping it while it is armed deletes the znode in the background.
#[derive(Debug)]
pub(super) struct Claim {
    semaphore: Semaphore,
    term: Term,
    path: String,
    name: String,
    stays: bool,
    mark: String,
    armed: bool,
}

impl Claim {
    pub fn new(semaphore: &Semaphore, term: &Term, holder: &HolderZnode) -> Self {
        Self {
            semaphore: semaphore.clone(),
            term: term.clone(),
            path: semaphore.path_of(&holder.name),
            name: holder.name.clone(),
            stays: holder.kind == menagerie_znodes::Kind::Persistent,
            mark: holder.mark.clone(),
            armed: false,
        }
    }

    /// From now on the znode may exist.
    pub fn arm(&mut self) {
        self.armed = true;
    }

    /// The znode is known not to exist; one of that name may be somebody else's.
    pub fn disarm(&mut self) {
        self.armed = false;
    }

    /// The znode exists: we hold.
    pub fn admit(self, stat: Stat) -> Admission {
        let fence = self.term.fence(stat.czxid);
        Admission { claim: self, fence }
    }

    /// Deletes the znode. `false`: it was gone before.
    async fn take_back(&mut self) -> Result<bool, CallError> {
        let (term, path) = (&self.term, &self.path);
        let gone = async || Ok(term.stat(path).await?.is_none().then_some(()));
        let taken = match retry::resolve_ephemeral(term, || term.delete(path, None), gone).await {
            Ok(()) => true,
            Err(CallError::NoZnode { .. } | CallError::Expired) => false,
            Err(error) => return Err(error),
        };
        self.armed = false;
        Ok(taken)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let (term, path) = (self.term.clone(), std::mem::take(&mut self.path));
        if !self.stays {
            self.term.in_background(async move {
                // The transaction that creates it may still be in flight.
                if term.sync("/").await.is_ok() {
                    let _ = retry::delete(&term, &path).await;
                }
            });
            return;
        }
        // Whoever took it up meanwhile has written its own mark, and relies on the ticket.
        let (session, own) = (self.semaphore.session.clone(), Own::Marked(std::mem::take(&mut self.mark)));
        self.term.in_background(async move {
            // Fails only if the session was closed, and nothing more can be done.
            let _ = delete_in_any_term(&session, &path, &own).await;
        });
    }
}

/// Identifies one of the znodes that may have had the name one after the other.
enum Own {
    /// The one with this mark.
    Marked(String),
    /// The one that this transaction created.
    Created(i64),
}

impl Own {
    fn is(&self, data: &[u8], stat: &Stat) -> bool {
        match self {
            Self::Marked(mark) => is_marked(data, mark),
            Self::Created(zxid) => stat.czxid == *zxid,
        }
    }
}

/// Deletes a persistent holder znode, and spares one that somebody else has created in its place.
async fn delete_in_any_term(session: &Session, path: &str, own: &Own) -> Result<(), CallError> {
    session.across_terms(|term| async move { delete_own(&term.patient(), path, own).await }).await
}

async fn delete_own(term: &Term, path: &str, own: &Own) -> Result<(), CallError> {
    loop {
        // The creation may still be in flight, or this server may lag.
        term.sync("/").await?;
        let version = match term.get(path).await {
            Ok((data, stat)) if own.is(&data, &stat) => stat.version,
            Ok(_) | Err(CallError::NoZnode { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        match term.delete(path, Some(version)).await {
            Ok(()) | Err(CallError::NoZnode { .. }) => return Ok(()),
            // Ours may be gone by now, and another one in its place.
            Err(CallError::Unknown { .. } | CallError::BadVersion { .. } | CallError::Suspended) => {}
            Err(error) => return Err(error),
        }
    }
}

/// We hold: to be turned into a permit or a ticket.
#[derive(Debug)]
pub(super) struct Admission {
    claim: Claim,
    fence: Fence,
}

impl Admission {
    pub fn into_permit(mut self) -> Permit {
        self.claim.armed = true;
        let grant = Grant::new(self.claim.term.clone(), self.claim.path.clone(), self.fence);
        Permit { grant, claim: self.claim }
    }

    pub fn into_ticket(mut self) -> Ticket {
        // A ticket outlives us.
        self.claim.armed = false;
        let (session, path) = (self.claim.semaphore.session.clone(), self.claim.path.clone());
        let name = unquote(&self.claim.name).and_then(|name| Name::new(name).ok());
        let name = name.expect("it was made from a name");
        Ticket { semaphore: self.claim.semaphore.clone(), session, path, name, fence: self.fence }
    }
}

/// A permit that lives as long as its ZooKeeper session. See [`Grant`] for what can be done under it. Dropping it
/// releases it in the background, and nobody learns whether it had been lost.
#[derive(Debug)]
#[must_use = "dropped, it is released"]
pub struct Permit {
    grant: Grant,
    claim: Claim,
}

impl Permit {
    /// Releases the permit; when this returns, the next waiter can enter. An error means that it was lost before, or
    /// that the outcome is unknown yet and the release goes on in the background.
    pub async fn release(mut self) -> Result<(), SemaphoreError> {
        match self.claim.take_back().await {
            Ok(true) => Ok(()),
            Ok(false) => Err(SemaphoreError::Lost { path: self.claim.semaphore.dir.clone() }),
            Err(error) => Err(self.claim.semaphore.call_error(error)),
        }
    }

    /// A grant for others that work under this permit. It does not release.
    pub fn grant(&self) -> Grant {
        self.grant.clone()
    }
}

impl Deref for Permit {
    type Target = Grant;

    fn deref(&self) -> &Grant {
        &self.grant
    }
}

/// A permit that lasts until it is released: by us, by whoever takes up its name, or by force. Dropping it releases
/// nothing.
#[derive(Debug, Clone)]
pub struct Ticket {
    semaphore: Semaphore,
    session: Session,
    path: String,
    name: Name,
    fence: Fence,
}

impl Ticket {
    /// The name under which it can be taken up again.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The token for systems outside of ZooKeeper. Whoever takes up the ticket has the same.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// A transaction whose writes happen only if the ticket still exists.
    pub fn transaction(&self) -> Transaction {
        Transaction::fenced(&self.session.term(), &self.path)
    }

    /// Waits until somebody has released it; through as many sessions as it takes, because it outlives them.
    pub async fn lost(&self) -> Result<(), SemaphoreError> {
        let lost = self.session.across_terms(|term| async move { self.lost_in(&term.patient()).await });
        lost.await.map_err(|error| self.semaphore.call_error(error))
    }

    async fn lost_in(&self, term: &Term) -> Result<(), CallError> {
        loop {
            match term.get_watched(&self.path).await {
                Ok((_, stat, watch)) if stat.czxid == self.fence.zxid => drop(watch.changed().await),
                Ok(_) | Err(CallError::NoZnode { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Releases the ticket. One that somebody else has acquired under this name since is left alone.
    pub async fn release(self) -> Result<(), SemaphoreError> {
        let own = Own::Created(self.fence.zxid);
        let released = delete_in_any_term(&self.session, &self.path, &own).await;
        released.map_err(|error| self.semaphore.call_error(error))
    }
}

impl Semaphore {
    /// A ticket that was acquired before, perhaps by us before a crash.
    pub(super) async fn taken_before(
        &self,
        term: &Term,
        holder: &HolderZnode,
    ) -> Result<Option<Admission>, SemaphoreError> {
        let look = async {
            term.sync(&self.dir).await?;
            self.take_up(term, holder).await
        };
        let stat = look.await.map_err(|error| self.call_error(error))?;
        Ok(stat.map(|stat| Claim::new(self, term, holder).admit(stat)))
    }

    /// Takes up the existing ticket of this name; `None` if there is none. Its creator may have given up and be about
    /// to delete it, so we replace its mark with ours: it deletes only a ticket with its own mark.
    pub(super) async fn take_up(&self, term: &Term, holder: &HolderZnode) -> Result<Option<Stat>, CallError> {
        let path = self.path_of(&holder.name);
        loop {
            let (data, stat) = match term.get(&path).await {
                Err(CallError::NoZnode { .. }) => return Ok(None),
                found => found?,
            };
            if is_marked(&data, &holder.mark) {
                return Ok(Some(stat));
            }
            match term.set(&path, &remarked(&data, &holder.mark), Some(stat.version)).await {
                Ok(stat) => return Ok(Some(stat)),
                Err(CallError::NoZnode { .. }) => return Ok(None),
                // Somebody else takes it up or deletes it at the same time: one of us was faster.
                Err(CallError::BadVersion { .. } | CallError::Suspended) => {}
                Err(CallError::Unknown { .. }) => term.sync(&self.dir).await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// The ticket of this name, if there is one.
    pub async fn ticket(&self, name: &Name) -> Result<Option<Ticket>, SemaphoreError> {
        let admission =
            self.taken_before(&self.session.term().patient(), &HolderZnode::persistent(name)).await?;
        Ok(admission.map(Admission::into_ticket))
    }

    /// Revokes a holder, by the name that [`holders`](Self::holders) shows, after a person has decided that it is dead.
    /// A live holder of ours learns it ([`Grant::lost`]), and its writes are refused. `false`: there was none.
    pub async fn revoke(&self, name: &str) -> Result<bool, SemaphoreError> {
        let term = self.session.term().patient();
        let path = self.path_of(name);
        let revoke = async {
            term.sync(&self.dir).await?;
            if name.contains('/') || term.stat(&path).await?.is_none() {
                return Ok(false);
            }
            retry::delete(&term, &path).await?;
            Ok(true)
        };
        revoke.await.map_err(|error| self.call_error(error))
    }
}
