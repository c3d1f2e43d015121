//! `multi` and `multiRead`: several operations in one request, each after a small header, closed by an end marker.

use crate::code::{ErrorCode, OpCode};
use crate::data::Stat;
use crate::jute::{Decode, DecodeError, Reader, Write};
use crate::request::Create;

/// One operation inside a `multi` or a `multiRead`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the protocol")]
pub enum MultiOp<'a> {
    Create { op: OpCode, create: Create<'a> },
    Delete { path: &'a str, version: i32 },
    SetData { path: &'a str, data: Option<&'a [u8]>, version: i32 },
    Check { path: &'a str, version: i32 },
    GetData { path: &'a str, watch: bool },
    GetChildren { path: &'a str, watch: bool },
}

impl MultiOp<'_> {
    fn op(&self) -> OpCode {
        match self {
            Self::Create { op, .. } => *op,
            Self::Delete { .. } => OpCode::Delete,
            Self::SetData { .. } => OpCode::SetData,
            Self::Check { .. } => OpCode::Check,
            Self::GetData { .. } => OpCode::GetData,
            Self::GetChildren { .. } => OpCode::GetChildren,
        }
    }

    /// Whether it belongs in a `multiRead` and not in a `multi`.
    pub fn is_read(&self) -> bool {
        matches!(self, Self::GetData { .. } | Self::GetChildren { .. })
    }
}

fn put_header(out: &mut Vec<u8>, kind: i32, done: bool, err: i32) {
    out.put_int(kind);
    out.put_bool(done);
    out.put_int(err);
}

fn put_end(out: &mut Vec<u8>) {
    put_header(out, -1, true, -1);
}

/// Reads the header of the next element: its kind and error, or `None` at the end marker.
fn next_header(r: &mut Reader<'_>) -> Result<Option<(i32, i32)>, DecodeError> {
    let kind = r.int()?;
    let done = r.bool()?;
    let err = r.int()?;
    Ok((!done).then_some((kind, err)))
}

pub(crate) fn decode_ops<'a>(r: &mut Reader<'a>) -> Result<Vec<MultiOp<'a>>, DecodeError> {
    let mut ops = Vec::new();
    while let Some((kind, _)) = next_header(r)? {
        let unknown = DecodeError::Unknown { what: "operation in a multi", value: kind };
        let op = OpCode::from_code(kind).ok_or(unknown)?;
        ops.push(match op {
            OpCode::Create | OpCode::Create2 | OpCode::CreateContainer => {
                MultiOp::Create { op, create: Create::decode(r, false)? }
            }
            OpCode::CreateTtl => MultiOp::Create { op, create: Create::decode(r, true)? },
            OpCode::Delete => MultiOp::Delete { path: r.string()?, version: r.int()? },
            OpCode::SetData => MultiOp::SetData { path: r.string()?, data: r.buffer()?, version: r.int()? },
            OpCode::Check => MultiOp::Check { path: r.string()?, version: r.int()? },
            OpCode::GetData => MultiOp::GetData { path: r.string()?, watch: r.bool()? },
            OpCode::GetChildren => MultiOp::GetChildren { path: r.string()?, watch: r.bool()? },
            _ => return Err(unknown),
        });
    }
    Ok(ops)
}

pub(crate) fn encode_ops(ops: &[MultiOp<'_>], out: &mut Vec<u8>) {
    for op in ops {
        put_header(out, op.op().code(), false, -1);
        match op {
            MultiOp::Create { create, .. } => create.encode(out),
            MultiOp::Delete { path, version } | MultiOp::Check { path, version } => {
                out.put_string(path);
                out.put_int(*version);
            }
            MultiOp::SetData { path, data, version } => {
                out.put_string(path);
                out.put_buffer(*data);
                out.put_int(*version);
            }
            MultiOp::GetData { path, watch } | MultiOp::GetChildren { path, watch } => {
                out.put_string(path);
                out.put_bool(*watch);
            }
        }
    }
    put_end(out);
}

/// The result of one operation of a `multi` or a `multiRead`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the protocol")]
pub enum MultiResult<'a> {
    Created { path: &'a str },
    Created2 { path: &'a str, stat: Stat },
    Deleted,
    DataSet(Stat),
    Checked,
    Data { data: Option<&'a [u8]>, stat: Stat },
    Children(Vec<&'a str>),
    Error(ErrorCode),
}

impl MultiResult<'_> {
    /// Appends the header and the result.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let kind = match self {
            Self::Created { .. } => OpCode::Create.code(),
            Self::Created2 { .. } => OpCode::Create2.code(),
            Self::Deleted => OpCode::Delete.code(),
            Self::DataSet(_) => OpCode::SetData.code(),
            Self::Checked => OpCode::Check.code(),
            Self::Data { .. } => OpCode::GetData.code(),
            Self::Children(_) => OpCode::GetChildren.code(),
            Self::Error(code) => {
                put_header(out, -1, false, code.0);
                out.put_int(code.0);
                return;
            }
        };
        put_header(out, kind, false, 0);
        match self {
            Self::Created { path } => out.put_string(path),
            Self::Created2 { path, stat } => {
                out.put_string(path);
                stat.encode(out);
            }
            Self::DataSet(stat) => stat.encode(out),
            Self::Data { data, stat } => {
                out.put_buffer(*data);
                stat.encode(out);
            }
            Self::Children(names) => out.put_vector(names, |out, name| out.put_string(name)),
            Self::Deleted | Self::Checked | Self::Error(_) => {}
        }
    }
}

/// Appends all results and the end marker.
pub fn encode_results(results: &[MultiResult<'_>], out: &mut Vec<u8>) {
    for result in results {
        result.encode(out);
    }
    put_end(out);
}

/// Reads results up to the end marker.
pub fn decode_results<'a>(r: &mut Reader<'a>) -> Result<Vec<MultiResult<'a>>, DecodeError> {
    let mut results = Vec::new();
    while let Some((kind, _)) = next_header(r)? {
        if kind == -1 {
            results.push(MultiResult::Error(ErrorCode(r.int()?)));
            continue;
        }
        let unknown = DecodeError::Unknown { what: "result in a multi", value: kind };
        results.push(match OpCode::from_code(kind).ok_or(unknown)? {
            OpCode::Create => MultiResult::Created { path: r.string()? },
            OpCode::Create2 => MultiResult::Created2 { path: r.string()?, stat: Stat::decode(r)? },
            OpCode::Delete => MultiResult::Deleted,
            OpCode::SetData => MultiResult::DataSet(Stat::decode(r)?),
            OpCode::Check => MultiResult::Checked,
            OpCode::GetData => MultiResult::Data { data: r.buffer()?, stat: Stat::decode(r)? },
            OpCode::GetChildren => MultiResult::Children(r.vector()?),
            _ => return Err(unknown),
        });
    }
    Ok(results)
}
