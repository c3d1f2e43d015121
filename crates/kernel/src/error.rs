//! Why a call did not do what was asked.

use std::error::Error as StdError;
use std::fmt;

pub use menagerie_types::Remedy;
use menagerie_znodes::Znode;
use thiserror::Error;

/// An error with all its reasons, on one line: for logs, where nobody asks on. To be shown as it is: `error = %whole(&error)`.
pub fn whole(error: &dyn StdError) -> Whole<'_> {
    Whole(error)
}

/// See [`whole`].
#[derive(Debug)]
pub struct Whole<'a>(&'a dyn StdError);

impl fmt::Display for Whole<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut reason = self.0.source();
        while let Some(error) = reason {
            write!(f, ": {error}")?;
            reason = error.source();
        }
        Ok(())
    }
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallError {
    /// There is no such znode.
    #[error("{path} does not exist")]
    NoZnode {
        /// Which one.
        path: String,
    },
    /// There is one already.
    #[error("{path} exists already")]
    Exists {
        /// Which one.
        path: String,
    },
    /// It was changed meanwhile.
    #[error("{path} was changed meanwhile")]
    BadVersion {
        /// Which one.
        path: String,
    },
    /// It has children.
    #[error("{path} has children")]
    NotEmpty {
        /// Which one.
        path: String,
    },
    /// Our user may not do that.
    #[error("not allowed at {path}")]
    Denied {
        /// Where.
        path: String,
    },
    /// The connection is down, or is not the one that the session goes on with. Nothing has happened.
    #[error("not connected to ZooKeeper")]
    Suspended,
    /// It was sent, and nobody can tell whether it happened.
    #[error("the outcome at {path} is unknown")]
    Unknown {
        /// Where.
        path: String,
    },
    /// The ZooKeeper session is over, and with it all that it held.
    #[error("the ZooKeeper session has expired")]
    Expired,
    /// The session was closed by its owner.
    #[error("the session is closed")]
    Closed,
    /// The data at a path is not what should be there.
    #[error("{path} holds something else than expected: {why}")]
    Payload {
        /// Where.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// The server or its client refused for another reason.
    #[error("refused at {path}: {why}")]
    Refused {
        /// Where.
        path: String,
        /// What it said.
        why: String,
    },
}

impl CallError {
    /// What the caller may do.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Suspended => Remedy::Retry,
            Self::Expired => Remedy::Reacquire,
            Self::NoZnode { .. } | Self::Exists { .. } | Self::BadVersion { .. } | Self::NotEmpty { .. } => {
                Remedy::Conflict
            }
            Self::Denied { .. } | Self::Unknown { .. } | Self::Payload { .. } | Self::Refused { .. } => {
                Remedy::TellUser
            }
            Self::Closed => Remedy::Bug,
        }
    }

    /// That this znode does not exist.
    pub fn no_znode<T>(znode: &Znode<T>) -> Self {
        Self::NoZnode { path: znode.path().to_owned() }
    }

    /// That this znode holds something else than it should.
    pub fn payload<T>(znode: &Znode<T>, why: impl Into<String>) -> Self {
        Self::Payload { path: znode.path().to_owned(), why: why.into() }
    }

    /// Whether there is no such znode.
    pub fn is_no_znode(&self) -> bool {
        matches!(self, Self::NoZnode { .. })
    }

    /// Whether the term is over: what may go on in another one waits for that. If it was not only the term that was closed,
    /// there will be no other, and waiting for one says so.
    pub fn ends_term(&self) -> bool {
        matches!(self, Self::Expired | Self::Closed)
    }

    pub(crate) fn from_client(error: zookeeper_client::Error, path: &str) -> Self {
        use zookeeper_client::Error as E;
        let path = path.to_owned();
        match &error {
            E::NoNode => Self::NoZnode { path },
            E::NodeExists => Self::Exists { path },
            E::BadVersion => Self::BadVersion { path },
            E::NotEmpty => Self::NotEmpty { path },
            E::NoAuth | E::AuthFailed | E::InvalidAcl => Self::Denied { path },
            E::SessionExpired => Self::Expired,
            // It came by a connection that we had left for another, and was refused for that; the session lives.
            E::SessionMoved => Self::Suspended,
            E::ClientClosed => Self::Closed,
            // Answers of the server, or of the client before it sent anything.
            E::BadArguments(_)
            | E::NoChildrenForEphemerals
            | E::NotReadOnly
            | E::NoWatcher
            | E::QuotaExceeded
            | E::Throttled
            | E::MarshallingError
            | E::Unimplemented
            | E::ReconfigDisabled
            | E::RuntimeInconsistent
            | E::UnexpectedErrorCode(_) => Self::Refused { path, why: error.to_string() },
            // Whether the request had left us nobody knows, nor whether its reply was lost on the way. What broke the
            // connection, an error of the socket or too long a silence, comes to its requests as a custom error; and a
            // reply that cannot be read may have been one of success.
            _ => Self::Unknown { path },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_line_has_all_reasons() {
        let call = CallError::Suspended;
        assert_eq!(whole(&call).to_string(), "not connected to ZooKeeper");
        let error = crate::recipes::membership::MembershipError::Call { path: "/a".to_owned(), source: call };
        assert_eq!(whole(&error).to_string(), "cannot use the registry at /a: not connected to ZooKeeper");
    }

    #[test]
    fn request_by_a_connection_that_was_left_has_not_happened_and_costs_no_session() {
        let error = CallError::from_client(zookeeper_client::Error::SessionMoved, "/a");
        assert_eq!(error, CallError::Suspended);
        assert_eq!(error.remedy(), Remedy::Retry);
        assert!(!error.ends_term());
    }
}
