//! The data folder: the keeper's log and snapshots in it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use menagerie_datadir::{DataFolder, Format, private};

use super::StoreError;

/// The format that this version writes.
pub const FORMAT: Format = Format { server: "keeper", version: 1 };
const SNAPSHOT: &str = "snapshot-";

/// A data folder that this process has locked.
#[derive(Debug)]
pub struct Folder(DataFolder);

impl Folder {
    /// Creates the folder if it is missing, locks it, and checks its format.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        private::make_folder(path).map_err(StoreError::io("create the data folder", path))?;
        private::close_to_others(path).map_err(StoreError::io("close the data folder to others", path))?;
        let folder = Self(DataFolder::lock(path, FORMAT)?);
        if !folder.0.has_format()? {
            folder.0.write_format()?;
        }
        let log = folder.log();
        private::make_folder(&log).map_err(StoreError::io("create the log's folder", &log))?;
        folder.remove_leftovers()?;
        Ok(folder)
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The folder of the log.
    pub fn log(&self) -> PathBuf {
        self.path().join("log")
    }

    /// The name of the snapshot that covers the log up to `sequence`.
    pub fn snapshot(&self, sequence: u64) -> PathBuf {
        self.0.number(SNAPSHOT, sequence)
    }

    /// The name of a snapshot that is not complete yet.
    pub fn snapshot_in_the_making(&self) -> PathBuf {
        self.path().join("snapshot").with_extension(private::UNFINISHED)
    }

    /// All snapshots with the sequence that they cover, oldest first. Ignores any other files.
    pub fn snapshots(&self) -> Result<Vec<(u64, PathBuf)>, StoreError> {
        Ok(self.0.numbered(SNAPSHOT)?)
    }

    /// Makes a rename in the folder durable.
    pub fn sync(&self) -> Result<(), StoreError> {
        Ok(self.0.sync()?)
    }

    /// The error for a caller that needs an empty folder.
    pub fn not_empty(&self) -> StoreError {
        self.0.not_empty().into()
    }

    /// Removes an unfinished snapshot of an earlier process: it may be as large as all the data.
    fn remove_leftovers(&self) -> Result<(), StoreError> {
        let path = self.snapshot_in_the_making();
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(StoreError::io("remove", path)(error)),
            _ => Ok(()),
        }
    }
}
