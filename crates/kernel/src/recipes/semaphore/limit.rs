//! The limit: stored once, and agreed.

use super::Semaphore;
use super::decide::{Limit, NoLimit, parse};
use super::error::SemaphoreError;
use crate::error::CallError;
use crate::retry;
use crate::session::Term;

impl Semaphore {
    /// The limit that is stored; `None` if there is none yet.
    pub async fn limit(&self) -> Result<Option<Limit>, SemaphoreError> {
        let term = self.session.term().patient();
        let look = async {
            term.sync(&self.dir).await?;
            term.get(&self.dir).await
        };
        match look.await {
            Ok((data, stat)) => match parse(&data) {
                Ok(permits) => Ok(Some(Limit { permits, version: stat.version })),
                Err(NoLimit::Nothing) => Ok(None),
                Err(NoLimit::Unreadable(stored)) => Err(self.unreadable(stored)),
            },
            Err(CallError::NoZnode { .. }) => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Changes the limit, if it is still the one that was `seen`. Who holds a permit keeps it; when there are more holders
    /// than permits now, nobody is let in until there are fewer. Whoever of ours waits goes by the new limit at once; kazoo
    /// asks only when it comes, so Python programs must be started again.
    pub async fn set_limit(&self, seen: Limit, permits: u32) -> Result<Limit, SemaphoreError> {
        let term = self.session.term().patient();
        let data = permits.to_string().into_bytes();
        match retry::set(&term, &self.dir, &data, seen.version).await {
            Ok(stat) => Ok(Limit { permits, version: stat.version }),
            Err(CallError::BadVersion { .. }) => Err(self.moved()),
            // Whoever wrote it: if it is what we want, nothing is left to do.
            Err(CallError::Unknown { .. }) => match self.limit().await? {
                Some(limit) if limit.permits == permits => Ok(limit),
                _ => Err(self.moved()),
            },
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Makes sure that there is a limit, and the first time that it is the one that we were told.
    pub(super) async fn agree(&self, term: &Term) -> Result<(), SemaphoreError> {
        // A server that is behind could show a limit that was changed long ago, and we would complain about it.
        term.sync(&self.dir).await.map_err(|error| self.failed(error))?;
        loop {
            let (stored, version) = match term.get(&self.dir).await {
                Ok((data, stat)) => (parse(&data), stat.version),
                Err(CallError::NoZnode { .. }) => {
                    let wanted = self.wanted.ok_or_else(|| self.no_limit())?.to_string();
                    let made = retry::ensure(term, &self.dir, wanted.as_bytes()).await;
                    made.map_err(|error| self.failed(error))?;
                    continue;
                }
                Err(error) => return Err(self.failed(error)),
            };
            match (stored, self.wanted) {
                (Ok(stored), Some(wanted)) if stored != wanted && !self.agreed() => {
                    return Err(SemaphoreError::LimitDisagrees { path: self.dir.clone(), stored, wanted });
                }
                (Ok(_), _) => {
                    self.set_agreed();
                    return Ok(());
                }
                (Err(NoLimit::Unreadable(stored)), _) => return Err(self.unreadable(stored)),
                (Err(NoLimit::Nothing), None) => return Err(self.no_limit()),
                (Err(NoLimit::Nothing), Some(wanted)) => self.fill_in(term, wanted, version).await?,
            }
        }
    }

    /// Writes the limit where kazoo, or whoever made the directory, has written none; only if it is still so.
    async fn fill_in(&self, term: &Term, wanted: u32, version: i32) -> Result<(), SemaphoreError> {
        match retry::set(term, &self.dir, wanted.to_string().as_bytes(), version).await {
            // Whoever was faster: what is there now decides.
            Ok(_)
            | Err(CallError::BadVersion { .. } | CallError::NoZnode { .. } | CallError::Unknown { .. }) => {
                Ok(())
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    fn moved(&self) -> SemaphoreError {
        SemaphoreError::LimitMoved { path: self.dir.clone() }
    }

    pub(super) fn no_limit(&self) -> SemaphoreError {
        SemaphoreError::NoLimit { path: self.dir.clone() }
    }

    pub(super) fn unreadable(&self, stored: String) -> SemaphoreError {
        SemaphoreError::LimitUnreadable { path: self.dir.clone(), stored }
    }
}
