//! Presence: one ephemeral znode with a fixed name, which shows that we are here and what we are doing.
//!
//! **It promises** that the znode exists while we are connected, with what we published last; that it is created again
//! in every new ZooKeeper session and when somebody removes it; and that it waits for a name that another session still
//! has, and never takes it away, even if that session's program is gone. **It does not promise** that whoever is
//! present is alive right now.
//!
//! ```no_run
//! # use menagerie_kernel::{Session, recipes::presence::{Presence, PresenceError}};
//! # use menagerie_znodes::{Text, Znode};
//! # async fn example(session: &Session, znode: Znode<Text>) -> Result<(), PresenceError> {
//! let presence = Presence::begin(session, &znode, &Text("idle".to_owned())).await?;
//! presence.publish(&Text("busy".to_owned()));
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

/// A call to ZooKeeper failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot be present at {path}")]
#[allow(missing_docs, reason = "the fields of errors name themselves")]
pub struct PresenceError {
    pub path: String,
    pub source: CallError,
}

impl PresenceError {
    /// What the caller may do.
    pub fn remedy(&self) -> Remedy {
        self.source.remedy()
    }
}

/// Our presence. Dropping it leaves in the background.
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

    /// Replaces what the znode says. It is stored as soon as possible, in this session or a later one; of several
    /// updates only the last must be stored.
    pub fn publish(&self, payload: &T) {
        self.registration.want(payload.encode());
    }

    /// Whether the znode exists, as far as we know.
    pub fn is_there(&self) -> bool {
        self.registration.path().is_some()
    }

    /// Deletes the znode.
    pub async fn leave(self) -> Result<(), PresenceError> {
        let Self { registration, path, .. } = self;
        registration.leave().await.map_err(|source| PresenceError { path, source })
    }
}
