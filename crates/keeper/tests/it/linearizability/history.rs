//! What clients did to one znode, and what they were told.

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    Create(u64),
    Read,
    /// With the version expected, if any.
    Set(u64, Option<i32>),
    Delete(Option<i32>),
}

/// What it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
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
    pub told: Told,
    /// When it was sent, and when the answer was there; on any clock that all clients share.
    pub from: u64,
    pub until: u64,
}

/// A znode: its value and version, if it is there.
pub type Znode = Option<(u64, i32)>;

/// What a server that does one thing at a time answers, and the znode after it.
pub fn serve(znode: Znode, ask: &Ask) -> (Told, Znode) {
    let matches = |expected: Option<i32>, version| expected.is_none_or(|expected| expected == version);
    match (ask, znode) {
        (Ask::Create(value), None) => (Told::Done, Some((*value, 0))),
        (Ask::Create(_), Some(_)) => (Told::Exists, znode),
        (Ask::Read | Ask::Set(..) | Ask::Delete(_), None) => (Told::Missing, None),
        (Ask::Read, Some((value, version))) => (Told::Found(value, version), znode),
        (Ask::Set(value, expected), Some((_, version))) if matches(*expected, version) => {
            (Told::Version(version + 1), Some((*value, version + 1)))
        }
        (Ask::Delete(expected), Some((_, version))) if matches(*expected, version) => (Told::Done, None),
        (Ask::Set(..) | Ask::Delete(_), Some(_)) => (Told::OtherVersion, znode),
    }
}
