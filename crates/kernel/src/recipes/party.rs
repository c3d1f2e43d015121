//! A party, compatible with kazoo's: who is there. Our own components use [`membership`](super::membership), which says
//! more about each; a party is shared with Python programs.
//!
//! **It promises** that a member is listed while it is connected, again after its ZooKeeper session was lost, and no
//! longer once it has left, or a session time-out after it has crashed. **It does not promise** that a listed member is
//! alive right now.
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

/// The suffix that marks members among other znodes in the directory.
const MARK: &str = "__party__";

/// A call to ZooKeeper failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot use party {path}")]
#[allow(missing_docs, reason = "the fields of errors name themselves")]
pub struct PartyError {
    pub path: String,
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
        let registration = registration.map_err(|source| self.call_error(source))?;
        Ok(Guest { registration, party: self.clone() })
    }

    /// The identifiers of all members, oldest first.
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
        members.await.map_err(|source| self.call_error(source))
    }

    fn call_error(&self, source: CallError) -> PartyError {
        PartyError { path: self.dir.clone(), source }
    }
}

/// Our membership. Dropping it leaves in the background.
#[derive(Debug)]
#[must_use = "dropped, it leaves"]
pub struct Guest {
    registration: Registration,
    party: Party,
}

impl Guest {
    /// The path of our znode; `None` between two sessions.
    pub fn path(&self) -> Option<String> {
        self.registration.path()
    }

    /// Leaves the party.
    pub async fn leave(self) -> Result<(), PartyError> {
        let Self { registration, party } = self;
        registration.leave().await.map_err(|source| party.call_error(source))
    }
}
