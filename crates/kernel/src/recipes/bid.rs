//! One contender of ours, from its creation to its end.

use menagerie_znodes::Kind;

use super::contest::{self, Contender, Dialect, Mode, Standing};
use super::grant::Grant;
use crate::error::CallError;
use crate::retry;
use crate::session::{Created, Term};
use crate::unique;

/// What to contend for, and how.
#[derive(Debug, Clone)]
pub(super) struct Contest {
    pub dir: String,
    pub dialect: Dialect,
    pub mode: Mode,
    pub identifier: Vec<u8>,
}

/// A contender. Dropping it withdraws it in the background.
#[derive(Debug)]
pub(super) struct Bid {
    term: Term,
    dir: String,
    dialect: Dialect,
    name: String,
    czxid: i64,
    /// It is known to be gone, so dropping has nothing to withdraw.
    over: bool,
}

/// The names in the directory, listed right after a contender was created in it.
#[derive(Debug)]
pub(super) struct SeenNames(Vec<String>);

/// When to list the directory for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstRead {
    /// Together with the creation: the server processes requests in order, so the list includes the contender and costs
    /// no extra round trip.
    Pipelined,
    /// After the creation. A contender that has to wait anyway gains nothing from an early list, and the server would
    /// answer it just when it should serve the next holder.
    AfterCreation,
}

/// A [`Standing`] that does not borrow the list of contenders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OwnedStanding {
    Holds,
    /// We wait for `nearest`. `first` is the first contender in the way, to report as the holder; it may itself be
    /// waiting.
    Waits {
        nearest: String,
        first: Contender,
        first_holds: bool,
    },
    Gone,
    Exhausted,
}

impl Bid {
    /// Creates a contender, and the directory if it is missing. Pass the names it returns to
    /// [`read_standing`](Self::read_standing).
    pub async fn place(
        term: &Term,
        contest: &Contest,
        first_read: FirstRead,
    ) -> Result<(Self, Option<SeenNames>), CallError> {
        let (term, dir) = (term.patient(), contest.dir.clone());
        let prefix = contest.dialect.prefix(contest.mode, &unique::hex());
        // From the first request on, being dropped must leave nothing behind.
        let mut attempt = Attempt { term, dir, prefix, over: false };
        let creating = attempt.create(&contest.identifier);
        let (created, seen) = match first_read {
            FirstRead::Pipelined => {
                let (created, seen) = tokio::join!(creating, attempt.term.children(&contest.dir));
                (created, seen.ok())
            }
            FirstRead::AfterCreation => (creating.await, None),
        };
        let created = created?;
        attempt.over = true;
        let name = created.path.trim_start_matches(&contest.dir).trim_start_matches('/').to_owned();
        // If the creation took more than one attempt, the list was too early.
        let seen = seen.filter(|names| names.contains(&name)).map(SeenNames);
        let bid = Self {
            term: attempt.term.clone(),
            dir: contest.dir.clone(),
            dialect: contest.dialect,
            name,
            czxid: created.stat.czxid,
            over: false,
        };
        Ok((bid, seen))
    }

    /// Reads where the contender stands. Any server that shows our contender also shows all that came before it, so the
    /// list is recent enough.
    pub async fn read_standing(&self, seen: Option<SeenNames>) -> Result<OwnedStanding, CallError> {
        let names = match seen {
            Some(SeenNames(names)) => names,
            None => match self.term.children(&self.dir).await {
                Err(CallError::NoZnode { .. }) => return Ok(OwnedStanding::Gone),
                names => names?,
            },
        };
        let all = self.dialect.contenders(names.iter().map(String::as_str));
        Ok(match contest::standing(&self.name, &all) {
            Standing::Holds => OwnedStanding::Holds,
            Standing::Gone => OwnedStanding::Gone,
            Standing::Exhausted => OwnedStanding::Exhausted,
            Standing::WaitsFor(nearest) => {
                let first = contest::first_in_the_way(&self.name, &all).unwrap_or(nearest).clone();
                let first_holds = all[..contest::holders(&all)].contains(&first);
                OwnedStanding::Waits { nearest: nearest.name.clone(), first, first_holds }
            }
        })
    }

    /// Waits until that contender is gone, or has changed.
    pub async fn wait_for(&self, other: &str) -> Result<(), CallError> {
        // Not an exists watch: on a deleted znode it would stay with the server for ever.
        match self.term.get_watched(&format!("{}/{other}", self.dir)).await {
            Ok((_, _, watch)) => {
                watch.changed().await;
                Ok(())
            }
            Err(CallError::NoZnode { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What the holder may do, once this contender holds.
    pub fn grant(&self) -> Grant {
        Grant::new(self.term.clone(), self.path(), self.term.fence(self.czxid))
    }

    /// Deletes the contender. `false`: it was gone before.
    pub async fn withdraw(mut self) -> Result<bool, CallError> {
        let (term, path) = (&self.term, &self.path());
        let gone = async || Ok(term.stat(path).await?.is_none().then_some(()));
        let withdrawn = match retry::resolve_ephemeral(term, || term.delete(path, None), gone).await {
            Ok(()) => true,
            Err(CallError::NoZnode { .. } | CallError::Expired) => false,
            Err(error) => return Err(error),
        };
        self.over = true;
        Ok(withdrawn)
    }

    /// Notes that a transaction has deleted the contender.
    pub fn spent(mut self) {
        self.over = true;
    }

    pub fn path(&self) -> String {
        format!("{}/{}", self.dir, self.name)
    }
}

impl Drop for Bid {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let (term, path) = (self.term.clone(), self.path());
        self.term.in_background(async move {
            // Fails only if the session is over, and then the contender is gone.
            let _ = retry::delete(&term, &path).await;
        });
    }
}

/// A contender that may exist. Dropping it before that is known finds and withdraws it in the background.
struct Attempt {
    term: Term,
    dir: String,
    prefix: String,
    over: bool,
}

impl Attempt {
    async fn create(&self, identifier: &[u8]) -> Result<Created, CallError> {
        let Self { term, dir, prefix, .. } = self;
        loop {
            match retry::create_unique(term, dir, prefix, identifier, Kind::EphemeralSequence).await {
                // Checking first would cost every caller a round trip, every time.
                Err(CallError::NoZnode { .. }) => retry::ensure(term, dir, b"").await?,
                created => return created,
            }
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let (term, dir, prefix) =
            (self.term.clone(), std::mem::take(&mut self.dir), std::mem::take(&mut self.prefix));
        self.term.in_background(async move {
            // Fails only if the session is over, and then the contender is gone.
            let _ = retry::withdraw(&term, &dir, &prefix).await;
        });
    }
}
