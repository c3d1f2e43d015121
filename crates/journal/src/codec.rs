//! Encoding and decoding, for the log, the snapshots and the protocol. Numbers are little endian.

use bytes::{Buf as _, Bytes};
use thiserror::Error;

/// Bytes that do not decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub(crate) &'static str);

const SHORT: Malformed = Malformed("it ends too early");

/// Bytes being decoded. Slices taken from it share its memory.
#[derive(Debug, Clone)]
pub(crate) struct Source(Bytes);

impl Source {
    pub(crate) fn new(bytes: Bytes) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<Bytes, Malformed> {
        if self.0.len() < len {
            return Err(SHORT);
        }
        Ok(self.0.split_to(len))
    }

    pub(crate) fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.0)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.0.try_get_u8().map_err(|_| SHORT)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.0.try_get_u32_le().map_err(|_| SHORT)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.0.try_get_u64_le().map_err(|_| SHORT)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Malformed> {
        self.0.try_get_i64_le().map_err(|_| SHORT)
    }

    /// Up to 255 bytes, prefixed with their length.
    pub(crate) fn short(&mut self) -> Result<Bytes, Malformed> {
        let len = self.u8()?;
        self.take(usize::from(len))
    }

    /// Bytes, prefixed with their length.
    pub(crate) fn long(&mut self) -> Result<Bytes, Malformed> {
        let len = self.u32()?;
        self.take(len as usize)
    }

    /// Text of up to 255 bytes.
    pub(crate) fn text(&mut self) -> Result<String, Malformed> {
        String::from_utf8(self.short()?.into()).map_err(|_| Malformed("a name is not UTF-8"))
    }

    /// A count of items of at least `least` bytes each. Checked against the remaining bytes before anything is
    /// allocated.
    pub(crate) fn count(&mut self, least: usize) -> Result<usize, Malformed> {
        let count = self.u32()? as usize;
        if count.saturating_mul(least) > self.0.len() {
            return Err(SHORT);
        }
        Ok(count)
    }
}

/// A target for encoded bytes.
pub(crate) trait Sink {
    fn put(&mut self, bytes: &[u8]);

    fn put_u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    fn put_i64(&mut self, value: i64) {
        self.put(&value.to_le_bytes());
    }

    /// At most 255 bytes: the caller has checked.
    fn put_short(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= 255, "checked where it came in");
        self.put_u8(bytes.len() as u8);
        self.put(bytes);
    }

    fn put_long(&mut self, bytes: &[u8]) {
        self.put_u32(bytes.len() as u32);
        self.put(bytes);
    }
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
