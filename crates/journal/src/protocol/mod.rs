//! The protocol between client and server: frames with a number, a kind and a body. Described in
//! `docs/journal-format.md`.

pub(crate) mod frame;
pub(crate) mod handshake;
pub(crate) mod liveness;
#[cfg(test)]
mod tests;
pub(crate) mod values;

/// Both sides send it in their first frame. A server refuses a client of another version.
pub const PROTOCOL_VERSION: u32 = 5;
pub(crate) const MAGIC: &[u8; 4] = b"MJNL";
/// No frame is longer than this until both sides have proven that they know the token.
pub(crate) const HANDSHAKE_BYTES_MAX: u32 = 512;
/// Room in a frame besides one message: names, ids, other messages of the commit.
pub(crate) const FRAME_BYTES_EXTRA: u32 = 33 << 20;

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Hello = 0,
    Open = 1,
    Consumer = 2,
    Commit = 3,
    Read = 4,
    Trim = 5,
    Stats = 6,
    Usage = 7,
    Create = 8,
    Topics = 9,
    Alter = 10,
    Delete = 11,
    Proof = 12,
}

impl Kind {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Hello,
            1 => Self::Open,
            2 => Self::Consumer,
            3 => Self::Commit,
            4 => Self::Read,
            5 => Self::Trim,
            6 => Self::Stats,
            7 => Self::Usage,
            8 => Self::Create,
            9 => Self::Topics,
            10 => Self::Alter,
            11 => Self::Delete,
            12 => Self::Proof,
            _ => return None,
        })
    }
}

/// How a reply begins.
pub(crate) const DONE: u8 = 0;
pub(crate) const REFUSED: u8 = 1;
