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

/// A contender. Dropped, it is withdrawn in the background.
#[derive(Debug)]
pub(super) struct Bid {
    term: Term,
    dir: String,
    dialect: Dialect,
    name: String,
    czxid: i64,
    /// It is known to be gone.
    over: bool,
}

/// The directory, seen right after a contender was created in it.
#[derive(Debug)]
pub(super) struct Seen(Vec<String>);

/// When to look for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstLook {
    /// Along with the creation: the server takes one request after the other, so it sees the contender, and costs no round trip.
    Along,
    /// After it. Who has to wait anyway gains nothing by looking along, and the server answers then just when the next holder
    /// wants to be served.
    After,
}

/// Where we stand, without a borrow of the whole directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Holds,
    /// Behind the nearest; the first in the way is whom to name, and may itself be waiting for others.
    Waits {
        nearest: String,
        first: Contender,
        first_holds: bool,
    },
    Gone,
    Exhausted,
}

impl Bid {
    /// Creates a contender, and the directory if there is none. What was seen along with that is for [`look`](Self::look).
    pub async fn place(
        term: &Term,
        contest: &Contest,
        first_look: FirstLook,
    ) -> Result<(Self, Option<Seen>), CallError> {
        let (term, dir) = (term.patient(), contest.dir.clone());
        let prefix = contest.dialect.prefix(contest.mode, &unique::hex());
        // From the first request on, being dropped must leave nothing behind.
        let mut attempt = Attempt { term, dir, prefix, over: false };
        let creating = attempt.create(&contest.identifier);
        let (created, seen) = match first_look {
            FirstLook::Along => {
                let (created, seen) = tokio::join!(creating, attempt.term.children(&contest.dir));
                (created, seen.ok())
            }
            FirstLook::After => (creating.await, None),
        };
        let created = created?;
        attempt.over = true;
        let name = created.path.trim_start_matches(&contest.dir).trim_start_matches('/').to_owned();
        // If the creation took more than one attempt, the look was too early.
        let seen = seen.filter(|names| names.contains(&name)).map(Seen);
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

    /// Looks where it stands. What the server shows is new enough: it has our contender, so also all that came before it.
    pub async fn look(&self, seen: Option<Seen>) -> Result<Place, CallError> {
        let names = match seen {
            Some(Seen(names)) => names,
            None => match self.term.children(&self.dir).await {
                Err(CallError::NoZnode { .. }) => return Ok(Place::Gone),
                names => names?,
            },
        };
        let all = self.dialect.contenders(names.iter().map(String::as_str));
        Ok(match contest::standing(&self.name, &all) {
            Standing::Holds => Place::Holds,
            Standing::Gone => Place::Gone,
            Standing::Exhausted => Place::Exhausted,
            Standing::WaitsFor(nearest) => {
                let first = contest::first_in_the_way(&self.name, &all).unwrap_or(nearest).clone();
                let first_holds = all[..contest::holders(&all)].contains(&first);
                Place::Waits { nearest: nearest.name.clone(), first, first_holds }
            }
        })
    }

    /// Waits until that contender is gone, or at least something has happened to it.
    pub async fn wait_for(&self, other: &str) -> Result<(), CallError> {
        // Not a watch for existence: on a znode that is gone it would stay with the server for ever.
        match self.term.get_watched(&format!("{}/{other}", self.dir)).await {
            Ok((_, _, watch)) => {
                watch.changed().await;
                Ok(())
            }
            Err(CallError::NoZnode { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What is held under it, once it holds.
    pub fn grant(&self) -> Grant {
        Grant::new(self.term.clone(), self.path(), self.term.fence(self.czxid))
    }

    /// Takes it back. `false`: it was gone before.
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

    /// A transaction has deleted it.
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
            // It fails only with the session, which takes the contender along.
            let _ = retry::delete(&term, &path).await;
        });
    }
}

/// A contender that perhaps exists. Dropped before that is known, it is looked for and withdrawn in the background.
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
                // To look first would cost everybody a round trip, every time.
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
            // It fails only with the session, which takes the contender along.
            let _ = retry::withdraw(&term, &dir, &prefix).await;
        });
    }
}
