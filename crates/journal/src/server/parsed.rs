//! Parses requests, and bounds the room that their replies need.

use crate::codec::{Malformed, Source};
use crate::commit::CONSUMER_BYTES_MAX;
use crate::core::decide::Proposal;
use crate::core::record;
use crate::error::JournalError;
use crate::protocol::{Kind, values};
use crate::read::Read;
use crate::topic::{Consumer, PartitionId, Topic};

/// Room reserved for a reply of unknown length. Some are longer, but this bounds how many are made at once.
pub(super) const QUERY_BYTES: usize = CONSUMER_BYTES_MAX;
/// Room for a short reply, an error for example, and for each part of a commit's outcome.
pub(super) const SHORT_BYTES: usize = 512;
const PART_BYTES: usize = 17;

/// A parsed request.
pub(super) enum ParsedRequest {
    Change(Proposal),
    Read(Read),
    Query(Query),
    /// Refused before it is decided.
    Refused(Box<JournalError>),
}

/// A request that changes nothing, other than a read of messages.
pub(super) enum Query {
    Consumer(PartitionId, Consumer),
    Stats(Topic),
    Usage,
    Topics,
}

impl ParsedRequest {
    /// Whether it may wait for messages: a long poll.
    pub(super) fn waits(&self) -> bool {
        matches!(self, Self::Read(read) if !read.wait.is_zero())
    }

    /// Parses the body of a request.
    pub(super) fn take(kind: Kind, source: &mut Source) -> Result<Self, Malformed> {
        Ok(match kind {
            Kind::Hello | Kind::Proof => return Err(Malformed("a second handshake")),
            Kind::Commit => match values::commit(source) {
                Ok(commit) => Self::Change(Proposal::Commit(commit)),
                Err(values::Refused::TooLarge(error)) => Self::Refused(error),
                Err(values::Refused::Malformed(malformed)) => return Err(malformed),
            },
            Kind::Open => {
                let partition = values::partition(source)?;
                let (consumer, fence) = (record::consumer(source)?, values::fence(source)?);
                Self::Change(Proposal::Open { partition, consumer, fence })
            }
            Kind::Trim => {
                let (partition, through) = (values::partition(source)?, values::id(source)?);
                Self::Change(Proposal::Trim { partition, through })
            }
            Kind::Create => {
                let (topic, config) = record::topic(source)?;
                Self::Change(Proposal::Create { topic, config })
            }
            Kind::Alter => {
                let (topic, config) = record::topic(source)?;
                Self::Change(Proposal::Alter { topic, config })
            }
            Kind::Delete => Self::Change(Proposal::Delete { topic: values::topic(source)? }),
            Kind::Read => Self::Read(values::read(source)?),
            Kind::Consumer => {
                let (partition, consumer) = (values::partition(source)?, record::consumer(source)?);
                Self::Query(Query::Consumer(partition, consumer))
            }
            Kind::Stats => Self::Query(Query::Stats(values::topic(source)?)),
            Kind::Usage => Self::Query(Query::Usage),
            Kind::Topics => Self::Query(Query::Topics),
        })
    }
}

/// Room for the reply to a change.
pub(super) fn reply_bytes(proposal: &Proposal) -> usize {
    match proposal {
        Proposal::Commit(commit) => SHORT_BYTES + commit.parts() * PART_BYTES,
        Proposal::Open { .. } => QUERY_BYTES,
        Proposal::Trim { .. }
        | Proposal::Create { .. }
        | Proposal::Alter { .. }
        | Proposal::Delete { .. }
        | Proposal::Mature { .. }
        | Proposal::Forget { .. }
        | Proposal::Drop(_) => SHORT_BYTES,
    }
}
