//! Transactions: decisions as final states, so that replaying one is idempotent.

use menagerie_wire::{DecodeError, ErrorCode, Reader, Stat, Write as _};

use super::acl::{AclRef, AclTable};
use super::sessions::{Password, SessionId};
use super::znode::{Data, Kind, Meta};

/// One decided write.
#[derive(Debug)]
pub struct Txn {
    /// Its place in the one order of all writes.
    pub zxid: i64,
    /// What it changes; nothing if it was refused, but the zxid is used all the same, because clients see it.
    pub changes: Vec<Change>,
    /// The answer for the caller. Not stored: after a restart nobody waits for it.
    pub outcome: Outcome,
    /// Bytes of the stored form.
    pub bytes: usize,
}

/// What the creation or deletion of a child changes in the parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParentMark {
    /// Children ever created.
    pub created: i32,
    /// This transaction.
    pub pzxid: i64,
}

/// The final state of one thing.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are those of a znode and of a session")]
pub enum Change {
    Create { path: Box<str>, data: Data, acl: AclRef, meta: Meta, parent: ParentMark },
    Delete { path: Box<str>, parent: ParentMark },
    SetData { path: Box<str>, data: Data, version: i32, mzxid: i64, mtime: i64 },
    SetAcl { path: Box<str>, acl: AclRef, aversion: i32 },
    OpenSession { id: SessionId, password: Password, timeout_ms: u32 },
    CloseSession { id: SessionId },
}

/// The answer for the caller once the transaction is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the reply")]
pub enum Outcome {
    Refused(ErrorCode),
    /// `stat` is sent along by the newer operations only.
    Created {
        path: Box<str>,
        stat: Stat,
        with_stat: bool,
    },
    Deleted,
    Stat(Stat),
    Checked,
    /// One for each operation; when one was refused, none took effect.
    Multi(Vec<Outcome>),
    SessionOpened,
    SessionClosed,
}

impl Txn {
    /// Length of the stored form without any changes: the zxid, and the number of changes.
    pub(super) const EMPTY_BYTES: usize = 8 + 4;

    /// Approximate memory until the transaction is applied and answered.
    pub fn held_bytes(&self) -> usize {
        let outcomes = match &self.outcome {
            Outcome::Multi(outcomes) => outcomes.len(),
            _ => 0,
        };
        self.bytes + outcomes * size_of::<Outcome>()
    }

    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_long(self.zxid);
        out.put_vector(&self.changes, |out, change| change.encode(out));
    }

    /// Decodes the stored form; access lists are shared through `acls`.
    pub fn decode(bytes: &[u8], acls: &mut AclTable) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let zxid = r.long()?;
        let mut changes = Vec::new();
        for _ in 0..r.int()? {
            changes.push(Change::decode(&mut r, acls)?);
        }
        Ok(Self { zxid, changes, outcome: Outcome::Refused(ErrorCode::Ok), bytes: bytes.len() })
    }
}

/// Tags of the stored form. Never reuse one.
mod tag {
    pub const CREATE: i32 = 1;
    pub const DELETE: i32 = 2;
    pub const SET_DATA: i32 = 3;
    pub const SET_ACL: i32 = 4;
    pub const OPEN_SESSION: i32 = 5;
    pub const CLOSE_SESSION: i32 = 6;
    pub const PERSISTENT: i32 = 0;
    pub const EPHEMERAL: i32 = 1;
    pub const CONTAINER: i32 = 2;
    pub const TTL: i32 = 3;
}

/// Length of the tag that every change begins with.
const TAG: usize = 4;

impl Change {
    /// Bytes of the stored form of a deletion.
    pub(super) fn delete_bytes(path: &str) -> usize {
        TAG + 4 + path.len() + ParentMark::BYTES
    }

    /// Bytes of the stored form.
    pub(super) fn bytes(&self) -> usize {
        const SESSION: usize = 8;
        let data_bytes = |data: &Data| 4 + data.as_ref().map_or(0, |data| data.len());
        TAG + match self {
            Self::Create { path, data, acl, .. } => {
                4 + path.len() + data_bytes(data) + acl_bytes(acl) + META_BYTES + ParentMark::BYTES
            }
            Self::Delete { path, .. } => return Self::delete_bytes(path),
            Self::SetData { path, data, .. } => 4 + path.len() + data_bytes(data) + 4 + 8 + 8,
            Self::SetAcl { path, acl, .. } => 4 + path.len() + acl_bytes(acl) + 4,
            Self::OpenSession { password, .. } => SESSION + 4 + password.len() + 4,
            Self::CloseSession { .. } => SESSION,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Create { path, data, acl, meta, parent } => {
                out.put_int(tag::CREATE);
                encode_znode(out, path, data.as_deref(), acl, meta);
                parent.encode(out);
            }
            Self::Delete { path, parent } => {
                out.put_int(tag::DELETE);
                out.put_string(path);
                parent.encode(out);
            }
            Self::SetData { path, data, version, mzxid, mtime } => {
                out.put_int(tag::SET_DATA);
                out.put_string(path);
                out.put_buffer(data.as_deref());
                out.put_int(*version);
                out.put_long(*mzxid);
                out.put_long(*mtime);
            }
            Self::SetAcl { path, acl, aversion } => {
                out.put_int(tag::SET_ACL);
                out.put_string(path);
                out.put_vector(acl, |out, acl| acl.encode(out));
                out.put_int(*aversion);
            }
            Self::OpenSession { id, password, timeout_ms } => {
                out.put_int(tag::OPEN_SESSION);
                encode_session(out, *id, password, *timeout_ms);
            }
            Self::CloseSession { id } => {
                out.put_int(tag::CLOSE_SESSION);
                out.put_long(id.0);
            }
        }
    }

    fn decode(r: &mut Reader<'_>, acls: &mut AclTable) -> Result<Self, DecodeError> {
        Ok(match r.int()? {
            tag::CREATE => {
                let (path, data, acl, meta) = decode_znode(r, acls)?;
                Self::Create { path, data, acl, meta, parent: ParentMark::decode(r)? }
            }
            tag::DELETE => Self::Delete { path: r.string()?.into(), parent: ParentMark::decode(r)? },
            tag::SET_DATA => Self::SetData {
                path: r.string()?.into(),
                data: r.buffer()?.map(Into::into),
                version: r.int()?,
                mzxid: r.long()?,
                mtime: r.long()?,
            },
            tag::SET_ACL => {
                Self::SetAcl { path: r.string()?.into(), acl: acls.decode(r)?, aversion: r.int()? }
            }
            tag::OPEN_SESSION => {
                let (id, password, timeout_ms) = decode_session(r)?;
                Self::OpenSession { id, password, timeout_ms }
            }
            tag::CLOSE_SESSION => Self::CloseSession { id: SessionId(r.long()?) },
            value => return Err(DecodeError::Unknown { what: "change", value }),
        })
    }
}

fn acl_bytes(acl: &AclRef) -> usize {
    4 + acl.iter().map(|entry| 4 + 4 + entry.id.scheme.len() + 4 + entry.id.id.len()).sum::<usize>()
}

impl ParentMark {
    const BYTES: usize = 4 + 8;

    fn encode(self, out: &mut Vec<u8>) {
        out.put_int(self.created);
        out.put_long(self.pzxid);
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { created: r.int()?, pzxid: r.long()? })
    }
}

/// Bytes that [`encode_znode`] writes after the access list.
const META_BYTES: usize = 5 * 8 + 3 * 4 + 4 + 8;

/// Appends a whole znode; snapshots use the same form.
pub fn encode_znode(out: &mut Vec<u8>, path: &str, data: Option<&[u8]>, acl: &AclRef, meta: &Meta) {
    out.put_string(path);
    out.put_buffer(data);
    out.put_vector(acl, |out, acl| acl.encode(out));
    out.put_long(meta.czxid);
    out.put_long(meta.mzxid);
    out.put_long(meta.pzxid);
    out.put_long(meta.ctime);
    out.put_long(meta.mtime);
    out.put_int(meta.version);
    out.put_int(meta.aversion);
    out.put_int(meta.created);
    let (tag, value) = match meta.kind {
        Kind::Persistent => (tag::PERSISTENT, 0),
        Kind::Ephemeral(session) => (tag::EPHEMERAL, session.0),
        Kind::Container => (tag::CONTAINER, 0),
        Kind::Ttl(ttl) => (tag::TTL, ttl),
    };
    out.put_int(tag);
    out.put_long(value);
}

/// Reads a whole znode.
pub fn decode_znode(
    r: &mut Reader<'_>,
    acls: &mut AclTable,
) -> Result<(Box<str>, Data, AclRef, Meta), DecodeError> {
    let path = r.string()?.into();
    let data = r.buffer()?.map(Into::into);
    let acl = acls.decode(r)?;
    let meta = Meta {
        czxid: r.long()?,
        mzxid: r.long()?,
        pzxid: r.long()?,
        ctime: r.long()?,
        mtime: r.long()?,
        version: r.int()?,
        aversion: r.int()?,
        created: r.int()?,
        kind: match (r.int()?, r.long()?) {
            (tag::PERSISTENT, _) => Kind::Persistent,
            (tag::EPHEMERAL, session) => Kind::Ephemeral(SessionId(session)),
            (tag::CONTAINER, _) => Kind::Container,
            (tag::TTL, ttl) => Kind::Ttl(ttl),
            (value, _) => return Err(DecodeError::Unknown { what: "kind of znode", value }),
        },
    };
    Ok((path, data, acl, meta))
}

/// Appends a session; snapshots use the same form.
pub fn encode_session(out: &mut Vec<u8>, id: SessionId, password: &Password, timeout_ms: u32) {
    out.put_long(id.0);
    out.put_buffer(Some(password));
    out.put_int(timeout_ms.cast_signed());
}

/// Reads a session.
pub fn decode_session(r: &mut Reader<'_>) -> Result<(SessionId, Password, u32), DecodeError> {
    let id = SessionId(r.long()?);
    let password = r.buffer()?.unwrap_or_default();
    let password = password.try_into().map_err(|_| DecodeError::Length(password.len() as i32))?;
    Ok((id, password, r.int()?.cast_unsigned()))
}
