//! Flushes an image to segments: everything that is only in memory and the log.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use menagerie_datadir::private;

use super::error::StoreError;
use super::folder::sync_dir;
use super::image::{Image, TopicImage};
use super::segment::{self, BlockHead, HEADER_BYTES, Kind, Name};
use crate::core::block::{BLOCK_BYTES, BlockData, Location, Removed};
use crate::core::message;
use crate::core::partition::EditData;
use crate::core::state::PartitionKey;
use crate::core::topic::{Segment, ticks};

/// Size of one write.
const WRITE_BYTES: usize = 1 << 20;
/// Least size of a segment under retention by size: there should not be too many files.
const SEGMENT_BYTES_MIN: u64 = 1 << 20;

/// The new locations, for the state, which has changed meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Flushed {
    /// Blocks, by partition and first id.
    pub(crate) blocks: Vec<(PartitionKey, u64, Location)>,
    /// Edited messages, with the bytes that were written.
    pub(crate) edits: Vec<(PartitionKey, u64, bytes::Bytes, Location)>,
    /// The current segments, by topic; `live` is not set.
    pub(crate) segments: Vec<(u32, u32, Segment)>,
}

/// Durably writes what is in no segment yet, and stores the locations in the image.
pub(crate) fn flush(image: &mut Image, folder: &Path, segment_bytes: u64) -> Result<Flushed, StoreError> {
    let mut flushed = Flushed::default();
    let mut created = false;
    for topic in &mut image.topics {
        if topic.partitions.iter().any(super::image::PartitionImage::is_fresh) {
            created |= flush_topic(topic, image.newest, folder, segment_bytes, &mut flushed)?;
        }
    }
    if created {
        sync_dir(folder)?;
    }
    Ok(flushed)
}

/// Returns whether a file was created.
fn flush_topic(
    topic: &mut TopicImage,
    newest: u64,
    folder: &Path,
    segment_bytes: u64,
    flushed: &mut Flushed,
) -> Result<bool, StoreError> {
    let mut writer = Writer { topic: topic.number, folder, current: None, created: false };
    let mut partitions = std::mem::take(&mut topic.partitions);
    for (partition, number) in partitions.iter_mut().zip(1..) {
        let partition_key = PartitionKey::new(topic.number, number);
        for block in &mut partition.frozen {
            let head = BlockHead {
                offset: 0,
                kind: Kind::Messages,
                compressed: false,
                partition: number,
                count: block.count,
                bytes: 0,
                stored: 0,
                first: block.first,
                last: block.last,
                expires: block.expires,
            };
            let contents = block.memory().unwrap_or_default();
            let location = writer.put(topic, head, contents, newest, segment_bytes)?;
            flushed.blocks.push((partition_key, block.first, location));
            if let Some(removed) = &block.removed {
                partition.removed.push((location, Removed::clone(removed)));
            }
            block.data = BlockData::Disk(location);
        }
        flush_edits(partition, partition_key, topic, &mut writer, newest, segment_bytes, flushed)?;
    }
    topic.partitions = partitions;
    writer.finish(topic)?;
    for (number, segment) in &topic.segments {
        flushed.segments.push((topic.number, *number, segment.clone()));
    }
    Ok(writer.created)
}

fn flush_edits(
    partition: &mut super::image::PartitionImage,
    partition_key: PartitionKey,
    topic: &mut TopicImage,
    writer: &mut Writer<'_>,
    newest: u64,
    segment_bytes: u64,
    flushed: &mut Flushed,
) -> Result<(), StoreError> {
    let fresh: Vec<(u64, bytes::Bytes)> =
        partition.fresh_edits().map(|(id, bytes)| (id, bytes.clone())).collect();
    let mut rest = fresh.as_slice();
    while !rest.is_empty() {
        let mut contents = Vec::new();
        let fits = rest.iter().take_while(|(_, bytes)| {
            let fits = contents.is_empty() || contents.len() + bytes.len() <= BLOCK_BYTES;
            if fits {
                contents.extend_from_slice(bytes);
            }
            fits
        });
        let (now, later) = rest.split_at(fits.count());
        rest = later;
        let (Some((first, _)), Some((last, _))) = (now.first(), now.last()) else { break };
        let head = BlockHead {
            offset: 0,
            kind: Kind::Edits,
            compressed: false,
            partition: partition_key.partition,
            count: now.len() as u32,
            bytes: 0,
            stored: 0,
            first: *first,
            last: *last,
            expires: message::heads(&contents)
                .map(|head| if head.expires == 0 { u64::MAX } else { head.expires })
                .max()
                .unwrap_or(u64::MAX),
        };
        let location = writer.put(topic, head, &contents, newest, segment_bytes)?;
        for (id, bytes) in now {
            flushed.edits.push((partition_key, *id, bytes.clone(), location));
            if let Ok(at) = partition.edits.binary_search_by_key(id, |(edited, ..)| *edited) {
                partition.edits[at].1 = EditData::Disk(location);
            }
        }
    }
    Ok(())
}

/// Most bytes of a segment, given the topic's retention in bytes: a quarter, because segments are dropped as a whole.
fn share(retention: Option<u64>) -> u64 {
    retention.map_or(u64::MAX, |bytes| (bytes / 4).max(SEGMENT_BYTES_MIN))
}

/// Writes the segments of a topic.
struct Writer<'a> {
    topic: u32,
    folder: &'a Path,
    current: Option<Current>,
    created: bool,
}

/// The segment that is being written.
struct Current {
    name: Name,
    file: File,
    /// Not written yet; it begins at `written`.
    buffer: Vec<u8>,
    written: u64,
}

impl Writer<'_> {
    fn path(&self, name: Name) -> std::path::PathBuf {
        name.path(self.folder)
    }

    /// Adds a block to the newest segment, or to a new one.
    fn put(
        &mut self,
        topic: &mut TopicImage,
        mut head: BlockHead,
        contents: &[u8],
        newest: u64,
        segment_bytes: u64,
    ) -> Result<Location, StoreError> {
        self.make_room(topic, newest, segment_bytes)?;
        let (Some(current), Some((_, segment))) = (&mut self.current, topic.segments.last_mut()) else {
            unreachable!("room was made in the last segment")
        };
        head.offset = segment.bytes as u32;
        segment::put_block(current.name, &mut head, contents, topic.config.compression, &mut current.buffer);
        segment.bytes = u64::from(head.end());
        segment.oldest = segment.oldest.min(head.first);
        segment.newest = segment.newest.max(head.last);
        segment.expires = segment.expires.max(head.expires);
        if current.buffer.len() >= WRITE_BYTES {
            self.write()?;
        }
        Ok(head.location(topic.segments.last().map_or(0, |(number, _)| *number)))
    }

    fn make_room(
        &mut self,
        topic: &mut TopicImage,
        newest: u64,
        segment_bytes: u64,
    ) -> Result<(), StoreError> {
        let open = topic.segments.last().filter(|(_, segment)| segment.index.is_none());
        if let Some((number, segment)) = open {
            // At most a quarter of the retention, so that messages do not live much longer than configured.
            let span = topic.config.retention.map_or(u64::MAX, |age| ticks(age) / 4);
            let name = Name { topic: self.topic, number: *number };
            let old = newest.saturating_sub(segment.oldest) > span;
            if self.current.is_none() {
                let path = self.path(name);
                let file = private::open(&path).map_err(StoreError::io("open", &path))?;
                self.current = Some(Current { name, file, buffer: Vec::new(), written: segment.bytes });
            }
            if segment.bytes < segment_bytes.min(share(topic.config.retention_bytes)) && !old {
                return Ok(());
            }
            self.seal(topic)?;
        }
        self.begin(topic)
    }

    fn begin(&mut self, topic: &mut TopicImage) -> Result<(), StoreError> {
        let name = Name { topic: self.topic, number: topic.next_segment };
        topic.next_segment += 1;
        let path = self.path(name);
        let file = private::open(&path).map_err(StoreError::io("create", &path))?;
        // A file of that name may be left over from a crash.
        file.set_len(0).map_err(StoreError::io("empty", &path))?;
        self.created = true;
        self.current = Some(Current { name, file, buffer: name.header(), written: 0 });
        let segment = Segment { bytes: HEADER_BYTES as u64, oldest: u64::MAX, ..Segment::default() };
        topic.segments.push((name.number, segment));
        Ok(())
    }

    /// Ends the newest segment with an index.
    fn seal(&mut self, topic: &mut TopicImage) -> Result<(), StoreError> {
        self.write()?;
        let (Some(current), Some((_, segment))) = (&mut self.current, topic.segments.last_mut()) else {
            return Ok(());
        };
        let path = current.name.path(self.folder);
        let heads = segment::walk(&current.file, &path, current.name, segment.bytes as u32)?;
        let mut head = BlockHead {
            offset: segment.bytes as u32,
            kind: Kind::Index,
            compressed: false,
            partition: 0,
            count: heads.len() as u32,
            bytes: 0,
            stored: 0,
            first: segment.oldest,
            last: segment.newest,
            expires: segment.expires,
        };
        let contents = segment::put_index(&heads);
        segment::put_block(current.name, &mut head, &contents, topic.config.compression, &mut current.buffer);
        segment.index = Some(head.offset);
        segment.bytes = u64::from(head.end());
        self.finish(topic)?;
        self.current = None;
        Ok(())
    }

    fn write(&mut self) -> Result<(), StoreError> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let path = current.name.path(self.folder);
        current
            .file
            .write_all_at(&current.buffer, current.written)
            .map_err(StoreError::io("write", &path))?;
        current.written += current.buffer.len() as u64;
        current.buffer.clear();
        Ok(())
    }

    /// Makes the current segment durable, truncated to its contents.
    fn finish(&mut self, topic: &TopicImage) -> Result<(), StoreError> {
        self.write()?;
        let (Some(current), Some((_, segment))) = (&self.current, topic.segments.last()) else {
            return Ok(());
        };
        let path = current.name.path(self.folder);
        current.file.set_len(segment.bytes).map_err(StoreError::io("cut", &path))?;
        current.file.sync_all().map_err(StoreError::io("synchronise", &path))
    }
}
