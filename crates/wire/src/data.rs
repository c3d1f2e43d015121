//! Stat, permissions, identities and access lists.

use crate::jute::{Decode, DecodeError, Reader, Write};

/// The metadata of a znode as clients see it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stat {
    /// Transaction that created the znode.
    pub czxid: i64,
    /// Transaction that last changed its data.
    pub mzxid: i64,
    /// Wall-clock milliseconds of its creation.
    pub ctime: i64,
    /// Wall-clock milliseconds of its last change of data.
    pub mtime: i64,
    /// Changes of its data.
    pub version: i32,
    /// Changes of its set of children: creations plus deletions.
    pub cversion: i32,
    /// Changes of its access list.
    pub aversion: i32,
    /// The session that owns an ephemeral znode; 0 for all others.
    pub ephemeral_owner: i64,
    /// Bytes of data.
    pub data_length: i32,
    /// Children it has now.
    pub num_children: i32,
    /// Transaction that last changed its set of children.
    pub pzxid: i64,
}

impl Stat {
    /// Bytes of a `Stat` on the wire.
    pub const BYTES: usize = 68;

    /// Appends the record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(Self::BYTES);
        out.put_long(self.czxid);
        out.put_long(self.mzxid);
        out.put_long(self.ctime);
        out.put_long(self.mtime);
        out.put_int(self.version);
        out.put_int(self.cversion);
        out.put_int(self.aversion);
        out.put_long(self.ephemeral_owner);
        out.put_int(self.data_length);
        out.put_int(self.num_children);
        out.put_long(self.pzxid);
    }
}

impl<'a> Decode<'a> for Stat {
    const BYTES_MIN: usize = Self::BYTES;
    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            czxid: r.long()?,
            mzxid: r.long()?,
            ctime: r.long()?,
            mtime: r.long()?,
            version: r.int()?,
            cversion: r.int()?,
            aversion: r.int()?,
            ephemeral_owner: r.long()?,
            data_length: r.int()?,
            num_children: r.int()?,
            pzxid: r.long()?,
        })
    }
}

/// A set of permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Perms(pub i32);

impl Perms {
    /// Read data and list children.
    pub const READ: Self = Self(1);
    /// Set data.
    pub const WRITE: Self = Self(2);
    /// Create children.
    pub const CREATE: Self = Self(4);
    /// Delete children.
    pub const DELETE: Self = Self(8);
    /// Set the access list.
    pub const ADMIN: Self = Self(16);
    /// All of them.
    pub const ALL: Self = Self(31);

    /// Whether any permission of `other` is granted.
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Either of the two.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// An identity: a scheme, and a name in that scheme.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Id {
    /// `world`, `digest`, `ip`, `x509`, `auth` or `super`.
    pub scheme: String,
    /// The name of the caller in that scheme.
    pub id: String,
}

impl Id {
    /// An identity of that scheme.
    pub fn new(scheme: &str, id: &str) -> Self {
        Self { scheme: scheme.to_owned(), id: id.to_owned() }
    }

    /// Appends the record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_string(&self.scheme);
        out.put_string(&self.id);
    }
}

impl<'a> Decode<'a> for Id {
    const BYTES_MIN: usize = 8;
    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        // A null id is what some clients send for `auth`; it means the same as an empty one.
        let scheme = r.string()?.to_owned();
        Ok(Self { scheme, id: r.string_or_null()?.unwrap_or_default().to_owned() })
    }
}

/// One entry of an access list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Acl {
    /// The granted permissions.
    pub perms: Perms,
    /// The identity that they are granted to.
    pub id: Id,
}

impl Acl {
    /// Everything, to everybody.
    pub fn open() -> Self {
        Self { perms: Perms::ALL, id: Id::new("world", "anyone") }
    }

    /// Appends the record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_int(self.perms.0);
        self.id.encode(out);
    }
}

impl<'a> Decode<'a> for Acl {
    const BYTES_MIN: usize = 4 + Id::BYTES_MIN;
    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { perms: Perms(r.int()?), id: Id::decode(r)? })
    }
}
