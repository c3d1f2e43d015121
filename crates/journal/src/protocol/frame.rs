//! Frames: a length of four bytes, a number of eight, one byte for the kind, and the body.

use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::{Instant, timeout_at};

use crate::codec::Sink as _;

/// Length, number and kind.
pub(crate) const HEAD_BYTES: usize = 13;
/// Size of the read buffer.
const READ_BYTES: usize = 64 << 10;

/// The slowest link that must be able to transfer frames of any length, in bytes per second.
const SLOWEST: u64 = 16 << 10;

/// A received frame.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) number: u64,
    pub(crate) kind: u8,
    pub(crate) body: Bytes,
}

/// Why no more frames can be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("a frame of {len} bytes, where at most {max} are allowed")]
    Length { len: u32, max: u32 },
    #[error("the connection ended within a frame")]
    Cut,
    #[error("a frame was begun and did not come to its end in time")]
    Late,
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Begins a frame; [`finish`] ends it.
pub(crate) fn begin(number: u64, kind: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    out.put_u32(0);
    out.put_u64(number);
    out.put_u8(kind);
    out
}

/// Writes the length into a frame, of which `more` bytes follow separately.
pub(crate) fn finish(out: &mut [u8], more: usize) {
    let len = (out.len() - 4 + more) as u32;
    out[..4].copy_from_slice(&len.to_le_bytes());
}

/// The time that a frame of this length may take.
pub(super) fn time_of(len: u32) -> Duration {
    Duration::from_secs(u64::from(len) / SLOWEST)
}

/// Reads frames from a stream.
pub(crate) struct Frames<S> {
    stream: S,
    buffer: BytesMut,
    pub(crate) max: u32,
    /// Time-out for the rest of a frame once it has begun; `None`: no limit. A partial frame takes memory, so all of it
    /// must arrive within this time plus the time for its length over the slowest link.
    pub(crate) patience: Option<Duration>,
}

impl<S: AsyncRead + Unpin> Frames<S> {
    pub(crate) fn new(stream: S, max: u32) -> Self {
        Self { stream, buffer: BytesMut::new(), max, patience: None }
    }

    /// The next frame; `None` at the end. Allocates for what has arrived, not for what is announced.
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        // When the first bytes were seen. Counts only while we wait: our own delays are not the sender's fault.
        let mut begun = None;
        loop {
            if let Some(frame) = self.take()? {
                return Ok(Some(frame));
            }
            self.buffer.reserve(READ_BYTES.max(self.buffer.len() / 2));
            let until = self.patience.filter(|_| !self.buffer.is_empty()).map(|patience| {
                let now = Instant::now();
                let whole = *begun.get_or_insert(now) + patience + time_of(self.announced().unwrap_or(0));
                whole.min(now + patience)
            });
            let more = self.stream.read_buf(&mut self.buffer);
            let len = match until {
                Some(until) => timeout_at(until, more).await.map_err(|_| FrameError::Late)??,
                None => more.await?,
            };
            if len == 0 {
                return if self.buffer.is_empty() { Ok(None) } else { Err(FrameError::Cut) };
            }
        }
    }

    /// The announced length of the next frame, if it has arrived.
    fn announced(&self) -> Option<u32> {
        self.buffer.first_chunk::<4>().map(|len| u32::from_le_bytes(*len))
    }

    fn take(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(len) = self.announced() else { return Ok(None) };
        if len > self.max || (len as usize) < HEAD_BYTES - 4 {
            return Err(FrameError::Length { len, max: self.max });
        }
        if self.buffer.len() < 4 + len as usize {
            return Ok(None);
        }
        let mut body = self.buffer.split_to(4 + len as usize).freeze();
        body.advance(4);
        let (number, kind) = (body.get_u64_le(), body.get_u8());
        Ok(Some(Frame { number, kind, body }))
    }
}
