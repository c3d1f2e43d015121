//! Leaving. `decide` makes the decisions.

use menagerie_znodes::{Kind, Raw, Znode};

use super::decide::{Leaving, Opening, is_of_my_round, leaving, round};
use super::{DoubleBarrier, DoubleBarrierError, Inside, Presence, READY};
use crate::Fence;
use crate::error::CallError;
use crate::session::Term;
use crate::transaction::{Transaction, TransactionError};

impl Inside {
    /// Waits until all others leave, have crashed or were never in. If the ZooKeeper session ends meanwhile, we are
    /// out, and still wait for the others.
    pub async fn leave(self) -> Result<(), DoubleBarrierError> {
        let Self { grant, mut presence, barrier } = self;
        let mut round: Option<Vec<String>> = None;
        let mut terms = barrier.session.term_by_term();
        loop {
            let term = terms.term().patient();
            // The server may learn later than we do that our session is over, and the others would wait for that.
            presence.term = term.clone();
            let left = barrier.leave_in(&term, grant.fence(), &mut presence, &mut round).await;
            if let Some(left) = terms.finished(left).await {
                return left.map_err(|error| barrier.call_error(error));
            }
        }
    }
}

impl DoubleBarrier {
    /// `round`: the participants of our round that were there when we began to leave. Others belong to the next round.
    async fn leave_in(
        &self,
        term: &Term,
        me: Fence,
        presence: &mut Presence,
        round: &mut Option<Vec<String>>,
    ) -> Result<(), CallError> {
        let round = match round {
            Some(round) => round,
            None => round.insert(self.begin_to_leave(term, me).await?),
        };
        term.sync(&self.dir).await?;
        loop {
            let names = match term.children(&self.dir).await {
                Err(CallError::NoZnode { .. }) => Vec::new(),
                names => names?,
            };
            let there: Vec<String> = names.into_iter().filter(|name| round.contains(name)).collect();
            match leaving(&presence.name, &there) {
                Leaving::Out => {
                    presence.over = true;
                    return Ok(());
                }
                Leaving::TakeBack => presence.end().await?,
                Leaving::WaitFor(other) => match term.get_watched(&self.path_of(other)).await {
                    Ok((_, _, watch)) => drop(watch.changed().await),
                    Err(CallError::NoZnode { .. }) => {}
                    Err(error) => return Err(error),
                },
            }
        }
    }

    /// Deletes the `ready` znode of our round, and returns who of the round is still there.
    async fn begin_to_leave(&self, term: &Term, me: Fence) -> Result<Vec<String>, CallError> {
        loop {
            term.sync(&self.dir).await?;
            let (data, dir, names) = match tokio::try_join!(term.get(&self.dir), term.children(&self.dir)) {
                Err(CallError::NoZnode { .. }) => return Ok(Vec::new()),
                looked => looked.map(|((data, dir), names)| (data, dir, names))?,
            };
            let paths: Vec<String> = names.iter().map(|name| self.path_of(name)).collect();
            let found = term.get_many(&paths).await?;
            let found = names.into_iter().zip(found);
            let there: Vec<(String, i64)> =
                found.filter_map(|(name, found)| Some((name, found?.1.czxid))).collect();
            let (ready, there): (Vec<_>, Vec<_>) = there.into_iter().partition(|(name, _)| name == READY);
            let opened = Opening::parse(&data);
            if ready.iter().all(|(_, ready)| !is_of_my_round(me, opened, dir.mzxid, *ready))
                || self.take_down(term, dir.version).await?
            {
                return Ok(round(me, opened, there));
            }
        }
    }

    /// Deletes the `ready` znode, unless the barrier was opened since. `false`: read again.
    async fn take_down(&self, term: &Term, version: i32) -> Result<bool, CallError> {
        let ready: Znode<Raw> = Znode::foreign(self.path_of(READY), Kind::Persistent);
        let dir: Znode<Raw> = Znode::foreign(self.dir.as_str(), Kind::Persistent);
        let removal = Transaction::new(term).check(&dir, Some(version)).delete(&ready, None);
        match removal.commit().await {
            Ok(_) => Ok(true),
            Err(TransactionError::Part { source, .. } | TransactionError::Call(source)) => match source {
                CallError::NoZnode { .. } | CallError::BadVersion { .. } | CallError::Unknown { .. } => {
                    Ok(false)
                }
                error => Err(error),
            },
            Err(TransactionError::Lost { ticket }) => Err(CallError::NoZnode { path: ticket }),
        }
    }
}
