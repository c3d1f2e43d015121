//! A disk that loses power, and everything else a disk can do to a log.
//!
//! It keeps durable data apart from what was only written. [`SimDisk::power_cut`] returns the disk as it may be found
//! afterwards: what was durable, plus *any subset* of the changes since. Writes are split into sectors of 512 bytes,
//! and names are independent of contents. That is harsher than file systems are. What it assumes: a sector is written
//! whole or not at all, a rename happens or does not, and a sync that returned has told the truth.

mod chance;
mod state;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{Background, Disk, DiskFile};
pub use chance::Chance;
use state::State;

/// An operation that changes the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// Creation of a file that was not there.
    Create,
    /// Rename.
    Rename,
    /// Removal of a file.
    Remove,
    /// A write, of whatever length.
    Write,
    /// Cutting or extending a file.
    SetLen,
    /// fdatasync or fsync of a file.
    Sync,
    /// fsync of the directory.
    SyncDir,
}

type Hook = Arc<dyn Fn() + Send + Sync>;

/// A directory on a simulated disk. Clones are the same disk.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    /// Runs before each sync, outside the lock; a test that wants a slow disk waits in it.
    before_sync: Option<Hook>,
}

impl SimDisk {
    /// An empty directory.
    pub fn new() -> Self {
        Self::with_files(BTreeMap::new())
    }

    /// A directory with these files, all durable.
    pub fn with_files(files: BTreeMap<String, Vec<u8>>) -> Self {
        Self { state: Arc::new(Mutex::new(State::with_files(files))), before_sync: None }
    }

    /// The files as a program sees them now.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        self.lock().files()
    }

    /// Cuts the power during the operation after the next `operations`: it may happen in part, and all later ones fail.
    pub fn cut_power_after(&self, operations: u64) {
        let mut state = self.lock();
        state.power_until = Some(state.operations + operations);
    }

    /// The disk as it may be found when the power is back; `chance` decides which changes since the last syncs survive.
    /// This disk stays as it is.
    #[must_use]
    pub fn power_cut(&self, chance: &mut Chance) -> Self {
        let survived = self.lock().power_cut(chance);
        Self { state: Arc::new(Mutex::new(survived)), before_sync: None }
    }

    /// Power without a cut: what was written but not synced is still there, and still not durable. As after a crash
    /// of the process alone.
    pub fn restart(&self) {
        let mut state = self.lock();
        state.power_until = None;
        state.faults.clear();
    }

    /// Makes an operation of this kind fail, after `skipped` more of its kind; later ones succeed.
    pub fn fail(&self, operation: Operation, skipped: u64, kind: io::ErrorKind) {
        let mut state = self.lock();
        let at = state.counts.get(&operation).copied().unwrap_or(0) + skipped;
        state.faults.push((operation, at, kind));
    }

    /// Makes a write fail for want of room, after `skipped` more writes and when this many of its bytes are written.
    pub fn cut_write(&self, skipped: u64, bytes: usize) {
        let mut state = self.lock();
        let at = state.counts.get(&Operation::Write).copied().unwrap_or(0) + skipped;
        state.short_writes.push((at, bytes));
    }

    /// Limits the lengths of all files together; a write that would exceed it fails for want of room.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.lock().capacity = bytes;
    }

    /// Simulates the limit of open files: none is opened or created, and nothing is listed.
    pub fn set_out_of_files(&self, out: bool) {
        self.lock().out_of_files = out;
    }

    /// The same disk, calling `hook` before each sync.
    #[must_use]
    pub fn with_sync_hook(&self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        Self { state: Arc::clone(&self.state), before_sync: Some(Arc::new(hook)) }
    }

    /// How many changing operations there were.
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// How many there were of each kind.
    pub fn counts(&self) -> BTreeMap<Operation, u64> {
        self.lock().counts.clone()
    }

    /// Identifies the file behind a name, through renames.
    pub fn inode(&self, name: &str) -> Option<usize> {
        self.lock().names.get(name).copied()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let state = self.lock();
        state.openable()?;
        let inode = state.find(name)?;
        drop(state);
        Ok(Box::new(SimFile { disk: self.clone(), inode }))
    }

    fn wait(&self) {
        if let Some(hook) = &self.before_sync {
            hook();
        }
    }
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl Disk for SimDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.lock();
        state.powered()?;
        state.openable()?;
        Ok(state.names.keys().cloned().collect())
    }

    fn open_read(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.file(name)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.file(name)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.lock();
        state.openable()?;
        state.create(name)?;
        drop(state);
        self.file(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.lock().rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.lock().remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.wait();
        self.lock().sync_dir()
    }

    fn random(&self, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.lock();
        out.iter_mut().for_each(|byte| *byte = state.entropy.next() as u8);
        Ok(())
    }

    fn locate(&self, name: &str) -> PathBuf {
        PathBuf::from("/sim").join(name)
    }

    fn background(&self) -> Background {
        Background::Caller
    }
}

struct SimFile {
    disk: SimDisk,
    inode: usize,
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        let state = self.disk.lock();
        state.powered()?;
        Ok(state.inodes[self.inode].current.len() as u64)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.disk.lock();
        state.powered()?;
        let current = &state.inodes[self.inode].current;
        let from = current.get(offset as usize..).and_then(|rest| rest.get(..out.len()));
        out.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.lock().write(self.inode, offset as usize, bytes)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.disk.lock().set_len(self.inode, length as usize)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.wait();
        self.disk.lock().sync(self.inode)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }
}
