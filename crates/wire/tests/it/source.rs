//! Values made from fuzzed bytes. They borrow their strings from those bytes, as decoded values borrow from a frame, so
//! one input gives one value and the fuzzer's search for new inputs is a search for new values.

use menagerie_wire::request::{Create, SetWatches};
use menagerie_wire::{Acl, ErrorCode, Id, MultiOp, MultiResult, OpCode, Perms, Request, Response, Stat};

/// The most elements in a generated list: enough for none, one and several.
const LIST_MAX: u8 = 4;

/// Fuzzed bytes, taken from the front; zeros once they are used up.
pub struct Source<'a>(pub &'a [u8]);

impl<'a> Source<'a> {
    fn bytes(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    pub fn bool(&mut self) -> bool {
        self.byte() % 2 == 1
    }

    pub fn int(&mut self) -> i32 {
        self.bytes(4).iter().fold(0, |n, byte| n << 8 | i32::from(*byte))
    }

    pub fn long(&mut self) -> i64 {
        self.bytes(8).iter().fold(0, |n, byte| n << 8 | i64::from(*byte))
    }

    pub fn buffer(&mut self) -> &'a [u8] {
        let n = self.byte() % 32;
        self.bytes(n.into())
    }

    pub fn buffer_or_null(&mut self) -> Option<&'a [u8]> {
        self.bool().then(|| self.buffer())
    }

    /// As much of a buffer as is UTF-8.
    pub fn string(&mut self) -> &'a str {
        let bytes = self.buffer();
        bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid())
    }

    pub fn list<T>(&mut self, mut element: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.byte() % (LIST_MAX + 1)).map(|_| element(self)).collect()
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.byte()) % choices.len()]
    }

    pub fn op(&mut self) -> OpCode {
        self.one_of(&OpCode::ALL)
    }

    pub fn stat(&mut self) -> Stat {
        Stat {
            czxid: self.long(),
            mzxid: self.long(),
            ctime: self.long(),
            mtime: self.long(),
            version: self.int(),
            cversion: self.int(),
            aversion: self.int(),
            ephemeral_owner: self.long(),
            data_length: self.int(),
            num_children: self.int(),
            pzxid: self.long(),
        }
    }

    pub fn id(&mut self) -> Id {
        Id::new(self.string(), self.string())
    }

    pub fn acl(&mut self) -> Acl {
        Acl { perms: Perms(self.int()), id: self.id() }
    }

    /// Any of the four operations that create.
    fn create(&mut self) -> (OpCode, Create<'a>) {
        let op = self.one_of(&[OpCode::Create, OpCode::Create2, OpCode::CreateContainer, OpCode::CreateTtl]);
        let create = Create {
            path: self.string(),
            data: self.buffer_or_null(),
            acl: self.list(Self::acl),
            flags: self.int(),
            ttl: (op == OpCode::CreateTtl).then(|| self.long()),
        };
        (op, create)
    }

    fn multi_op(&mut self) -> MultiOp<'a> {
        match self.byte() % 6 {
            0 => {
                let (op, create) = self.create();
                MultiOp::Create { op, create }
            }
            1 => MultiOp::Delete { path: self.string(), version: self.int() },
            2 => MultiOp::SetData { path: self.string(), data: self.buffer_or_null(), version: self.int() },
            3 => MultiOp::Check { path: self.string(), version: self.int() },
            4 => MultiOp::GetData { path: self.string(), watch: self.bool() },
            _ => MultiOp::GetChildren { path: self.string(), watch: self.bool() },
        }
    }

    fn multi_result(&mut self) -> MultiResult<'a> {
        match self.byte() % 8 {
            0 => MultiResult::Created { path: self.string() },
            1 => MultiResult::Created2 { path: self.string(), stat: self.stat() },
            2 => MultiResult::Deleted,
            3 => MultiResult::DataSet(self.stat()),
            4 => MultiResult::Checked,
            5 => MultiResult::Data { data: self.buffer_or_null(), stat: self.stat() },
            6 => MultiResult::Children(self.list(Self::string)),
            _ => MultiResult::Error(ErrorCode(self.int())),
        }
    }

    fn set_watches(&mut self, second: bool) -> SetWatches<'a> {
        let mut watches = SetWatches {
            relative_zxid: self.long(),
            data: self.list(Self::string),
            exist: self.list(Self::string),
            child: self.list(Self::string),
            ..SetWatches::default()
        };
        if second {
            watches.persistent = self.list(Self::string);
            watches.recursive = self.list(Self::string);
        }
        watches
    }

    /// Any request.
    pub fn request(&mut self) -> Request<'a> {
        match self.op() {
            OpCode::Create
            | OpCode::Create2
            | OpCode::CreateContainer
            | OpCode::CreateTtl
            | OpCode::CreateSession => {
                let (op, create) = self.create();
                Request::Create { op, create }
            }
            OpCode::Delete => Request::Delete { path: self.string(), version: self.int() },
            OpCode::DeleteContainer => Request::DeleteContainer { path: self.string() },
            OpCode::Exists => Request::Exists { path: self.string(), watch: self.bool() },
            OpCode::GetData => Request::GetData { path: self.string(), watch: self.bool() },
            OpCode::SetData => {
                Request::SetData { path: self.string(), data: self.buffer_or_null(), version: self.int() }
            }
            OpCode::GetAcl => Request::GetAcl { path: self.string() },
            OpCode::SetAcl => {
                Request::SetAcl { path: self.string(), acl: self.list(Self::acl), version: self.int() }
            }
            OpCode::GetChildren => Request::GetChildren { path: self.string(), watch: self.bool() },
            OpCode::GetChildren2 => Request::GetChildren2 { path: self.string(), watch: self.bool() },
            OpCode::Sync => Request::Sync { path: self.string() },
            OpCode::Ping => Request::Ping,
            OpCode::Check => Request::Check { path: self.string(), version: self.int() },
            OpCode::Multi => Request::Multi(self.list(Self::multi_op)),
            OpCode::MultiRead => Request::MultiRead(self.list(Self::multi_op)),
            OpCode::Reconfig => Request::Reconfig,
            OpCode::CheckWatches => Request::CheckWatches { path: self.string(), kind: self.int() },
            OpCode::RemoveWatches => Request::RemoveWatches { path: self.string(), kind: self.int() },
            OpCode::Auth => Request::Auth { scheme: self.string(), credentials: self.buffer() },
            OpCode::SetWatches => Request::SetWatches(self.set_watches(false)),
            OpCode::SetWatches2 => Request::SetWatches2(self.set_watches(true)),
            OpCode::Sasl => Request::Sasl,
            OpCode::GetEphemerals => Request::GetEphemerals { prefix: self.string() },
            OpCode::GetAllChildrenNumber => Request::GetAllChildrenNumber { path: self.string() },
            OpCode::AddWatch => Request::AddWatch { path: self.string(), mode: self.int() },
            OpCode::WhoAmI => Request::WhoAmI,
            OpCode::CloseSession => Request::CloseSession,
        }
    }

    /// Any operation, and any answer that it can have.
    pub fn response(&mut self) -> (OpCode, Response<'a>) {
        let op = self.op();
        let response = match op {
            OpCode::Create | OpCode::Sync => Response::Path(self.string()),
            OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
                Response::Created2 { path: self.string(), stat: self.stat() }
            }
            OpCode::Exists | OpCode::SetData | OpCode::SetAcl | OpCode::Check => Response::Stat(self.stat()),
            OpCode::GetData | OpCode::Reconfig => {
                Response::Data { data: self.buffer_or_null(), stat: self.stat() }
            }
            OpCode::GetAcl => Response::Acl { acl: self.list(Self::acl), stat: self.stat() },
            OpCode::GetChildren | OpCode::GetEphemerals => Response::Names(self.list(Self::string)),
            OpCode::GetChildren2 => Response::Children2 { names: self.list(Self::string), stat: self.stat() },
            OpCode::Multi | OpCode::MultiRead => Response::Multi(self.list(Self::multi_result)),
            OpCode::GetAllChildrenNumber => Response::Number(self.int()),
            OpCode::AddWatch => Response::Code(ErrorCode(self.int())),
            OpCode::WhoAmI => Response::Identities(self.list(Self::id)),
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
            | OpCode::CloseSession => Response::Empty,
        };
        (op, response)
    }
}
