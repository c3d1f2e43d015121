//! Several writes that happen together or not at all.

use std::sync::{Arc, OnceLock};

use menagerie_znodes::{Kind, Payload, Znode};
use thiserror::Error;
use zookeeper_client::{MultiWriteError, MultiWriteResult};

use crate::error::CallError;
use crate::session::{REQUEST_BYTES_MAX, Term, create_mode, fits};

/// The most that a part takes in a request besides its path and data: a creation with an open access list has a header of
/// 9 bytes, two lengths of 4, a list of 27 and flags of 4.
const PART_BYTES_MAX: usize = 48;

/// One part of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Check { path: String, version: Option<i32> },
    Create { path: String, data: Vec<u8>, kind: Kind },
    Set { path: String, data: Vec<u8>, version: Option<i32> },
    Delete { path: String, version: Option<i32> },
}

impl Part {
    /// Its length in a request; paths begin with a root of this length there.
    fn bytes(&self, root_bytes: usize) -> usize {
        let data = match self {
            Self::Create { data, .. } | Self::Set { data, .. } => data.len(),
            Self::Check { .. } | Self::Delete { .. } => 0,
        };
        PART_BYTES_MAX + root_bytes + self.path().len() + data
    }

    fn path(&self) -> &str {
        match self {
            Self::Check { path, .. }
            | Self::Create { path, .. }
            | Self::Set { path, .. }
            | Self::Delete { path, .. } => path,
        }
    }
}

/// Writes that commit together.
#[derive(Debug, Clone)]
#[must_use = "nothing is written before commit"]
pub struct Transaction {
    term: Term,
    parts: Vec<Part>,
    /// How many of the first parts are checks of our ticket.
    fences: usize,
    /// Of all parts. Counted as they are added: callers ask after each.
    bytes: usize,
}

/// The result of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The paths that were created, in order.
    pub created: Vec<String>,
    /// Its zxid, which is the czxid of all that it created; known only if it also wrote to an existing znode.
    pub zxid: Option<i64>,
}

/// Why nothing of a transaction has happened; or that its outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the fields of errors name themselves")]
pub enum TransactionError {
    /// The ticket that fences the writes is gone: somebody else may hold now.
    #[error("{ticket} is gone: what was held under it is lost")]
    Lost { ticket: String },
    /// The server refused one part, and with it all of them.
    #[error("part {index} of the transaction was refused")]
    Part {
        /// Index of the part, not counting the ticket's check.
        index: usize,
        source: CallError,
    },
    /// The call as a whole failed.
    #[error("the transaction failed")]
    Call(#[from] CallError),
}

impl TransactionError {
    /// Whether it may or may not have happened.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Call(CallError::Unknown { .. }))
    }
}

impl Transaction {
    /// The most [`bytes`](Self::bytes) that a server takes. A commit of more is refused before anything is sent.
    pub const BYTES_MAX: usize = REQUEST_BYTES_MAX;

    /// An empty transaction.
    pub fn new(term: &Term) -> Self {
        Self { term: term.clone(), parts: Vec::new(), fences: 0, bytes: 0 }
    }

    /// A transaction whose writes happen only while `ticket` exists. Names of tickets are never reused.
    pub fn fenced(term: &Term, ticket: &str) -> Self {
        let check = Part::Check { path: ticket.to_owned(), version: None };
        Self { fences: 1, ..Self::new(term).with(check) }
    }

    fn with(mut self, part: Part) -> Self {
        self.bytes += part.bytes(self.term.root_bytes());
        self.parts.push(part);
        self
    }

    /// The ZooKeeper session that it will be committed in.
    pub fn term(&self) -> &Term {
        &self.term
    }

    /// The ticket without which none of its writes happens.
    pub fn ticket(&self) -> Option<&str> {
        self.parts.first().filter(|_| self.fences > 0).map(Part::path)
    }

    /// Number of parts so far, not counting the ticket's check: the index that an error would name for the next one.
    pub fn parts(&self) -> usize {
        self.parts.len() - self.fences
    }

    /// Its size as a request, rounded up: paths, data, and what surrounds them. To split work into transactions that
    /// fit, build each piece on its own, and join pieces by [`and`](Self::and) while the sum of their bytes is at most
    /// [`BYTES_MAX`](Self::BYTES_MAX).
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The same, without a time-out on the commit.
    pub(crate) fn patient(mut self) -> Self {
        self.term = self.term.patient();
        self
    }

    /// Adds the condition that this znode exists, and has this version if one is given.
    pub fn check<T>(self, znode: &Znode<T>, version: Option<i32>) -> Self {
        self.with(Part::Check { path: znode.path().to_owned(), version })
    }

    /// Creates a znode of its kind.
    pub fn create<T: Payload>(self, znode: &Znode<T>, payload: &T) -> Self {
        let (path, data) = (znode.path().to_owned(), payload.encode());
        self.with(Part::Create { path, data, kind: znode.kind() })
    }

    /// Writes; with a version, only if it is still that one.
    pub fn set<T: Payload>(self, znode: &Znode<T>, payload: &T, version: Option<i32>) -> Self {
        let (path, data) = (znode.path().to_owned(), payload.encode());
        self.with(Part::Set { path, data, version })
    }

    /// Deletes; with a version, only if it is still that one.
    pub fn delete<T>(self, znode: &Znode<T>, version: Option<i32>) -> Self {
        self.delete_at(znode.path(), version)
    }

    pub(crate) fn delete_at(self, path: &str, version: Option<i32>) -> Self {
        self.with(Part::Delete { path: path.to_owned(), version })
    }

    /// Commits both together, or nothing of both. If the other's ticket is gone, that is a refused part and not
    /// [`TransactionError::Lost`].
    pub fn and(mut self, other: Self) -> Self {
        self.bytes += other.bytes;
        self.parts.extend(other.parts);
        self
    }

    /// Commits. Returns the created paths, in order; those of sequence znodes include their number.
    pub async fn commit(self) -> Result<Vec<String>, TransactionError> {
        Ok(self.commit_numbered().await?.created)
    }

    /// The same, with the number of the transaction.
    pub async fn commit_numbered(self) -> Result<Committed, TransactionError> {
        let Self { term, parts, fences, bytes } = self;
        let paths: Vec<String> = parts.iter().map(|part| part.path().to_owned()).collect();
        let first = paths.first().cloned().unwrap_or_default();
        fits(&first, bytes)?;
        let acls = term.acls();
        // A call whose caller has given up reports only an error, so a refusal must be one; which part was refused is
        // stored here.
        let refused = Arc::new(OnceLock::new());
        let tell = refused.clone();
        let results = term
            .write(&first, None, |client, _| async move {
                let mut writer = client.new_multi_writer();
                for part in &parts {
                    match part {
                        Part::Check { path, version } => {
                            writer.add_check_version(path, version.unwrap_or(-1))?
                        }
                        Part::Create { path, data, kind } => {
                            writer.add_create(path, data, &create_mode(*kind).with_acls(acls))?;
                        }
                        Part::Set { path, data, version } => writer.add_set_data(path, data, *version)?,
                        Part::Delete { path, version } => writer.add_delete(path, *version)?,
                    }
                }
                writer.commit().await.map_err(|error| match error {
                    MultiWriteError::OperationFailed { index, source } => {
                        // Set once: it is committed once.
                        let _ = tell.set((index, source.clone()));
                        source
                    }
                    MultiWriteError::RequestFailed { source } => source,
                })
            })
            .await;
        match (results, refused.get()) {
            (Ok(results), _) => Ok(Committed::new(results)),
            (Err(_), Some((index, source))) => Err(refusal(&paths, fences, *index, source.clone())),
            (Err(error), None) => Err(error.into()),
        }
    }
}

impl Committed {
    fn new(results: Vec<MultiWriteResult>) -> Self {
        let mut committed = Self { created: Vec::new(), zxid: None };
        for result in results {
            match result {
                // Not with its stat: Apache ZooKeeper fills in nonsense here.
                MultiWriteResult::Create { path, .. } => committed.created.push(path),
                MultiWriteResult::SetData { stat } => committed.zxid = Some(stat.mzxid),
                _ => {}
            }
        }
        committed
    }
}

fn refusal(
    paths: &[String],
    fences: usize,
    index: usize,
    source: zookeeper_client::Error,
) -> TransactionError {
    let path = paths.get(index).map_or("", String::as_str);
    match CallError::from_client(source, path) {
        CallError::NoZnode { path } if index < fences => TransactionError::Lost { ticket: path },
        source => TransactionError::Part { index: index.saturating_sub(fences), source },
    }
}
