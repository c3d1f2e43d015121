//! The expected znodes of one worker: a ZooKeeper in a few lines, to compare the real one with.

use std::collections::BTreeMap;

use menagerie_wire::{ErrorCode, MultiOp, OpCode, Request};

use crate::ask::{ANY, EPHEMERAL, PERSISTENT, creation, delete, set};
use crate::dice::Dice;

/// Znodes per worker: few, so that most operations meet an existing one.
const KEYS: u64 = 8;

/// A znode as a worker expects it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedZnode {
    pub data: Vec<u8>,
    pub version: i32,
    pub ephemeral: bool,
}

/// All znodes of one worker, by path.
pub type Znodes = BTreeMap<String, ExpectedZnode>;

/// One write. All happen below the worker's own znode.
#[derive(Debug, Clone)]
pub enum Write {
    Create {
        path: String,
        data: Vec<u8>,
        ephemeral: bool,
    },
    Set {
        path: String,
        data: Vec<u8>,
    },
    Delete {
        path: String,
    },
    /// Sets both znodes, or neither.
    SetBoth {
        first: String,
        second: String,
        data: Vec<u8>,
    },
    /// Creates one and deletes another, or neither.
    Swap {
        created: String,
        deleted: String,
        data: Vec<u8>,
    },
}

impl Write {
    pub fn random(root: &str, dice: &mut Dice) -> Self {
        let mut path = || format!("{root}/{}", dice.below(KEYS));
        let (first, second) = (path(), path());
        let data = dice.bytes();
        match dice.below(10) {
            0..3 => Self::Create { path: first, data, ephemeral: dice.below(4) == 0 },
            3..6 => Self::Set { path: first, data },
            6 => Self::Delete { path: first },
            7..9 => Self::SetBoth { first, second, data },
            _ => Self::Swap { created: first, deleted: second, data },
        }
    }

    /// Passes the request to `send`.
    pub fn with_request<T>(&self, send: impl FnOnce(&Request<'_>) -> T) -> T {
        let request = match self {
            Self::Create { path, data, ephemeral } => {
                let flags = if *ephemeral { EPHEMERAL } else { PERSISTENT };
                Request::Create { op: OpCode::Create, create: creation(path, data, flags) }
            }
            Self::Set { path, data } => set(path, data),
            Self::Delete { path } => delete(path),
            Self::SetBoth { first, second, data } => Request::Multi(
                [first, second]
                    .map(|path| MultiOp::SetData { path, data: Some(data), version: ANY })
                    .to_vec(),
            ),
            Self::Swap { created, deleted, data } => Request::Multi(vec![
                MultiOp::Create { op: OpCode::Create, create: creation(created, data, PERSISTENT) },
                MultiOp::Delete { path: deleted, version: ANY },
            ]),
        };
        send(&request)
    }

    /// Applies the write and returns its error code. A failed multi is answered with success and errors inside; this
    /// returns the error.
    pub fn apply(&self, znodes: &mut Znodes) -> ErrorCode {
        match self {
            Self::Create { path, data, ephemeral } => create(znodes, path, data, *ephemeral),
            Self::Set { path, data } => change(znodes, path, data),
            Self::Delete { path } => remove(znodes, path),
            Self::SetBoth { first, second, data } => {
                together(znodes, |znodes| [change(znodes, first, data), change(znodes, second, data)])
            }
            Self::Swap { created, deleted, data } => {
                together(znodes, |znodes| [create(znodes, created, data, false), remove(znodes, deleted)])
            }
        }
    }
}

fn create(znodes: &mut Znodes, path: &str, data: &[u8], ephemeral: bool) -> ErrorCode {
    if znodes.contains_key(path) {
        return ErrorCode::NodeExists;
    }
    znodes.insert(path.to_owned(), ExpectedZnode { data: data.to_owned(), version: 0, ephemeral });
    ErrorCode::Ok
}

fn change(znodes: &mut Znodes, path: &str, data: &[u8]) -> ErrorCode {
    let Some(entry) = znodes.get_mut(path) else { return ErrorCode::NoNode };
    entry.data = data.to_owned();
    entry.version += 1;
    ErrorCode::Ok
}

fn remove(znodes: &mut Znodes, path: &str) -> ErrorCode {
    if znodes.remove(path).is_some() { ErrorCode::Ok } else { ErrorCode::NoNode }
}

fn together(znodes: &mut Znodes, parts: impl FnOnce(&mut Znodes) -> [ErrorCode; 2]) -> ErrorCode {
    let mut after = znodes.clone();
    let results = parts(&mut after);
    // The reply to a failed multi names the culprit in its body; its header has the same code.
    let failed = results.into_iter().find(|code| *code != ErrorCode::Ok);
    if failed.is_none() {
        *znodes = after;
    }
    failed.unwrap_or(ErrorCode::Ok)
}
