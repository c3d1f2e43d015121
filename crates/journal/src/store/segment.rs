//! The format of segment files, described in `docs/journal-format.md`.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use menagerie_datadir::DataError;

use super::error::StoreError;
use crate::codec::{Malformed, Sink as _, Source};
use crate::core::block::Location;
use crate::topic::Compression;

pub(crate) const SEGMENT_VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"menagSEG";
pub(crate) const HEADER_BYTES: usize = 32;
/// Two checksums, of the head and of the contents, and the fields.
pub(crate) const BLOCK_HEAD_BYTES: usize = 8 + FIELD_BYTES;
const FIELD_BYTES: usize = 44;

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Messages of a partition, in order.
    Messages,
    /// Edited messages of a partition.
    Edits,
    /// The heads of all blocks of the segment.
    Index,
}

/// A block's head, with its offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockHead {
    pub(crate) offset: u32,
    pub(crate) kind: Kind,
    pub(crate) compressed: bool,
    pub(crate) partition: u32,
    pub(crate) count: u32,
    /// Bytes of the contents, uncompressed and as stored.
    pub(crate) bytes: u32,
    pub(crate) stored: u32,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) expires: u64,
}

/// Identifies a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name {
    pub(crate) topic: u32,
    pub(crate) number: u32,
}

impl Name {
    pub(crate) fn path(self, folder: &Path) -> PathBuf {
        folder.join(format!("{:08x}-{:08x}", self.topic, self.number))
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (topic, number) = name.split_once('-')?;
        let hex = |text: &str| (text.len() == 8).then(|| u32::from_str_radix(text, 16).ok()).flatten();
        Some(Self { topic: hex(topic)?, number: hex(number)? })
    }

    /// The first bytes of the file.
    pub(crate) fn header(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.put(MAGIC);
        out.put_u32(SEGMENT_VERSION);
        out.put_u32(self.topic);
        out.put_u32(self.number);
        out.put_u64(0);
        let sum = crc32c::crc32c(&out);
        out.put_u32(sum);
        out
    }

    /// Checks the first bytes of the file.
    pub(crate) fn check(self, file: &File, path: &Path) -> Result<(), StoreError> {
        let mut found = [0; HEADER_BYTES];
        file.read_exact_at(&mut found, 0).map_err(|_| StoreError::damaged(path, 0, "it is too short"))?;
        let version = u32::from_le_bytes([found[8], found[9], found[10], found[11]]);
        if &found[..8] == MAGIC && version > SEGMENT_VERSION && sum_is_right(&found) {
            let path = path.to_owned();
            return Err(DataError::Newer { path, found: version, known: SEGMENT_VERSION }.into());
        }
        if found != *self.header() {
            return Err(StoreError::damaged(path, 0, "its header is not intact"));
        }
        Ok(())
    }

    /// The seed of a block head's checksum, so that a block is valid only at its own offset.
    fn seed(self, offset: u32) -> u32 {
        let mut place = [0; 12];
        place[..4].copy_from_slice(&self.topic.to_le_bytes());
        place[4..8].copy_from_slice(&self.number.to_le_bytes());
        place[8..].copy_from_slice(&offset.to_le_bytes());
        crc32c::crc32c(&place)
    }
}

fn sum_is_right(header: &[u8; HEADER_BYTES]) -> bool {
    let (covered, sum) = header.split_at(HEADER_BYTES - 4);
    crc32c::crc32c(covered).to_le_bytes() == sum
}

impl BlockHead {
    pub(crate) fn location(&self, segment: u32) -> Location {
        Location { segment, offset: self.offset, len: self.end() - self.offset }
    }

    /// Where the next block begins.
    pub(crate) fn end(&self) -> u32 {
        self.offset + BLOCK_HEAD_BYTES as u32 + self.stored
    }

    /// Encodes all but the checksums.
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.stored);
        out.put_u8(match self.kind {
            Kind::Messages => 1,
            Kind::Edits => 2,
            Kind::Index => 3,
        });
        out.put(&[u8::from(self.compressed), 0, 0]);
        out.put_u32(self.partition);
        out.put_u32(self.count);
        out.put_u32(self.bytes);
        out.put_u64(self.first);
        out.put_u64(self.last);
        out.put_u64(self.expires);
    }

    fn decode(offset: u32, source: &mut Source) -> Result<Self, Malformed> {
        let stored = source.u32()?;
        let kind = match source.u8()? {
            1 => Kind::Messages,
            2 => Kind::Edits,
            3 => Kind::Index,
            _ => return Err(Malformed("a block is of no kind that this version knows")),
        };
        let compressed = match source.take(3)?.as_ref() {
            [0, 0, 0] => false,
            [1, 0, 0] => true,
            _ => return Err(Malformed("a block has a compression that this version does not know")),
        };
        Ok(Self {
            offset,
            kind,
            compressed,
            partition: source.u32()?,
            count: source.u32()?,
            bytes: source.u32()?,
            stored,
            first: source.u64()?,
            last: source.u64()?,
            expires: source.u64()?,
        })
    }
}

/// Appends a block, compressed if that helps, and completes `head`.
pub(crate) fn put_block(
    name: Name,
    head: &mut BlockHead,
    contents: &[u8],
    how: Compression,
    out: &mut Vec<u8>,
) {
    let begin = out.len();
    out.put(&[0; BLOCK_HEAD_BYTES]);
    head.bytes = contents.len() as u32;
    head.compressed = match how {
        Compression::None => false,
        Compression::Lz4 => {
            let packed = lz4_flex::block::compress(contents);
            // Otherwise it is not worth the readers' time.
            let helps = packed.len() < contents.len() - contents.len() / 16;
            if helps {
                out.put(&packed);
            }
            helps
        }
    };
    if !head.compressed {
        out.put(contents);
    }
    head.stored = (out.len() - begin - BLOCK_HEAD_BYTES) as u32;
    let sum = crc32c::crc32c(&out[begin + BLOCK_HEAD_BYTES..]);
    out[begin + 4..begin + 8].copy_from_slice(&sum.to_le_bytes());
    let mut fields = Vec::with_capacity(FIELD_BYTES);
    head.encode(&mut fields);
    out[begin + 8..begin + BLOCK_HEAD_BYTES].copy_from_slice(&fields);
    let sum = crc32c::crc32c_append(name.seed(head.offset), &out[begin + 4..begin + BLOCK_HEAD_BYTES]);
    out[begin..begin + 4].copy_from_slice(&sum.to_le_bytes());
}

/// Checks the head of a block, and returns it with the checksum of the contents.
fn check_head(
    name: Name,
    offset: u32,
    bytes: &[u8; BLOCK_HEAD_BYTES],
) -> Result<(BlockHead, u32), Malformed> {
    let mut source = Source::new(Bytes::copy_from_slice(bytes));
    let sum = source.u32()?;
    if sum != crc32c::crc32c_append(name.seed(offset), &bytes[4..]) {
        return Err(Malformed("the head of a block does not have its checksum"));
    }
    let contents = source.u32()?;
    Ok((BlockHead::decode(offset, &mut source)?, contents))
}

/// Reads and checks a block, and returns its contents.
pub(crate) fn read_block(
    file: &File,
    path: &Path,
    name: Name,
    at: Location,
) -> Result<(BlockHead, Bytes), StoreError> {
    let damaged = |what: &str| StoreError::damaged(path, u64::from(at.offset), what);
    let mut bytes = vec![0; at.len as usize];
    file.read_exact_at(&mut bytes, u64::from(at.offset)).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => damaged("it ends in a block"),
        _ => StoreError::io("read", path)(error),
    })?;
    let first = bytes.first_chunk().ok_or_else(|| damaged("a block is shorter than its head"))?;
    let (head, sum) = check_head(name, at.offset, first).map_err(|error| damaged(error.0))?;
    if head.location(at.segment) != at {
        return Err(damaged("a block has another length than was said"));
    }
    let stored = Bytes::from(bytes).slice(BLOCK_HEAD_BYTES..);
    if crc32c::crc32c(&stored) != sum {
        return Err(damaged("a block does not have its checksum"));
    }
    if !head.compressed {
        return Ok((head, stored));
    }
    let contents = lz4_flex::block::decompress(&stored, head.bytes as usize)
        .map_err(|_| damaged("a block cannot be decompressed"))?;
    Ok((head, contents.into()))
}

/// The contents of an index.
pub(crate) fn put_index(heads: &[BlockHead]) -> Vec<u8> {
    let mut out = Vec::with_capacity(heads.len() * BLOCK_HEAD_BYTES);
    for head in heads {
        out.put_u32(head.offset);
        head.encode(&mut out);
    }
    out
}

/// Decodes what [`put_index`] wrote.
pub(crate) fn read_index(contents: Bytes) -> Result<Vec<BlockHead>, Malformed> {
    let mut source = Source::new(contents);
    let mut heads = Vec::with_capacity(source.len() / BLOCK_HEAD_BYTES);
    while !source.is_empty() {
        let offset = source.u32()?;
        heads.push(BlockHead::decode(offset, &mut source)?);
    }
    Ok(heads)
}

/// The heads of the blocks up to `end`, by walking from one to the next.
pub(crate) fn walk(file: &File, path: &Path, name: Name, end: u32) -> Result<Vec<BlockHead>, StoreError> {
    let mut heads = Vec::new();
    let mut offset = HEADER_BYTES as u32;
    while offset < end {
        let damaged = |what: &str| StoreError::damaged(path, u64::from(offset), what);
        let mut bytes = [0; BLOCK_HEAD_BYTES];
        file.read_exact_at(&mut bytes, u64::from(offset)).map_err(|_| damaged("it ends in a block"))?;
        let (head, _) = check_head(name, offset, &bytes).map_err(|error| damaged(error.0))?;
        if u64::from(offset) + (BLOCK_HEAD_BYTES as u64) + u64::from(head.stored) > u64::from(end) {
            return Err(damaged("a block reaches beyond the end"));
        }
        offset = head.end();
        heads.push(head);
    }
    Ok(heads)
}
