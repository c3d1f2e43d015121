//! What a script is made of. Steps are encoded when they are generated: what is sent is then the same on both servers to
//! the byte, and a malformed request is a step like any other.

use menagerie_wire::Request;
use menagerie_wire::request::xid;

/// How many sessions a script plays with.
pub const SLOTS: usize = 4;

/// One step, taken by the session in that slot.
#[derive(Debug, Clone)]
pub struct Step {
    pub slot: usize,
    pub action: Action,
}

#[derive(Debug, Clone)]
pub enum Action {
    /// A request; its reply is awaited.
    Send(Message),
    /// The session closes itself; another takes its slot.
    Close,
    /// The session comes back on a new connection.
    Resume(Resume),
    /// The connection ends while requests are under way; the session comes back on another one and looks.
    Cut(Cut),
    /// A stranger connects who claims to have seen the future.
    ConnectAhead,
}

/// How a session comes back.
#[derive(Debug, Clone)]
pub struct Resume {
    /// Whether the old connection is dropped first, or taken over while it lives.
    pub drop_first: bool,
    /// Whether a stranger with a wrong password tries first. Only together with `drop_first`: see `known`.
    pub stranger_first: bool,
    /// The time-out to ask for.
    pub timeout_ms: i32,
    /// The byte at the end of the handshake, or none.
    pub read_only: Option<bool>,
}

/// How a connection ends in the middle of requests.
#[derive(Debug, Clone)]
pub struct Cut {
    /// What the server has read by then, and has perhaps not answered.
    pub under_way: Vec<Message>,
    /// Whether the old connection is dropped first, or taken over while it lives.
    pub drop_first: bool,
    /// The time-out to ask for.
    pub timeout_ms: i32,
    /// What the session asks first when it is back.
    pub first: Message,
}

/// An encoded request.
#[derive(Debug, Clone)]
pub struct Message {
    /// What it is, for people.
    pub label: String,
    /// The number to send it under; `None` for the session's next.
    pub xid: Option<i32>,
    pub op: i32,
    pub body: Vec<u8>,
    /// Whether the body starts with a transaction counted from the script's start.
    pub starts_with_zxid: bool,
}

impl Message {
    /// The request as clients send it.
    pub fn new(request: &Request<'_>) -> Self {
        let mut body = Vec::new();
        request.encode(0, &mut body);
        body.drain(..8);
        let is_set_watches = matches!(request, Request::SetWatches(_) | Request::SetWatches2(_));
        Self {
            label: format!("{request:?}"),
            xid: match request {
                Request::Ping => Some(xid::PING),
                Request::Auth { .. } => Some(xid::AUTH),
                _ if is_set_watches => Some(xid::SET_WATCHES),
                _ => None,
            },
            op: request.op().code(),
            body,
            starts_with_zxid: is_set_watches,
        }
    }

    /// The bytes of the body, once it is known at which transaction the script started.
    pub fn body_from(&self, base_zxid: i64) -> Vec<u8> {
        let mut body = self.body.clone();
        if self.starts_with_zxid
            && let Some(zxid) = body.first_chunk_mut::<8>()
        {
            *zxid = (i64::from_be_bytes(*zxid) + base_zxid).to_be_bytes();
        }
        body
    }
}
