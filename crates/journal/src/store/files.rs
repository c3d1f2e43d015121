//! Open segments, and a cache of blocks.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::error::StoreError;
use super::segment::{self, Name};
use crate::core::block::Location;

/// Segments kept open; others are opened again for each read.
const OPEN_MAX: usize = 256;
/// Size of the block cache: for readers that take a few messages at a time.
const CACHE_BYTES: usize = 8 << 20;
/// Larger blocks are not cached.
const CACHED_BYTES_MAX: usize = 1 << 20;

/// The segments of a journal, for reading.
#[derive(Debug)]
pub(crate) struct Files {
    folder: PathBuf,
    /// Cloned by callers that need files to be kept.
    held: Arc<()>,
    open: Mutex<HashMap<Name, Arc<File>>>,
    cache: Mutex<Cache>,
}

/// First in, first out: a reader that continues in a block does so soon.
#[derive(Debug, Default)]
struct Cache {
    blocks: HashMap<(u32, u32, u32), Bytes>,
    order: VecDeque<(u32, u32, u32)>,
    bytes: usize,
}

impl Files {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, held: Arc::default(), open: Mutex::default(), cache: Mutex::default() }
    }

    /// While this exists, no checkpoint removes files.
    pub(crate) fn hold(&self) -> Arc<()> {
        self.held.clone()
    }

    pub(crate) fn is_held(&self) -> bool {
        Arc::strong_count(&self.held) > 1
    }

    /// The contents of a block.
    pub(crate) fn load(&self, topic: u32, location: Location) -> Result<Bytes, StoreError> {
        let key = (topic, location.segment, location.offset);
        if let Some(bytes) = self.cache.lock().unwrap_or_else(PoisonError::into_inner).blocks.get(&key) {
            return Ok(bytes.clone());
        }
        let name = Name { topic, number: location.segment };
        let file = self.open(name)?;
        let (_, contents) = segment::read_block(&file, &name.path(&self.folder), name, location)?;
        if contents.len() <= CACHED_BYTES_MAX {
            self.cache.lock().unwrap_or_else(PoisonError::into_inner).insert(key, contents.clone());
        }
        Ok(contents)
    }

    /// Whether a block is cached.
    pub(crate) fn has(&self, topic: u32, location: Location) -> bool {
        let key = (topic, location.segment, location.offset);
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).blocks.contains_key(&key)
    }

    fn open(&self, name: Name) -> Result<Arc<File>, StoreError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = open.get(&name) {
            return Ok(file.clone());
        }
        if open.len() >= OPEN_MAX {
            open.clear();
        }
        let path = name.path(&self.folder);
        let file = Arc::new(File::open(&path).map_err(StoreError::io("open", &path))?);
        open.insert(name, file.clone());
        Ok(file)
    }

    /// Closes a segment that will be removed. Readers that have it open go on.
    pub(crate) fn close(&self, name: Name) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
    }
}

impl Cache {
    fn insert(&mut self, key: (u32, u32, u32), bytes: Bytes) {
        self.bytes += bytes.len();
        match self.blocks.insert(key, bytes) {
            None => self.order.push_back(key),
            // Two readers have loaded it at once.
            Some(same) => self.bytes -= same.len(),
        }
        while self.bytes > CACHE_BYTES {
            let Some(oldest) = self.order.pop_front().and_then(|key| self.blocks.remove(&key)) else { break };
            self.bytes -= oldest.len();
        }
    }
}
