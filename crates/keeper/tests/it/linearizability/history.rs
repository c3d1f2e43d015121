//! The operations of clients on one znode, and their answers.

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    Create(u64),
    Read,
    /// With the version expected, if any.
    Set(u64, Option<i32>),
    Delete(Option<i32>),
}

/// The answer to an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Done,
    /// The value found, and its version.
    Found(u64, i32),
    /// The version that the new value has.
    Version(i32),
    Missing,
    Exists,
    OtherVersion,
    /// Nothing: the connection broke. It may have happened, may still happen, or may never.
    Nothing,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Op {
    pub ask: Ask,
    pub answer: Answer,
    /// When it was sent, and when the answer was there; on any clock that all clients share.
    pub from: u64,
    pub until: u64,
}

/// A znode: its value and version, if it is there.
pub type Znode = Option<(u64, i32)>;

/// The answer of a sequential server, and the znode after it.
pub fn serve(znode: Znode, ask: &Ask) -> (Answer, Znode) {
    let matches = |expected: Option<i32>, version| expected.is_none_or(|expected| expected == version);
    match (ask, znode) {
        (Ask::Create(value), None) => (Answer::Done, Some((*value, 0))),
        (Ask::Create(_), Some(_)) => (Answer::Exists, znode),
        (Ask::Read | Ask::Set(..) | Ask::Delete(_), None) => (Answer::Missing, None),
        (Ask::Read, Some((value, version))) => (Answer::Found(value, version), znode),
        (Ask::Set(value, expected), Some((_, version))) if matches(*expected, version) => {
            (Answer::Version(version + 1), Some((*value, version + 1)))
        }
        (Ask::Delete(expected), Some((_, version))) if matches(*expected, version) => (Answer::Done, None),
        (Ask::Set(..) | Ask::Delete(_), Some(_)) => (Answer::OtherVersion, znode),
    }
}
