//! The ZooKeeper client protocol as values: bytes in, values out, and back. No IO, no clock, no state.
//! Not here: sockets, sessions and what a server does with a request (`menagerie-keeper`).
//!
//! # Layout
//! - [`jute`]: the primitive encoding (integers, strings, buffers, vectors) with a bounded [`Reader`].
//! - [`frame`]: length-prefixed frames, and telling a four-letter word from a length.
//! - [`handshake`]: the connect request and response that open every connection.
//! - [`request`] and [`response`]: the body of each operation; [`multi`] for the two that nest others.
//! - [`event`]: watch notifications and the watch kinds.
//! - [`data`]: `Stat`, ACLs and identities; [`code`]: operation and error codes.
//!
//! # Invariants
//! - A decoder never allocates more than a small multiple of the bytes it was given, and never panics.
//! - Every value borrows from the bytes that it was decoded from; to keep the value, keep the bytes.

pub mod code;
pub mod data;
pub mod event;
pub mod frame;
pub mod handshake;
pub mod jute;
pub mod multi;
pub mod request;
pub mod response;

pub use code::{ErrorCode, OpCode};
pub use data::{Acl, Id, Perms, Stat};
pub use event::{Event, EventKind, WatchMode, WatcherKind};
pub use frame::{FrameError, framed};
pub use handshake::{ConnectRequest, ConnectResponse};
pub use jute::{Decode, DecodeError, Reader, Write};
pub use multi::{MultiOp, MultiResult};
pub use request::{Request, RequestHeader};
pub use response::{ReplyHeader, Response};

/// The largest frame a server accepts by default: Apache's `jute.maxbuffer`.
pub const FRAME_BYTES_MAX: usize = 1024 * 1024 - 1;
