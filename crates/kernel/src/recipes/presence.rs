//! Presence: one znode with a name of our choice that says that we are here, and what we are doing.
//!
//! **It promises** that the znode is there as long as we are connected, with what we last said; that it is made again in
//! every new ZooKeeper session and when somebody removes it; and that a name that another session still has, be it of
//! somebody called the same who is gone, is waited for and never taken from it. **It does not promise** that who is there is
//! alive right now.
//!
//! ```no_run
//! # use menagerie_kernel::{Session, recipes::presence::{Presence, PresenceError}};
//! # use menagerie_znodes::{Text, Znode};
//! # async fn example(session: &Session, znode: Znode<Text>) -> Result<(), PresenceError> {
//! let presence = Presence::begin(session, &znode, &Text("idle".to_owned())).await?;
//! presence.say(&Text("busy".to_owned()));
//! presence.leave().await?;
//! # Ok(())
//! # }
//! ```

use std::marker::PhantomData;

use menagerie_znodes::{Payload, Znode};
use thiserror::Error;

use super::registration::{Naming, Registration};
use crate::error::{CallError, Remedy};
use crate::session::Session;

/// ZooKeeper said no.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot be present at {path}")]
pub struct PresenceError {
    /// Where.
    pub path: String,
    /// What it said.
    pub source: CallError,
}

impl PresenceError {
    /// What the caller may do.
    pub fn remedy(&self) -> Remedy {
        self.source.remedy()
    }
}

/// We are here. Dropped, we leave in the background.
#[derive(Debug)]
#[must_use = "dropped, it leaves"]
pub struct Presence<T> {
    registration: Registration,
    path: String,
    says: PhantomData<fn(T)>,
}

impl<T: Payload> Presence<T> {
    /// Waits until the name is free, takes it, and keeps it.
    pub async fn begin(session: &Session, znode: &Znode<T>, payload: &T) -> Result<Self, PresenceError> {
        let path = znode.path().to_owned();
        let (dir, name) = path.rsplit_once('/').unwrap_or_default();
        let naming = Naming::Fixed { name: name.to_owned() };
        match Registration::begin(session, dir, naming, payload.encode()).await {
            Ok(registration) => Ok(Self { registration, path, says: PhantomData }),
            Err(source) => Err(PresenceError { path, source }),
        }
    }

    /// Says something else from now on. It is stored as soon as can be, in whichever session that is; of several, the last.
    pub fn say(&self, payload: &T) {
        self.registration.want(payload.encode());
    }

    /// Whether the znode is there, as far as we know.
    pub fn is_there(&self) -> bool {
        self.registration.path().is_some()
    }

    /// Is there no more.
    pub async fn leave(self) -> Result<(), PresenceError> {
        let Self { registration, path, .. } = self;
        registration.leave().await.map_err(|source| PresenceError { path, source })
    }
}
