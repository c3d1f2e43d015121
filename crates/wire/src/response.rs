//! Replies: a header, then, when the operation succeeded, its record.

use crate::code::{ErrorCode, OpCode};
use crate::data::{Acl, Id, Stat};
use crate::jute::{Decode, DecodeError, Reader, Write};
use crate::multi::{self, MultiResult};

/// The header of every reply and notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyHeader {
    /// The request's number, or one of the reserved ones.
    pub xid: i32,
    /// The last transaction the server had applied.
    pub zxid: i64,
    /// Success, or the error.
    pub err: ErrorCode,
}

impl ReplyHeader {
    /// Reads the header and leaves the reader at the body.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { xid: r.int()?, zxid: r.long()?, err: ErrorCode(r.int()?) })
    }

    /// Appends the header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_int(self.xid);
        out.put_long(self.zxid);
        out.put_int(self.err.0);
    }
}

/// The body of a successful reply.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the protocol")]
pub enum Response<'a> {
    /// Pings, deletions, credentials, watches set again or removed: a header without a body.
    Empty,
    Path(&'a str),
    Created2 {
        path: &'a str,
        stat: Stat,
    },
    Stat(Stat),
    Data {
        data: Option<&'a [u8]>,
        stat: Stat,
    },
    Acl {
        acl: Vec<Acl>,
        stat: Stat,
    },
    Names(Vec<&'a str>),
    Children2 {
        names: Vec<&'a str>,
        stat: Stat,
    },
    Multi(Vec<MultiResult<'a>>),
    Number(i32),
    /// `addWatch` answers with an error code even on success; clients of the reference implementation hang up on an
    /// empty body.
    Code(ErrorCode),
    Identities(Vec<Id>),
}

impl<'a> Response<'a> {
    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let put_names = |out: &mut Vec<u8>, names: &[&str]| out.put_vector(names, |out, n| out.put_string(n));
        match self {
            Self::Empty => {}
            Self::Path(path) => out.put_string(path),
            Self::Created2 { path, stat } => {
                out.put_string(path);
                stat.encode(out);
            }
            Self::Stat(stat) => stat.encode(out),
            Self::Data { data, stat } => {
                out.put_buffer(*data);
                stat.encode(out);
            }
            Self::Acl { acl, stat } => {
                out.put_vector(acl, |out, acl| acl.encode(out));
                stat.encode(out);
            }
            Self::Names(names) => put_names(out, names),
            Self::Children2 { names, stat } => {
                put_names(out, names);
                stat.encode(out);
            }
            Self::Multi(results) => multi::encode_results(results, out),
            Self::Number(number) => out.put_int(*number),
            Self::Code(code) => out.put_int(code.0),
            Self::Identities(ids) => out.put_vector(ids, |out, id| id.encode(out)),
        }
    }

    /// Reads the body of a successful reply to `op`.
    pub fn decode(op: OpCode, r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(match op {
            OpCode::Create | OpCode::Sync => Self::Path(r.string()?),
            OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
                Self::Created2 { path: r.string()?, stat: Stat::decode(r)? }
            }
            OpCode::Exists | OpCode::SetData | OpCode::SetAcl | OpCode::Check => Self::Stat(Stat::decode(r)?),
            OpCode::GetData | OpCode::Reconfig => Self::Data { data: r.buffer()?, stat: Stat::decode(r)? },
            OpCode::GetAcl => Self::Acl { acl: r.vector()?, stat: Stat::decode(r)? },
            OpCode::GetChildren | OpCode::GetEphemerals => Self::Names(r.vector()?),
            OpCode::GetChildren2 => Self::Children2 { names: r.vector()?, stat: Stat::decode(r)? },
            OpCode::Multi | OpCode::MultiRead => Self::Multi(multi::decode_results(r)?),
            OpCode::GetAllChildrenNumber => Self::Number(r.int()?),
            OpCode::AddWatch => Self::Code(ErrorCode(r.int()?)),
            OpCode::WhoAmI => Self::Identities(r.vector()?),
            OpCode::Delete
            | OpCode::DeleteContainer
            | OpCode::Ping
            | OpCode::CheckWatches
            | OpCode::RemoveWatches
            | OpCode::Auth
            | OpCode::SetWatches
            | OpCode::SetWatches2
            | OpCode::Sasl
            | OpCode::CreateSession
            | OpCode::CloseSession => Self::Empty,
        })
    }
}
