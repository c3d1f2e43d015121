//! Errors of calls to ZooKeeper.

#![allow(missing_docs, reason = "the fields of errors name themselves")]

use std::error::Error as StdError;
use std::fmt;

pub use menagerie_types::Remedy;
use menagerie_znodes::Znode;
use thiserror::Error;

/// An error with its whole chain of sources on one line, for logs: `error = %whole(&error)`.
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
    /// The znode does not exist.
    #[error("{path} does not exist")]
    NoZnode { path: String },
    /// The znode exists already.
    #[error("{path} exists already")]
    Exists { path: String },
    /// Somebody else changed the znode since its version was read.
    #[error("{path} was changed meanwhile")]
    BadVersion { path: String },
    /// The znode cannot be deleted because it has children.
    #[error("{path} has children")]
    NotEmpty { path: String },
    /// The access list does not allow it to our user.
    #[error("not allowed at {path}")]
    Denied { path: String },
    /// The connection is down, or the session has moved to another one. Nothing has happened.
    #[error("not connected to ZooKeeper")]
    Suspended,
    /// The request was sent, and its reply was lost: it may or may not have happened. See [`crate::retry`].
    #[error("the outcome at {path} is unknown")]
    Unknown { path: String },
    /// The ZooKeeper session has expired, and all that it held is gone.
    #[error("the ZooKeeper session has expired")]
    Expired,
    /// The owner of the session has closed it.
    #[error("the session is closed")]
    Closed,
    /// The data does not decode as the znode's payload.
    #[error("{path} holds something else than expected: {why}")]
    Payload { path: String, why: String },
    /// The server or its client refused for another reason.
    #[error("refused at {path}: {why}")]
    Refused { path: String, why: String },
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

    /// The error for a znode that does not exist.
    pub fn no_znode<T>(znode: &Znode<T>) -> Self {
        Self::NoZnode { path: znode.path().to_owned() }
    }

    /// The error for a znode whose data does not decode.
    pub fn payload<T>(znode: &Znode<T>, why: impl Into<String>) -> Self {
        Self::Payload { path: znode.path().to_owned(), why: why.into() }
    }

    /// Whether it is [`Self::NoZnode`].
    pub fn is_no_znode(&self) -> bool {
        matches!(self, Self::NoZnode { .. })
    }

    /// Whether the term is over. Work that can be repeated waits for the next term then; if the whole session was
    /// closed, that wait fails.
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
            // The request arrived over a connection that we had replaced, and was refused; the session lives.
            E::SessionMoved => Self::Suspended,
            E::ClientClosed => Self::Closed,
            // The server refused, or the client did before it sent anything.
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
            // The request may never have been sent, or its reply may have been lost. A broken connection (a socket
            // error, too long a silence) fails its requests with a custom error; and a reply that cannot be parsed may
            // have reported success.
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
