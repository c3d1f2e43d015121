//! Typed reads. Data that does not decode is [`CallError::Payload`], which names the path; code that tolerates damage
//! reads [`MaybeDamaged`](menagerie_znodes::MaybeDamaged) instead.

use menagerie_znodes::{Payload, Znode};

use super::calls::ReadResult;
use super::stat::Stat;
use super::term::Term;
use super::watch::Watch;
use crate::error::CallError;

/// A znode's payload and its version: a write with that version is refused if somebody else was faster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned<T> {
    /// The decoded payload.
    pub value: T,
    /// As of the same read.
    pub stat: Stat,
}

impl<T> Versioned<T> {
    /// How often its data was changed; [`Transaction::set`](crate::Transaction::set) and the like take it.
    pub fn version(&self) -> i32 {
        self.stat.version
    }
}

impl<T: Payload> Versioned<T> {
    /// The only place that decodes payloads.
    pub(crate) fn decode(znode: &Znode<T>, data: &[u8], stat: Stat) -> Result<Self, CallError> {
        match T::decode(data) {
            Ok(value) => Ok(Self { value, stat }),
            Err(error) => Err(CallError::payload(znode, error.source.to_string())),
        }
    }
}

/// Typed reads.
impl Term {
    /// The payload of a znode; `None` if it does not exist.
    pub async fn read<T: Payload>(&self, znode: &Znode<T>) -> Result<Option<Versioned<T>>, CallError> {
        match self.get(znode.path()).await {
            Ok((data, stat)) => Versioned::decode(znode, &data, stat).map(Some),
            Err(CallError::NoZnode { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The same, and a watch for its next change. Sets no watch if the znode does not exist, because such a watch would
    /// stay with the server until somebody creates it; to wait for that, use [`stat_watched`](Self::stat_watched).
    pub async fn read_watched<T: Payload>(
        &self,
        znode: &Znode<T>,
    ) -> Result<Option<(Versioned<T>, Watch)>, CallError> {
        match self.get_watched(znode.path()).await {
            Ok((data, stat, watch)) => Ok(Some((Versioned::decode(znode, &data, stat)?, watch))),
            Err(CallError::NoZnode { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The payloads of many znodes, in the order given and in few round trips; `None` for those that do not exist. One
    /// that does not decode fails them all.
    pub async fn read_many<T: Payload>(
        &self,
        znodes: &[Znode<T>],
    ) -> Result<Vec<Option<Versioned<T>>>, CallError> {
        let paths: Vec<String> = znodes.iter().map(|znode| znode.path().to_owned()).collect();
        let found = znodes.iter().zip(self.get_many(&paths).await?);
        found
            .map(|(znode, found)| found.map(|(data, stat)| Versioned::decode(znode, &data, stat)).transpose())
            .collect()
    }
}

impl ReadResult {
    /// Decodes the payload of the znode that was read; `None` if there is no data.
    pub fn read<T: Payload>(&self, znode: &Znode<T>) -> Result<Option<Versioned<T>>, CallError> {
        match self {
            Self::Data(data, stat) => Versioned::decode(znode, data, *stat).map(Some),
            Self::Children(_) | Self::Nothing => Ok(None),
        }
    }
}
