//! Recovers the state of a data folder: the newest snapshot, the segments that it refers to, then the log after it.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::path::Path;
use std::time::Instant;

use bytes::Bytes;
use menagerie_datadir::private;
use menagerie_wal::{Options as LogOptions, Wal};
use tracing::{info, warn};

use super::error::StoreError;
use super::folder::Folder;
use super::image::{Image, TopicImage};
use super::segment::{self, BlockHead, Kind, Name};
use super::snapshot;
use crate::codec::Source;
use crate::core::block::{Block, BlockData, Location, Removed};
use crate::core::dedup::DedupRecord;
use crate::core::partition::{Edited, Partition};
use crate::core::record::Record;
use crate::core::state::{State, WAITING_ROOM};
use crate::core::topic::{Segment, TopicState};

/// The recovered state, ready to serve.
pub(crate) struct Recovered {
    pub(crate) state: State,
    pub(crate) log: Wal,
    /// Files of dedup ids that the snapshot refers to.
    pub(crate) ids: Vec<(u64, u64)>,
    /// Segments that the snapshot refers to.
    pub(crate) segments: BTreeSet<Name>,
    /// The last record of the log that the snapshot covers, and the time that dedup windows count with when it was
    /// made.
    pub(crate) covered: u64,
    pub(crate) steady: u64,
}

enum Failure {
    Log(menagerie_wal::Error),
    Store(StoreError),
}

impl From<menagerie_wal::Error> for Failure {
    fn from(error: menagerie_wal::Error) -> Self {
        Self::Log(error)
    }
}

/// Loads the folder, and removes leftovers of a crash.
pub(crate) fn recover(folder: &Folder, log_options: LogOptions) -> Result<Recovered, StoreError> {
    let started = Instant::now();
    let image = newest_image(folder)?;
    let (covered, steady) = (image.sequence, image.steady);
    let ids = image.ids.clone();
    let segments: BTreeSet<Name> = named(&image).collect();
    let mut state = load(image, &folder.segments())?;
    for (sequence, _) in &ids {
        load_ids(&folder.ids(*sequence), &mut state)?;
    }
    let path = folder.log();
    let replay = |sequence: u64, payload: &[u8]| -> Result<(), Failure> {
        let record = Record::decode(Bytes::copy_from_slice(payload)).map_err(|error| {
            let what = format!("record {sequence} is intact but makes no sense: {error}");
            Failure::Store(StoreError::damaged(&path, 0, what))
        })?;
        state.apply(record, &mut |_| {});
        Ok(())
    };
    let (log, recovery) =
        Wal::open(&path, log_options, covered, replay).map_err(|failure| match failure {
            Failure::Log(source) => StoreError::Log { path: path.clone(), source },
            Failure::Store(error) => error,
        })?;
    // Only now is it certain that the newest snapshot is enough.
    remove_leftovers(folder, covered, &ids, &segments)?;
    if cfg!(debug_assertions) {
        debug_assert_eq!(crate::core::invariants::violated(&state), None);
    }
    info!(
        topics = state.listed().count(),
        messages = state.listed().flat_map(|(_, topic)| &topic.partitions).map(|p| p.messages).sum::<u64>(),
        records = recovery.records,
        ms = started.elapsed().as_millis() as u64,
        "data loaded"
    );
    Ok(Recovered { state, log, ids, segments, covered, steady })
}

/// Loads the newest snapshot. The log was truncated once it was durable, so no older one can be used instead.
pub(crate) fn newest_image(folder: &Folder) -> Result<Image, StoreError> {
    let Some((named, path)) = folder.numbered("snapshot-")?.pop() else {
        return Ok(Image { next_topic: WAITING_ROOM + 1, ..Image::default() });
    };
    let image = read_image(&path)?;
    if image.sequence != named {
        let what = format!("it stands at sequence {}, which is not what its name says", image.sequence);
        return Err(StoreError::damaged(&path, 0, what));
    }
    Ok(image)
}

pub(crate) fn read_image(path: &Path) -> Result<Image, StoreError> {
    let contents = snapshot::read(path, snapshot::SNAPSHOT)?;
    Image::decode(contents).map_err(|error| StoreError::damaged(path, 0, error.to_string()))
}

/// The segments that an image refers to.
pub(crate) fn named(image: &Image) -> impl Iterator<Item = Name> {
    image.topics.iter().flat_map(|topic| {
        topic.segments.iter().map(|(number, _)| Name { topic: topic.number, number: *number })
    })
}

/// Builds the state from an image and its segments.
fn load(image: Image, segments: &Path) -> Result<State, StoreError> {
    let mut state = State::new();
    (state.newest, state.steady) = (image.newest, image.steady);
    state.next_topic = image.next_topic;
    for topic in image.topics {
        let number = topic.number;
        let loaded = load_topic(topic, segments)?;
        if number != WAITING_ROOM {
            state.names.insert(loaded.name.clone(), number);
        }
        state.topics.insert(number, loaded);
    }
    for (key, partition_key) in image.delayed {
        state.delayed.insert(key, partition_key);
        if let Some((partition, _)) = state
            .topics
            .get_mut(&partition_key.topic)
            .and_then(|topic| topic.partition_mut(partition_key.partition))
        {
            partition.delayed += 1;
        }
    }
    Ok(state)
}

fn load_topic(image: TopicImage, folder: &Path) -> Result<TopicState, StoreError> {
    let mut topic = TopicState::new(image.name, image.config);
    topic.segments.next = image.next_segment;
    topic.segments.all = image.segments.into_iter().collect();
    let mut removed: Vec<HashMap<Location, Removed>> = Vec::new();
    for (partition, image) in topic.partitions.iter_mut().zip(image.partitions) {
        (partition.last, partition.trimmed, partition.floor) = (image.last, image.trimmed, image.floor);
        partition.consumers = image.consumers.into_iter().collect();
        removed.push(image.removed.into_iter().collect());
        for (id, data, bytes) in image.edits {
            partition.messages += 1;
            partition.bytes += u64::from(bytes);
            if let crate::core::partition::EditData::Disk(location) = data
                && let Some(segment) = topic.segments.all.get_mut(&location.segment)
            {
                segment.live += 1;
            }
            partition.edits.insert(id, Edited { data, bytes });
        }
    }
    for (number, segment) in &mut topic.segments.all {
        let name = Name { topic: image.number, number: *number };
        let path = name.path(folder);
        let heads = heads(name, segment, &path)?;
        cut(&path, segment.bytes)?;
        for head in heads {
            let bad = |what: &str| StoreError::damaged(&path, u64::from(head.offset), what);
            let index = (head.partition as usize).wrapping_sub(1);
            let partition =
                topic.partitions.get_mut(index).ok_or_else(|| bad("a block is of no partition"))?;
            if head.kind == Kind::Messages
                && head.last > partition.floor
                && !segment.holes.contains(&head.offset)
            {
                let gone = removed[index].remove(&head.location(*number));
                add_block(partition, &head, *number, gone).map_err(bad)?;
                segment.live += 1;
            }
        }
    }
    Ok(topic)
}

fn add_block(
    partition: &mut Partition,
    head: &BlockHead,
    segment: u32,
    removed: Option<Removed>,
) -> Result<(), &'static str> {
    if partition.blocks.back().is_some_and(|block| block.last >= head.first) || head.last > partition.last {
        return Err("a block is not in order");
    }
    if removed.as_ref().is_some_and(|removed| removed.count >= head.count || removed.bytes > head.bytes) {
        return Err("more is removed from a block than it has");
    }
    let block = Block {
        first: head.first,
        last: head.last,
        count: head.count,
        bytes: head.bytes,
        expires: head.expires,
        data: BlockData::Disk(head.location(segment)),
        removed: removed.map(Box::new),
    };
    let (messages, bytes) = block.live();
    partition.messages += messages;
    partition.bytes += bytes;
    partition.blocks.push_back(block);
    Ok(())
}

/// Reads the heads of a segment's blocks, after checking the length of the file.
pub(crate) fn heads(name: Name, segment: &Segment, path: &Path) -> Result<Vec<BlockHead>, StoreError> {
    let file = File::open(path).map_err(StoreError::io("open", path))?;
    name.check(&file, path)?;
    let found = file.metadata().map_err(StoreError::io("look at", path))?.len();
    // After the end there may be blocks of a flush that crashed before its snapshot.
    if found < segment.bytes || (segment.index.is_some() && found != segment.bytes) {
        let what = format!("it has {found} bytes instead of {}", segment.bytes);
        return Err(StoreError::damaged(path, found.min(segment.bytes), what));
    }
    let Some(index) = segment.index else {
        return segment::walk(&file, path, name, segment.bytes as u32);
    };
    let len = (segment.bytes as u32).wrapping_sub(index);
    let at = Location { segment: name.number, offset: index, len };
    let (head, contents) = segment::read_block(&file, path, name, at)?;
    let heads = segment::read_index(contents)
        .map_err(|error| StoreError::damaged(path, u64::from(index), error.to_string()))?;
    if head.kind != Kind::Index || heads.len() != head.count as usize {
        return Err(StoreError::damaged(path, u64::from(index), "its index is none"));
    }
    Ok(heads)
}

/// Truncates blocks after the end of a segment that a crash has left.
fn cut(path: &Path, bytes: u64) -> Result<(), StoreError> {
    let found = path.metadata().map_err(StoreError::io("look at", path))?.len();
    if found > bytes {
        warn!(path = %path.display(), bytes, "truncated leftovers of a crash after the end of a segment");
        let file = private::open(path).map_err(StoreError::io("open", path))?;
        file.set_len(bytes).and_then(|()| file.sync_all()).map_err(StoreError::io("cut", path))?;
    }
    Ok(())
}

fn load_ids(path: &Path, state: &mut State) -> Result<(), StoreError> {
    let mut source = Source::new(snapshot::read(path, snapshot::IDS)?);
    while !source.is_empty() {
        let noted = DedupRecord::decode(&mut source)
            .map_err(|error| StoreError::damaged(path, 0, error.to_string()))?;
        if let Some(topic) = state.topics.get_mut(&noted.topic) {
            let window = topic.dedup_ticks();
            topic.dedup.insert(&noted.id, noted.used, noted.now, window);
            state.steady = state.steady.max(noted.now);
        }
    }
    Ok(())
}

fn remove_leftovers(
    folder: &Folder,
    covered: u64,
    ids: &[(u64, u64)],
    segments: &BTreeSet<Name>,
) -> Result<(), StoreError> {
    // Leftovers that cannot be removed only take room.
    let remove = |path: &Path| {
        if let Err(error) = std::fs::remove_file(path) {
            warn!(%error, path = %path.display(), "cannot remove leftovers of a crash");
        }
    };
    for (_, path) in folder.numbered("snapshot-")?.iter().filter(|(sequence, _)| *sequence != covered) {
        remove(path);
    }
    for (_, path) in folder.numbered("ids-")?.iter().filter(|(at, _)| !ids.iter().any(|(id, _)| id == at)) {
        remove(path);
    }
    for path in folder.unfinished()? {
        remove(&path);
    }
    let dir = folder.segments();
    for entry in std::fs::read_dir(&dir).map_err(StoreError::io("list", &dir))? {
        let entry = entry.map_err(StoreError::io("list", &dir))?;
        let name = entry.file_name().to_str().and_then(Name::parse);
        if name.is_some_and(|name| !segments.contains(&name)) {
            remove(&entry.path());
        }
    }
    Ok(())
}
