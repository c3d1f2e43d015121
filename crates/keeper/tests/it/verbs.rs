//! Shorthands for the tests' most common requests.

use menagerie_testkit::{Incoming, Notification, RawClient, Reply};
use menagerie_wire::request::Create;
use menagerie_wire::{Acl, ErrorCode, OpCode, Request, Response, Stat};

/// A znode as read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadZnode {
    pub data: Vec<u8>,
    pub stat: Stat,
}

/// Requests with the usual arguments. Writes return their zxid.
pub trait Verbs {
    fn create(&mut self, path: &str, data: &[u8]) -> i64;
    fn create_ephemeral(&mut self, path: &str) -> i64;
    fn set(&mut self, path: &str, data: &[u8]) -> i64;
    fn delete(&mut self, path: &str) -> i64;
    fn find(&mut self, path: &str) -> Option<ReadZnode>;
    fn watch_data(&mut self, path: &str);
    fn watch_children(&mut self, path: &str);
    fn add_watch(&mut self, path: &str, mode: i32);
    /// All notifications that arrive before the answer to a ping.
    fn notifications(&mut self) -> Vec<Notification>;
    fn close(self) -> i64;
}

/// A creation; the flags are those of the protocol.
pub fn creation<'a>(path: &'a str, data: &'a [u8], flags: i32) -> Request<'a> {
    let create = Create { path, data: Some(data), acl: vec![Acl::open()], flags, ttl: None };
    Request::Create { op: OpCode::Create, create }
}

/// The zxid of a write that must have succeeded.
#[track_caller]
pub fn accepted(reply: &Reply) -> i64 {
    assert_eq!(reply.header.err, ErrorCode::Ok);
    reply.header.zxid
}

impl Verbs for RawClient {
    #[track_caller]
    fn create(&mut self, path: &str, data: &[u8]) -> i64 {
        accepted(&self.call(&creation(path, data, 0)))
    }

    #[track_caller]
    fn create_ephemeral(&mut self, path: &str) -> i64 {
        accepted(&self.call(&creation(path, b"", 1)))
    }

    #[track_caller]
    fn set(&mut self, path: &str, data: &[u8]) -> i64 {
        accepted(&self.call(&Request::SetData { path, data: Some(data), version: -1 }))
    }

    #[track_caller]
    fn delete(&mut self, path: &str) -> i64 {
        accepted(&self.call(&Request::Delete { path, version: -1 }))
    }

    #[track_caller]
    fn find(&mut self, path: &str) -> Option<ReadZnode> {
        found(&self.call(&Request::GetData { path, watch: false }))
    }

    #[track_caller]
    fn watch_data(&mut self, path: &str) {
        // The answer does not matter: a missing znode is watched like an existing one.
        self.call(&Request::Exists { path, watch: true });
    }

    #[track_caller]
    fn watch_children(&mut self, path: &str) {
        accepted(&self.call(&Request::GetChildren { path, watch: true }));
    }

    #[track_caller]
    fn add_watch(&mut self, path: &str, mode: i32) {
        accepted(&self.call(&Request::AddWatch { path, mode }));
    }

    #[track_caller]
    fn notifications(&mut self) -> Vec<Notification> {
        self.ping();
        self.take_events()
    }

    #[track_caller]
    fn close(mut self) -> i64 {
        let zxid = accepted(&self.call(&Request::CloseSession));
        assert_closed(&mut self);
        zxid
    }
}

/// What an answer to `getData` holds; `None` when there is no such znode.
#[track_caller]
pub fn found(reply: &Reply) -> Option<ReadZnode> {
    if reply.header.err == ErrorCode::NoNode {
        return None;
    }
    assert_eq!(reply.header.err, ErrorCode::Ok);
    match reply.response(OpCode::GetData) {
        Ok(Response::Data { data, stat }) => {
            Some(ReadZnode { data: data.unwrap_or_default().to_vec(), stat })
        }
        other => panic!("not an answer to getData: {other:?}"),
    }
}

/// Nothing more comes, and the connection ends.
#[track_caller]
pub fn assert_closed(client: &mut RawClient) {
    assert_eq!(client.reply(menagerie_testkit::DEADLINE), Some(Incoming::Closed));
}
