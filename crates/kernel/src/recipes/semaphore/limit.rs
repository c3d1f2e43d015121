//! The limit: stored once, and agreed on by all contenders.

use super::Semaphore;
use super::decide::{Limit, NoLimit, parse};
use super::error::SemaphoreError;
use crate::error::CallError;
use crate::retry;
use crate::session::Term;

impl Semaphore {
    /// The stored limit; `None` if there is none yet.
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
            Err(error) => Err(self.call_error(error)),
        }
    }

    /// Changes the limit, if it is still the one that was `seen`. Holders keep their permits; if there are more of them
    /// than the new limit allows, nobody enters until there are fewer. Our own waiters follow the new limit at once;
    /// kazoo reads it only at the start, so Python programs must be restarted.
    pub async fn set_limit(&self, seen: Limit, permits: u32) -> Result<Limit, SemaphoreError> {
        let term = self.session.term().patient();
        let data = permits.to_string().into_bytes();
        match retry::set(&term, &self.dir, &data, seen.version).await {
            Ok(stat) => Ok(Limit { permits, version: stat.version }),
            Err(CallError::BadVersion { .. }) => Err(self.moved()),
            // Whoever wrote it: if it is the wanted limit, nothing is left to do.
            Err(CallError::Unknown { .. }) => match self.limit().await? {
                Some(limit) if limit.permits == permits => Ok(limit),
                _ => Err(self.moved()),
            },
            Err(error) => Err(self.call_error(error)),
        }
    }

    /// Makes sure that a limit is stored and, the first time, that it is the configured one.
    pub(super) async fn agree(&self, term: &Term) -> Result<(), SemaphoreError> {
        // A lagging server could show a limit that was changed long ago, and we would report a disagreement.
        term.sync(&self.dir).await.map_err(|error| self.call_error(error))?;
        loop {
            let (stored, version) = match term.get(&self.dir).await {
                Ok((data, stat)) => (parse(&data), stat.version),
                Err(CallError::NoZnode { .. }) => {
                    let wanted = self.wanted.ok_or_else(|| self.no_limit())?.to_string();
                    let made = retry::ensure(term, &self.dir, wanted.as_bytes()).await;
                    made.map_err(|error| self.call_error(error))?;
                    continue;
                }
                Err(error) => return Err(self.call_error(error)),
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

    /// Writes the limit into a directory that has none, unless somebody else was faster.
    async fn fill_in(&self, term: &Term, wanted: u32, version: i32) -> Result<(), SemaphoreError> {
        match retry::set(term, &self.dir, wanted.to_string().as_bytes(), version).await {
            // Whoever was faster: the stored limit decides.
            Ok(_)
            | Err(CallError::BadVersion { .. } | CallError::NoZnode { .. } | CallError::Unknown { .. }) => {
                Ok(())
            }
            Err(error) => Err(self.call_error(error)),
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
