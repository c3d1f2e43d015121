//! Snapshots: an image as a file. Files of dedup ids have the same frame.

use std::path::Path;

use bytes::Bytes;
use menagerie_datadir::DataError;

use super::error::StoreError;
use super::folder::replace;
use super::image::{Image, PartitionImage, TopicImage};
use crate::Fence;
use crate::codec::{Malformed, Sink as _, Source};
use crate::core::block::{Location, Removed};
use crate::core::partition::{EditData, Reader};
use crate::core::record;
use crate::core::state::PartitionKey;
use crate::core::topic::Segment;

/// Since 2, a snapshot includes the age of dedup ids.
pub(crate) const SNAPSHOT_VERSION: u32 = 2;
const SNAPSHOT_VERSION_OLDEST: u32 = 1;
pub(crate) const SNAPSHOT: &[u8; 8] = b"menagJSN";
pub(crate) const IDS: &[u8; 8] = b"menagIDS";
const FRAME_BYTES: usize = 24;

/// Frames contents: magic, version, checksum of everything else, length.
pub(crate) fn framed(magic: &[u8; 8], contents: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(FRAME_BYTES + contents.len());
    out.put(magic);
    out.put_u32(SNAPSHOT_VERSION);
    out.put_u32(0);
    out.put_u64(contents.len() as u64);
    out.put(contents);
    let sum = crc32c::crc32c_append(crc32c::crc32c(&out[..12]), &out[16..]);
    out[12..16].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Writes a file atomically. Its contents are durable, its name is not yet.
pub(crate) fn write(path: &Path, magic: &[u8; 8], contents: &[u8]) -> Result<(), StoreError> {
    replace(path, &framed(magic, contents))
}

/// Reads a file and checks it.
pub(crate) fn read(path: &Path, magic: &[u8; 8]) -> Result<Bytes, StoreError> {
    let bytes = Bytes::from(std::fs::read(path).map_err(StoreError::io("read", path))?);
    unframe(path, magic, bytes)
}

pub(crate) fn unframe(path: &Path, magic: &[u8; 8], bytes: Bytes) -> Result<Bytes, StoreError> {
    let damaged = |what: &str| StoreError::damaged(path, 0, what);
    if bytes.len() < FRAME_BYTES || &bytes[..8] != magic {
        return Err(damaged("it does not begin as it should"));
    }
    let mut source = Source::new(bytes.slice(8..FRAME_BYTES));
    let (Ok(version), Ok(sum), Ok(len)) = (source.u32(), source.u32(), source.u64()) else {
        return Err(damaged("it is too short"));
    };
    let whole = sum == crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..]);
    if version > SNAPSHOT_VERSION && whole {
        let (found, known) = (version, SNAPSHOT_VERSION);
        return Err(DataError::Newer { path: path.to_owned(), found, known }.into());
    }
    if !whole
        || !(SNAPSHOT_VERSION_OLDEST..=SNAPSHOT_VERSION).contains(&version)
        || len != (bytes.len() - FRAME_BYTES) as u64
    {
        return Err(damaged("it does not have its checksum"));
    }
    Ok(bytes.slice(FRAME_BYTES..))
}

impl Image {
    /// Encodes a snapshot. Everything in it must be in a segment.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u64(self.sequence);
        out.put_u64(self.newest);
        out.put_u32(self.next_topic);
        out.put_u32(self.ids.len() as u32);
        for (sequence, until) in &self.ids {
            out.put_u64(*sequence);
            out.put_u64(*until);
        }
        out.put_u32(self.delayed.len() as u32);
        for ((due, id), partition_key) in &self.delayed {
            out.put_u64(*due);
            out.put_u64(*id);
            out.put_u32(partition_key.topic);
            out.put_u32(partition_key.partition);
        }
        out.put_u32(self.topics.len() as u32);
        for topic in &self.topics {
            topic.encode(&mut out);
        }
        out.put_u64(self.steady);
        out
    }

    pub(crate) fn decode(contents: Bytes) -> Result<Self, Malformed> {
        let source = &mut Source::new(contents);
        let mut image = Self {
            sequence: source.u64()?,
            newest: source.u64()?,
            next_topic: source.u32()?,
            ..Self::default()
        };
        for _ in 0..source.count(16)? {
            image.ids.push((source.u64()?, source.u64()?));
        }
        for _ in 0..source.count(24)? {
            image
                .delayed
                .push(((source.u64()?, source.u64()?), PartitionKey::new(source.u32()?, source.u32()?)));
        }
        for _ in 0..source.count(16)? {
            image.topics.push(TopicImage::decode(source)?);
        }
        // Version 1 ends here.
        if !source.is_empty() {
            image.steady = source.u64()?;
        }
        if !source.is_empty() {
            return Err(Malformed("something follows its end"));
        }
        Ok(image)
    }
}

fn put_location(location: Location, out: &mut Vec<u8>) {
    out.put_u32(location.segment);
    out.put_u32(location.offset);
    out.put_u32(location.len);
}

fn location(source: &mut Source) -> Result<Location, Malformed> {
    Ok(Location { segment: source.u32()?, offset: source.u32()?, len: source.u32()? })
}

impl TopicImage {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.number);
        record::put_topic(&self.name, &self.config, out);
        out.put_u32(self.next_segment);
        out.put_u32(self.segments.len() as u32);
        for (number, segment) in &self.segments {
            out.put_u32(*number);
            out.put_u64(segment.bytes);
            out.put_u32(segment.index.unwrap_or(0));
            out.put_u64(segment.oldest);
            out.put_u64(segment.newest);
            out.put_u64(segment.expires);
            out.put_u32(segment.holes.len() as u32);
            segment.holes.iter().for_each(|hole| out.put_u32(*hole));
        }
        for partition in &self.partitions {
            partition.encode(out);
        }
    }

    fn decode(source: &mut Source) -> Result<Self, Malformed> {
        let number = source.u32()?;
        let (name, config) = record::topic(source)?;
        let next_segment = source.u32()?;
        let mut segments = Vec::new();
        for _ in 0..source.count(44)? {
            let number = source.u32()?;
            let mut segment = Segment {
                bytes: source.u64()?,
                index: Some(source.u32()?).filter(|index| *index != 0),
                oldest: source.u64()?,
                newest: source.u64()?,
                expires: source.u64()?,
                ..Segment::default()
            };
            for _ in 0..source.count(4)? {
                segment.holes.push(source.u32()?);
            }
            segments.push((number, segment));
        }
        let partitions = (0..config.partitions).map(|_| PartitionImage::decode(source));
        let partitions = partitions.collect::<Result<_, _>>()?;
        Ok(Self { number, name, config, next_segment, segments, partitions })
    }
}

impl PartitionImage {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.last);
        out.put_u64(self.trimmed);
        out.put_u64(self.floor);
        out.put_u32(self.consumers.len() as u32);
        for (name, reader) in &self.consumers {
            out.put_short(name.as_str().as_bytes());
            out.put_u64(reader.fence.generation);
            out.put_i64(reader.fence.zxid);
            out.put_u64(reader.position);
            out.put_u32(reader.state.len() as u32);
            for (key, value) in &reader.state {
                out.put_short(key);
                out.put_long(value);
            }
        }
        out.put_u32(self.edits.len() as u32);
        for (id, place, bytes) in &self.edits {
            let EditData::Disk(location) = place else {
                unreachable!("a snapshot is made of what is flushed")
            };
            out.put_u64(*id);
            put_location(*location, out);
            out.put_u32(*bytes);
        }
        out.put_u32(self.removed.len() as u32);
        for (location, removed) in &self.removed {
            put_location(*location, out);
            out.put_u32(removed.bytes);
            out.put_u32(removed.words().len() as u32);
            removed.words().iter().for_each(|word| out.put_u64(*word));
        }
    }

    fn decode(source: &mut Source) -> Result<Self, Malformed> {
        let mut image =
            Self { last: source.u64()?, trimmed: source.u64()?, floor: source.u64()?, ..Self::default() };
        for _ in 0..source.count(29)? {
            let name = record::consumer(source)?;
            let fence = Fence::new(source.u64()?, source.i64()?);
            let mut reader = Reader { fence, position: source.u64()?, ..Reader::default() };
            for _ in 0..source.count(5)? {
                let key = source.short()?;
                reader.set(&key, Some(&source.long()?));
            }
            image.consumers.push((name, reader));
        }
        for _ in 0..source.count(24)? {
            image.edits.push((source.u64()?, EditData::Disk(location(source)?), source.u32()?));
        }
        for _ in 0..source.count(20)? {
            let (location, bytes) = (location(source)?, source.u32()?);
            let words = (0..source.count(8)?).map(|_| source.u64()).collect::<Result<_, _>>()?;
            image.removed.push((location, Removed::from_words(words, bytes)));
        }
        Ok(image)
    }
}
