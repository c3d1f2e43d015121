//! Who holds, and who waits.

use super::Semaphore;
use super::error::SemaphoreError;
use super::mark::unmarked;
use crate::error::CallError;
use crate::recipes::contest::Dialect;
use crate::session::{Stat, Term};

/// A holder, as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The name of its znode.
    pub name: String,
    /// As given to [`Semaphore::identified_by`].
    pub identifier: String,
    /// Whether it survives a crash of its owner: a ticket.
    pub stays: bool,
    /// The transaction that let it in.
    pub zxid: i64,
}

/// A waiter, as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiter {
    /// The name of its znode.
    pub name: String,
    /// As given to [`Semaphore::identified_by`].
    pub identifier: String,
}

impl Semaphore {
    /// All holders, in the order in which they entered.
    pub async fn holders(&self) -> Result<Vec<Holder>, SemaphoreError> {
        let term = self.session.term().patient();
        term.sync(&self.dir).await.map_err(|error| self.call_error(error))?;
        self.holders_in(&term).await
    }

    /// All waiters, in order. The first of them may be about to enter.
    pub async fn waiters(&self) -> Result<Vec<Waiter>, SemaphoreError> {
        let term = self.session.term().patient();
        term.sync(&self.queue).await.map_err(|error| self.call_error(error))?;
        self.waiters_in(&term).await
    }

    pub(super) async fn holders_in(&self, term: &Term) -> Result<Vec<Holder>, SemaphoreError> {
        let names = self.children(term, &self.dir).await?;
        let found = self.read_all(term, &self.dir, names).await?;
        let mut holders: Vec<Holder> = found
            .into_iter()
            .map(|(name, data, stat)| {
                let (text, stays) = (String::from_utf8_lossy(&data), stat.ephemeral_owner == 0);
                let identifier = if stays { unmarked(&text) } else { &text };
                Holder { name, identifier: identifier.to_owned(), stays, zxid: stat.czxid }
            })
            .collect();
        holders.sort_by_key(|holder| holder.zxid);
        Ok(holders)
    }

    pub(super) async fn waiters_in(&self, term: &Term) -> Result<Vec<Waiter>, SemaphoreError> {
        let names = self.children(term, &self.queue).await?;
        let queue = Dialect::Kazoo.contenders(names.iter().map(String::as_str));
        let names = queue.into_iter().map(|contender| contender.name).collect();
        let found = self.read_all(term, &self.queue, names).await?;
        Ok(found
            .into_iter()
            .map(|(name, data, _)| Waiter { name, identifier: undressed(&String::from_utf8_lossy(&data)) })
            .collect())
    }

    async fn children(&self, term: &Term, path: &str) -> Result<Vec<String>, SemaphoreError> {
        match term.children(path).await {
            Err(CallError::NoZnode { .. }) => Ok(Vec::new()),
            names => names.map_err(|error| self.call_error(error)),
        }
    }

    /// Reads those that still exist.
    async fn read_all(
        &self,
        term: &Term,
        dir: &str,
        names: Vec<String>,
    ) -> Result<Vec<(String, Vec<u8>, Stat)>, SemaphoreError> {
        let paths: Vec<String> = names.iter().map(|name| format!("{dir}/{name}")).collect();
        let found = term.get_many(&paths).await.map_err(|error| self.call_error(error))?;
        Ok(names
            .into_iter()
            .zip(found)
            .filter_map(|(name, found)| found.map(|(data, stat)| (name, data, stat)))
            .collect())
    }
}

/// In the queue, kazoo's semaphore writes its identifier as Python prints bytes: `b'web-1'`.
fn undressed(identifier: &str) -> String {
    let quoted = identifier.strip_prefix("b'").and_then(|rest| rest.strip_suffix('\''));
    quoted.unwrap_or(identifier).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_of_python_are_shown_as_they_were_given() {
        assert_eq!(undressed("b'web-1'"), "web-1");
        assert_eq!(undressed("web-1"), "web-1");
    }
}
