//! Watches: what can be watched, and the notifications that follow.

use crate::jute::{DecodeError, Reader, Write};

/// What happened to a znode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i32)]
#[expect(missing_docs, reason = "each says what it is")]
pub enum EventKind {
    Created = 1,
    Deleted = 2,
    DataChanged = 3,
    ChildrenChanged = 4,
}

/// The xid of every notification.
pub const EVENT_XID: i32 = -1;

/// The connection state that every notification of a serving server carries: connected.
const STATE_CONNECTED: i32 = 3;

/// One notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event<'a> {
    /// The kind of event.
    pub kind: EventKind,
    /// The znode's path.
    pub path: &'a str,
}

impl<'a> Event<'a> {
    /// Decodes the record after a reply header with [`EVENT_XID`].
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let kind = match r.int()? {
            1 => EventKind::Created,
            2 => EventKind::Deleted,
            3 => EventKind::DataChanged,
            4 => EventKind::ChildrenChanged,
            value => return Err(DecodeError::Unknown { what: "event", value }),
        };
        r.int()?;
        Ok(Self { kind, path: r.string()? })
    }

    /// Appends the record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_int(self.kind as i32);
        out.put_int(STATE_CONNECTED);
        out.put_string(self.path);
    }
}

/// How a watch set by `addWatch` behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum WatchMode {
    /// Stays after it fired; reports the znode and its set of children.
    Persistent = 0,
    /// Stays; reports the znode and everything below it.
    PersistentRecursive = 1,
}

impl WatchMode {
    /// The mode with this number.
    pub fn from_code(code: i32) -> Option<Self> {
        match code {
            0 => Some(Self::Persistent),
            1 => Some(Self::PersistentRecursive),
            _ => None,
        }
    }
}

/// Which watches `checkWatches` and `removeWatches` mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum WatcherKind {
    /// One-shot watches on the set of children.
    Children = 1,
    /// One-shot watches on existence and data.
    Data = 2,
    /// All of them.
    Any = 3,
    /// Persistent ones, without the recursive.
    Persistent = 4,
    /// Recursive ones.
    PersistentRecursive = 5,
}

impl WatcherKind {
    /// The kind with this number.
    pub fn from_code(code: i32) -> Option<Self> {
        match code {
            1 => Some(Self::Children),
            2 => Some(Self::Data),
            3 => Some(Self::Any),
            4 => Some(Self::Persistent),
            5 => Some(Self::PersistentRecursive),
            _ => None,
        }
    }
}
