//! What a request asks, and how much room its reply may need.

use crate::codec::{Malformed, Source};
use crate::commit::CONSUMER_BYTES_MAX;
use crate::core::decide::Wish;
use crate::core::record;
use crate::error::JournalError;
use crate::protocol::{Kind, values};
use crate::read::Read;
use crate::topic::{Consumer, PartitionId, Topic};

/// Room for a reply whose length is not known before. Some are longer, but only so many at once.
pub(super) const QUERY_BYTES: usize = CONSUMER_BYTES_MAX;
/// Room for a short reply, an error for example, and for what a commit's says of each of its parts.
pub(super) const SHORT_BYTES: usize = 512;
const PART_BYTES: usize = 17;

/// What is asked.
pub(super) enum Asked {
    Change(Wish),
    Read(Read),
    Query(Query),
    /// What nobody need decide.
    Refused(Box<JournalError>),
}

/// What else changes nothing.
pub(super) enum Query {
    Consumer(PartitionId, Consumer),
    Stats(Topic),
    Usage,
    Topics,
}

impl Asked {
    /// Whether it may wait for messages.
    pub(super) fn waits(&self) -> bool {
        matches!(self, Self::Read(read) if !read.wait.is_zero())
    }

    /// Takes it from the body of a request.
    pub(super) fn take(kind: Kind, source: &mut Source) -> Result<Self, Malformed> {
        Ok(match kind {
            Kind::Hello | Kind::Proof => return Err(Malformed("a second handshake")),
            Kind::Commit => match values::commit(source) {
                Ok(commit) => Self::Change(Wish::Commit(commit)),
                Err(values::Refused::TooLarge(error)) => Self::Refused(error),
                Err(values::Refused::Malformed(malformed)) => return Err(malformed),
            },
            Kind::Open => {
                let partition = values::partition(source)?;
                let (consumer, fence) = (record::consumer(source)?, values::fence(source)?);
                Self::Change(Wish::Open { partition, consumer, fence })
            }
            Kind::Trim => {
                let (partition, through) = (values::partition(source)?, values::id(source)?);
                Self::Change(Wish::Trim { partition, through })
            }
            Kind::Create => {
                let (topic, config) = record::topic(source)?;
                Self::Change(Wish::Create { topic, config })
            }
            Kind::Alter => {
                let (topic, config) = record::topic(source)?;
                Self::Change(Wish::Alter { topic, config })
            }
            Kind::Delete => Self::Change(Wish::Delete { topic: values::topic(source)? }),
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

/// Room for what a change is answered with.
pub(super) fn reply_bytes(wish: &Wish) -> usize {
    match wish {
        Wish::Commit(commit) => SHORT_BYTES + commit.parts() * PART_BYTES,
        Wish::Open { .. } => QUERY_BYTES,
        Wish::Trim { .. }
        | Wish::Create { .. }
        | Wish::Alter { .. }
        | Wish::Delete { .. }
        | Wish::Mature { .. }
        | Wish::Forget { .. }
        | Wish::Drop(_) => SHORT_BYTES,
    }
}
