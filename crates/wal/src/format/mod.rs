//! Bytes on the disk, as values; no IO. All numbers are little endian.

pub(crate) mod block;
pub(crate) mod header;
pub(crate) mod mark;
pub(crate) mod record;
