//! The few operations that the log needs from a disk, so that tests can put an unreliable one under it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// One flat directory of files.
pub trait Disk: Send + Sync {
    /// The names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens a file for reading only.
    fn open_read(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file for reading and writing; creates it if it is missing.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Renames a file, replacing an existing one of that name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes names durable: all creations, renames and removals so far.
    fn sync_dir(&self) -> io::Result<()>;
    /// Fills `out` with unpredictable bytes.
    fn random(&self, out: &mut [u8]) -> io::Result<()>;
    /// The full path of a file, for messages.
    fn locate(&self, name: &str) -> PathBuf;
    /// Whether spare segments are prepared on a separate thread, or at once on the caller's (where the order of
    /// operations must be the same in each run).
    fn background(&self) -> Background;
}

/// Where the preparation of spare segments happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Background {
    /// On a separate thread.
    Thread,
    /// On the caller's thread.
    Caller,
}

/// An open file.
#[expect(clippy::len_without_is_empty, reason = "nobody asks whether a segment is empty by its file length")]
pub trait DiskFile: Send {
    /// Current length.
    fn len(&self) -> io::Result<u64>;
    /// Fills `out` from `offset`; an end of file before that is an error.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Truncates the file, or extends it with zeroes.
    fn set_len(&self, length: u64) -> io::Result<()>;
    /// fdatasync: contents, and what is needed to read them back.
    fn sync_data(&self) -> io::Result<()>;
    /// fsync: contents and everything about the file; used after its length changed.
    fn sync_all(&self) -> io::Result<()>;
}

/// A directory of the operating system.
///
/// Plain pwrite and fdatasync, never a memory map: an error of the device would be a signal there, not a result.
pub struct RealDisk {
    path: PathBuf,
    /// Kept open: Linux reports an error of an earlier write-back only to descriptors that were open by then.
    directory: File,
}

impl RealDisk {
    /// The directory must exist. The owner locks it.
    pub fn new(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), directory: File::open(path)? })
    }
}

impl Disk for RealDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            // A name that is not UTF-8 is not ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn open_read(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(File::open(self.path.join(name))?))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(OpenOptions::new().read(true).write(true).open(self.path.join(name))?))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        // For the owner alone: the contents of a log are private.
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        Ok(Box::new(options.open(self.path.join(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.directory.sync_all()
    }

    fn random(&self, out: &mut [u8]) -> io::Result<()> {
        getrandom::fill(out).map_err(|error| io::Error::other(error.to_string()))
    }

    fn locate(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn background(&self) -> Background {
        Background::Thread
    }
}

impl DiskFile for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(out, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        File::set_len(self, length)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn sync_all(&self) -> io::Result<()> {
        File::sync_all(self)
    }
}
