//! Requests: a header, then the record of the operation.

use crate::code::OpCode;
use crate::data::Acl;
use crate::jute::{DecodeError, Reader, Write};
use crate::multi::{self, MultiOp};

/// The reserved xids of requests that are not answered by number.
pub mod xid {
    /// Of pings.
    pub const PING: i32 = -2;
    /// Of credentials.
    pub const AUTH: i32 = -4;
    /// Of watches set again after a reconnect.
    pub const SET_WATCHES: i32 = -8;
}

/// The header of every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHeader {
    /// The client's number for this request, echoed by the reply.
    pub xid: i32,
    /// The operation's code; it may be one that we do not know.
    pub op: i32,
}

impl RequestHeader {
    /// Reads the header and leaves the reader at the body.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { xid: r.int()?, op: r.int()? })
    }
}

/// The arguments of a creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Create<'a> {
    /// The path asked for; a sequence number may be appended.
    pub path: &'a str,
    /// Its data; null is kept apart from empty.
    pub data: Option<&'a [u8]>,
    /// Its access list.
    pub acl: Vec<Acl>,
    /// The bits as sent; the server decides whether they are valid.
    pub flags: i32,
    /// Milliseconds, with `createTTL` only.
    pub ttl: Option<i64>,
}

impl<'a> Create<'a> {
    pub(crate) fn decode(r: &mut Reader<'a>, with_ttl: bool) -> Result<Self, DecodeError> {
        Ok(Self {
            path: r.string()?,
            data: r.buffer()?,
            acl: r.vector()?,
            flags: r.int()?,
            ttl: if with_ttl { Some(r.long()?) } else { None },
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_string(self.path);
        out.put_buffer(self.data);
        out.put_vector(&self.acl, |out, acl| acl.encode(out));
        out.put_int(self.flags);
        if let Some(ttl) = self.ttl {
            out.put_long(ttl);
        }
    }
}

/// The lists of watches that a client sets again after a reconnect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetWatches<'a> {
    /// The last transaction that the client saw; later changes fire at once.
    pub relative_zxid: i64,
    /// Watches on data.
    pub data: Vec<&'a str>,
    /// Watches on the existence of znodes that were missing.
    pub exist: Vec<&'a str>,
    /// Watches on children.
    pub child: Vec<&'a str>,
    /// Persistent watches (`setWatches2`).
    pub persistent: Vec<&'a str>,
    /// Recursive watches (`setWatches2`).
    pub recursive: Vec<&'a str>,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the protocol")]
pub enum Request<'a> {
    /// `create`, `create2`, `createContainer`, `createTTL`: the code decides which reply is expected.
    Create {
        op: OpCode,
        create: Create<'a>,
    },
    Delete {
        path: &'a str,
        version: i32,
    },
    DeleteContainer {
        path: &'a str,
    },
    Exists {
        path: &'a str,
        watch: bool,
    },
    GetData {
        path: &'a str,
        watch: bool,
    },
    SetData {
        path: &'a str,
        data: Option<&'a [u8]>,
        version: i32,
    },
    GetAcl {
        path: &'a str,
    },
    SetAcl {
        path: &'a str,
        acl: Vec<Acl>,
        version: i32,
    },
    GetChildren {
        path: &'a str,
        watch: bool,
    },
    GetChildren2 {
        path: &'a str,
        watch: bool,
    },
    Sync {
        path: &'a str,
    },
    Ping,
    Check {
        path: &'a str,
        version: i32,
    },
    Multi(Vec<MultiOp<'a>>),
    MultiRead(Vec<MultiOp<'a>>),
    Reconfig,
    CheckWatches {
        path: &'a str,
        kind: i32,
    },
    RemoveWatches {
        path: &'a str,
        kind: i32,
    },
    Auth {
        scheme: &'a str,
        credentials: &'a [u8],
    },
    SetWatches(SetWatches<'a>),
    SetWatches2(SetWatches<'a>),
    Sasl,
    GetEphemerals {
        prefix: &'a str,
    },
    GetAllChildrenNumber {
        path: &'a str,
    },
    AddWatch {
        path: &'a str,
        mode: i32,
    },
    WhoAmI,
    CloseSession,
}

impl<'a> Request<'a> {
    /// Decodes the body of operation `op`. Ignores bytes after it, as other servers do.
    pub fn decode(op: OpCode, r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(match op {
            OpCode::Create | OpCode::Create2 | OpCode::CreateContainer => {
                Self::Create { op, create: Create::decode(r, false)? }
            }
            OpCode::CreateTtl => Self::Create { op, create: Create::decode(r, true)? },
            OpCode::Delete => Self::Delete { path: r.string()?, version: r.int()? },
            // Only the server itself deletes containers; a client's request is refused undecoded.
            OpCode::DeleteContainer => Self::DeleteContainer { path: r.string().unwrap_or_default() },
            OpCode::Exists => Self::Exists { path: r.string()?, watch: r.bool()? },
            OpCode::GetData => Self::GetData { path: r.string()?, watch: r.bool()? },
            OpCode::SetData => Self::SetData { path: r.string()?, data: r.buffer()?, version: r.int()? },
            OpCode::GetAcl => Self::GetAcl { path: r.string()? },
            OpCode::SetAcl => Self::SetAcl { path: r.string()?, acl: r.vector()?, version: r.int()? },
            OpCode::GetChildren => Self::GetChildren { path: r.string()?, watch: r.bool()? },
            OpCode::GetChildren2 => Self::GetChildren2 { path: r.string()?, watch: r.bool()? },
            OpCode::Sync => Self::Sync { path: r.string()? },
            OpCode::Ping => Self::Ping,
            OpCode::Check => Self::Check { path: r.string()?, version: r.int()? },
            OpCode::Multi => Self::Multi(multi::decode_ops(r)?),
            OpCode::MultiRead => Self::MultiRead(multi::decode_ops(r)?),
            OpCode::Reconfig => {
                for _ in 0..3 {
                    r.string_or_null()?;
                }
                r.long()?;
                Self::Reconfig
            }
            OpCode::CheckWatches => Self::CheckWatches { path: r.string()?, kind: r.int()? },
            OpCode::RemoveWatches => Self::RemoveWatches { path: r.string()?, kind: r.int()? },
            OpCode::Auth => {
                r.int()?;
                Self::Auth { scheme: r.string()?, credentials: r.buffer()?.unwrap_or_default() }
            }
            OpCode::SetWatches => Self::SetWatches(decode_set_watches(r, false)?),
            OpCode::SetWatches2 => Self::SetWatches2(decode_set_watches(r, true)?),
            OpCode::Sasl => Self::Sasl,
            OpCode::GetEphemerals => Self::GetEphemerals { prefix: r.string()? },
            OpCode::GetAllChildrenNumber => Self::GetAllChildrenNumber { path: r.string()? },
            OpCode::AddWatch => Self::AddWatch { path: r.string()?, mode: r.int()? },
            OpCode::WhoAmI => Self::WhoAmI,
            OpCode::CloseSession => Self::CloseSession,
            OpCode::CreateSession => {
                return Err(DecodeError::Unknown { what: "client operation", value: op.code() });
            }
        })
    }

    /// The code of the operation.
    pub fn op(&self) -> OpCode {
        match self {
            Self::Create { op, .. } => *op,
            Self::Delete { .. } => OpCode::Delete,
            Self::DeleteContainer { .. } => OpCode::DeleteContainer,
            Self::Exists { .. } => OpCode::Exists,
            Self::GetData { .. } => OpCode::GetData,
            Self::SetData { .. } => OpCode::SetData,
            Self::GetAcl { .. } => OpCode::GetAcl,
            Self::SetAcl { .. } => OpCode::SetAcl,
            Self::GetChildren { .. } => OpCode::GetChildren,
            Self::GetChildren2 { .. } => OpCode::GetChildren2,
            Self::Sync { .. } => OpCode::Sync,
            Self::Ping => OpCode::Ping,
            Self::Check { .. } => OpCode::Check,
            Self::Multi(_) => OpCode::Multi,
            Self::MultiRead(_) => OpCode::MultiRead,
            Self::Reconfig => OpCode::Reconfig,
            Self::CheckWatches { .. } => OpCode::CheckWatches,
            Self::RemoveWatches { .. } => OpCode::RemoveWatches,
            Self::Auth { .. } => OpCode::Auth,
            Self::SetWatches(_) => OpCode::SetWatches,
            Self::SetWatches2(_) => OpCode::SetWatches2,
            Self::Sasl => OpCode::Sasl,
            Self::GetEphemerals { .. } => OpCode::GetEphemerals,
            Self::GetAllChildrenNumber { .. } => OpCode::GetAllChildrenNumber,
            Self::AddWatch { .. } => OpCode::AddWatch,
            Self::WhoAmI => OpCode::WhoAmI,
            Self::CloseSession => OpCode::CloseSession,
        }
    }

    /// Appends header and body, as a client sends them.
    pub fn encode(&self, xid: i32, out: &mut Vec<u8>) {
        out.put_int(xid);
        out.put_int(self.op().code());
        match self {
            Self::Create { create, .. } => create.encode(out),
            Self::Delete { path, version } | Self::Check { path, version } => {
                out.put_string(path);
                out.put_int(*version);
            }
            Self::Exists { path, watch }
            | Self::GetData { path, watch }
            | Self::GetChildren { path, watch }
            | Self::GetChildren2 { path, watch } => {
                out.put_string(path);
                out.put_bool(*watch);
            }
            Self::SetData { path, data, version } => {
                out.put_string(path);
                out.put_buffer(*data);
                out.put_int(*version);
            }
            Self::SetAcl { path, acl, version } => {
                out.put_string(path);
                out.put_vector(acl, |out, acl| acl.encode(out));
                out.put_int(*version);
            }
            Self::GetAcl { path }
            | Self::Sync { path }
            | Self::DeleteContainer { path }
            | Self::GetAllChildrenNumber { path }
            | Self::GetEphemerals { prefix: path } => out.put_string(path),
            Self::Multi(ops) | Self::MultiRead(ops) => multi::encode_ops(ops, out),
            Self::CheckWatches { path, kind: number }
            | Self::RemoveWatches { path, kind: number }
            | Self::AddWatch { path, mode: number } => {
                out.put_string(path);
                out.put_int(*number);
            }
            Self::Auth { scheme, credentials } => {
                out.put_int(0);
                out.put_string(scheme);
                out.put_buffer(Some(credentials));
            }
            Self::SetWatches(watches) => encode_set_watches(watches, false, out),
            Self::SetWatches2(watches) => encode_set_watches(watches, true, out),
            Self::Reconfig => {
                for _ in 0..3 {
                    out.put_buffer(None);
                }
                out.put_long(-1);
            }
            Self::Sasl => out.put_buffer(None),
            Self::Ping | Self::WhoAmI | Self::CloseSession => {}
        }
    }
}

fn decode_set_watches<'a>(r: &mut Reader<'a>, second: bool) -> Result<SetWatches<'a>, DecodeError> {
    let mut watches = SetWatches {
        relative_zxid: r.long()?,
        data: r.vector()?,
        exist: r.vector()?,
        child: r.vector()?,
        ..SetWatches::default()
    };
    if second {
        watches.persistent = r.vector()?;
        watches.recursive = r.vector()?;
    }
    Ok(watches)
}

fn encode_set_watches(watches: &SetWatches<'_>, second: bool, out: &mut Vec<u8>) {
    out.put_long(watches.relative_zxid);
    let put = |out: &mut Vec<u8>, paths: &[&str]| out.put_vector(paths, |out, path| out.put_string(path));
    put(out, &watches.data);
    put(out, &watches.exist);
    put(out, &watches.child);
    if second {
        put(out, &watches.persistent);
        put(out, &watches.recursive);
    }
}
