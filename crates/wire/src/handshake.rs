//! The records that open a connection.

use crate::jute::{DecodeError, Reader, Write};

/// What a client sends first: a new session, or one to resume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectRequest<'a> {
    /// Always 0.
    pub protocol_version: i32,
    /// The newest transaction the client has seen; a server that lags behind it must not serve the client.
    pub last_zxid_seen: i64,
    /// The time-out the client asks for.
    pub timeout_ms: i32,
    /// 0 for a new session.
    pub session_id: i64,
    /// The password that came with the session.
    pub password: &'a [u8],
    /// Whether a read-only server is acceptable. `None` if the client is too old to say.
    pub read_only: Option<bool>,
}

impl<'a> ConnectRequest<'a> {
    /// Decodes the record; ignores bytes after it, as other servers do.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        Ok(Self {
            protocol_version: r.int()?,
            last_zxid_seen: r.long()?,
            timeout_ms: r.int()?,
            session_id: r.long()?,
            password: r.buffer()?.unwrap_or_default(),
            read_only: if r.rest().is_empty() { None } else { Some(r.bool()?) },
        })
    }

    /// Appends the record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_int(self.protocol_version);
        out.put_long(self.last_zxid_seen);
        out.put_int(self.timeout_ms);
        out.put_long(self.session_id);
        out.put_buffer(Some(self.password));
        if let Some(read_only) = self.read_only {
            out.put_bool(read_only);
        }
    }
}

/// The server's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectResponse<'a> {
    /// The time-out granted; 0 when the session is refused.
    pub timeout_ms: i32,
    /// The session; 0 when it is refused.
    pub session_id: i64,
    /// The password to resume the session with.
    pub password: &'a [u8],
    /// Present only for clients that sent theirs: older ones choke on it.
    pub read_only: Option<bool>,
}

impl<'a> ConnectResponse<'a> {
    /// The refusal of a session that does not exist any more, or never did.
    pub fn refusal(read_only: Option<bool>) -> Self {
        ConnectResponse { timeout_ms: 0, session_id: 0, password: &[0; 16], read_only }
    }

    /// Reads the record.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        r.int()?;
        Ok(Self {
            timeout_ms: r.int()?,
            session_id: r.long()?,
            password: r.buffer()?.unwrap_or_default(),
            read_only: if r.rest().is_empty() { None } else { Some(r.bool()?) },
        })
    }

    /// Appends the record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_int(0);
        out.put_int(self.timeout_ms);
        out.put_long(self.session_id);
        out.put_buffer(Some(self.password));
        if let Some(read_only) = self.read_only {
            out.put_bool(read_only);
        }
    }
}
