//! A party: who is there, as kazoo has it. For our own components there is [`membership`](super::membership), which says
//! more about each; a party is for Python programs and ours together.
//!
//! **It promises** that who has joined is listed as long as it is connected, again after its ZooKeeper session was lost, and
//! no more once it has left, or a session time-out after it has crashed. **It does not promise** that who is listed is alive
//! right now.
//!
//! # Layout in ZooKeeper
//! `DIR/<uuid>__party__`, ephemeral, with the identifier as data.
//!
//! ```no_run
//! # use menagerie_kernel::{Session, recipes::party::{Party, PartyError}};
//! # use menagerie_znodes::{Dir, Znode};
//! # async fn example(session: &Session, dir: Znode<Dir>) -> Result<(), PartyError> {
//! let party = Party::new(session, dir);
//! let guest = party.join("web-1").await?;
//! println!("here are {:?}", party.members().await?);
//! guest.leave().await?;
//! # Ok(())
//! # }
//! ```

use menagerie_znodes::{Dir, Znode};
use thiserror::Error;

use super::registration::{Naming, Registration};
use crate::error::{CallError, Remedy};
use crate::session::Session;

/// What tells members from whatever else is in the directory.
const MARK: &str = "__party__";

/// ZooKeeper said no.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot use party {path}")]
pub struct PartyError {
    /// Which party.
    pub path: String,
    /// What it said.
    pub source: CallError,
}

impl PartyError {
    /// What the caller may do.
    pub fn remedy(&self) -> Remedy {
        self.source.remedy()
    }
}

/// A party. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Party {
    session: Session,
    dir: String,
}

impl Party {
    /// The party in this directory.
    pub fn new(session: &Session, dir: Znode<Dir>) -> Self {
        Self { session: session.clone(), dir: dir.path().to_owned() }
    }

    /// Joins under this identifier, and stays: in every new ZooKeeper session, and when somebody removes our znode.
    pub async fn join(&self, identifier: &str) -> Result<Guest, PartyError> {
        let naming = Naming::Unique { suffix: MARK };
        let data = identifier.as_bytes().to_vec();
        let registration = Registration::begin(&self.session, &self.dir, naming, data).await;
        let registration = registration.map_err(|source| self.failed(source))?;
        Ok(Guest { registration, party: self.clone() })
    }

    /// The identifiers of all who are there, in the order in which they came.
    pub async fn members(&self) -> Result<Vec<String>, PartyError> {
        let members = async {
            let term = self.session.term().patient();
            term.sync(&self.dir).await?;
            let names = match term.children(&self.dir).await {
                Err(CallError::NoZnode { .. }) => return Ok(Vec::new()),
                names => names?,
            };
            let members = names.iter().filter(|name| name.contains(MARK));
            let paths: Vec<String> = members.map(|name| format!("{}/{name}", self.dir)).collect();
            let mut found: Vec<_> = term.get_many(&paths).await?.into_iter().flatten().collect();
            found.sort_by_key(|(_, stat)| stat.czxid);
            Ok(found.into_iter().map(|(data, _)| String::from_utf8_lossy(&data).into_owned()).collect())
        };
        members.await.map_err(|source| self.failed(source))
    }

    fn failed(&self, source: CallError) -> PartyError {
        PartyError { path: self.dir.clone(), source }
    }
}

/// We are there. Dropped, we leave in the background.
#[derive(Debug)]
#[must_use = "dropped, it leaves"]
pub struct Guest {
    registration: Registration,
    party: Party,
}

impl Guest {
    /// Where we are listed now; `None` between two sessions.
    pub fn path(&self) -> Option<String> {
        self.registration.path()
    }

    /// Is listed no more.
    pub async fn leave(self) -> Result<(), PartyError> {
        let Self { registration, party } = self;
        registration.leave().await.map_err(|source| party.failed(source))
    }
}
