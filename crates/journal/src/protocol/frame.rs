//! Frames: a length of four bytes, a number of eight, one byte that says what it is, and the body.

use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::timeout;

use crate::codec::Sink as _;

/// Length, number and kind.
pub(crate) const HEAD_BYTES: usize = 13;
/// So much is read at once, and kept ready for it.
const READ_BYTES: usize = 64 << 10;

/// A frame that came.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) number: u64,
    pub(crate) kind: u8,
    pub(crate) body: Bytes,
}

/// Why no frame comes any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("a frame of {len} bytes, where at most {max} are allowed")]
    Length { len: u32, max: u32 },
    #[error("the connection ended within a frame")]
    Cut,
    #[error("a frame was begun, and no more of it came")]
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

/// Puts the length into a frame, of which `more` bytes follow elsewhere.
pub(crate) fn finish(out: &mut [u8], more: usize) {
    let len = (out.len() - 4 + more) as u32;
    out[..4].copy_from_slice(&len.to_le_bytes());
}

/// Takes frames from a stream.
pub(crate) struct Frames<S> {
    stream: S,
    buffer: BytesMut,
    pub(crate) max: u32,
    /// How long to wait for more of a frame that was begun; nothing for ever. What came of it is held in memory.
    pub(crate) patience: Option<Duration>,
}

impl<S: AsyncRead + Unpin> Frames<S> {
    pub(crate) fn new(stream: S, max: u32) -> Self {
        Self { stream, buffer: BytesMut::new(), max, patience: None }
    }

    /// The next frame; nothing at the end. What is allocated grows with what has come, not with what is announced.
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        loop {
            if let Some(frame) = self.take()? {
                return Ok(Some(frame));
            }
            self.buffer.reserve(READ_BYTES.max(self.buffer.len() / 2));
            let patience = self.patience.filter(|_| !self.buffer.is_empty());
            let more = self.stream.read_buf(&mut self.buffer);
            let len = match patience {
                Some(patience) => timeout(patience, more).await.map_err(|_| FrameError::Late)??,
                None => more.await?,
            };
            if len == 0 {
                return if self.buffer.is_empty() { Ok(None) } else { Err(FrameError::Cut) };
            }
        }
    }

    fn take(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(len) = self.buffer.first_chunk::<4>().map(|len| u32::from_le_bytes(*len)) else {
            return Ok(None);
        };
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
