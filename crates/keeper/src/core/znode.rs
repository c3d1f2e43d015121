//! One znode.

use menagerie_wire::Stat;

use super::acl::AclRef;
use super::sessions::SessionId;

/// How long a znode lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Until it is deleted.
    Persistent,
    /// As long as its session.
    Ephemeral(SessionId),
    /// Until it has had children and lost the last of them.
    Container,
    /// Until it has had no children and no new data for this many milliseconds.
    Ttl(i64),
}

/// What is known about a znode besides its data, its access list and its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Transaction that created it.
    pub czxid: i64,
    /// Transaction that last set its data.
    pub mzxid: i64,
    /// Transaction that last created or deleted a child.
    pub pzxid: i64,
    /// Wall clock of its creation, in milliseconds.
    pub ctime: i64,
    /// Wall clock of its last change of data.
    pub mtime: i64,
    /// Changes of data.
    pub version: i32,
    /// Changes of the access list.
    pub aversion: i32,
    /// Children ever created: the next sequence number. Deletions do not count here, but they do in the `cversion` that
    /// clients see, which is derived.
    pub created: i32,
    /// How long it lives.
    pub kind: Kind,
}

impl Meta {
    /// A znode created by transaction `zxid` at `time`.
    pub fn new(zxid: i64, time: i64, kind: Kind) -> Self {
        Self {
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: time,
            mtime: time,
            version: 0,
            aversion: 0,
            created: 0,
            kind,
        }
    }

    /// The stat that clients see.
    pub fn stat(&self, data_length: i32, num_children: i32) -> Stat {
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            // Creations plus deletions, where deletions = creations - existing children.
            cversion: self.created.wrapping_mul(2).wrapping_sub(num_children),
            aversion: self.aversion,
            ephemeral_owner: match self.kind {
                Kind::Ephemeral(session) => session.0,
                Kind::Persistent | Kind::Container | Kind::Ttl(_) => 0,
            },
            data_length,
            num_children,
            pzxid: self.pzxid,
        }
    }
}

/// The data of a znode; null and empty differ.
pub type Data = Option<Box<[u8]>>;

/// Length of data as `Stat` reports it.
pub fn data_length(data: Option<&[u8]>) -> i32 {
    data.map_or(0, |bytes| i32::try_from(bytes.len()).expect("data fits into a frame"))
}

/// "No znode" in a link.
pub(super) const NIL: u32 = u32::MAX;

/// A znode in the tree. Its links are slots of the tree; siblings form a ring in order of creation.
#[derive(Debug)]
pub struct Znode {
    /// The full path: one look-up finds a znode, however deep.
    pub path: Box<str>,
    /// Its data.
    pub data: Data,
    /// Its access list.
    pub acl: AclRef,
    /// Everything else.
    pub meta: Meta,
    /// Number of children.
    pub children: u32,
    pub(super) parent: u32,
    pub(super) first_child: u32,
    pub(super) next: u32,
    pub(super) prev: u32,
}

impl Znode {
    /// A znode that is not linked into a tree yet.
    pub fn new(path: Box<str>, data: Data, acl: AclRef, meta: Meta) -> Self {
        Self { path, data, acl, meta, children: 0, parent: NIL, first_child: NIL, next: NIL, prev: NIL }
    }

    /// The stat that clients see.
    pub fn stat(&self) -> Stat {
        self.meta.stat(data_length(self.data.as_deref()), self.children as i32)
    }
}
