//! The data folder: the journal's log, segments and snapshots, and the format file that marks it as complete.

use std::path::{Path, PathBuf};
use std::{fs, io};

use menagerie_datadir::{DataFolder, Format, private};

use super::error::StoreError;

/// The format that this version writes.
pub const FORMAT: Format = Format { server: "journal", version: 1 };

/// A data folder that this process has locked.
#[derive(Debug)]
pub(crate) struct Folder(DataFolder);

/// What a folder holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FolderContent {
    /// Data of our format.
    Data,
    /// None of ours.
    Nothing,
}

impl Folder {
    /// Creates the folder if it is missing, locks it, and checks its format.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let folder = Self::lock(path)?;
        if folder.check_format()? == FolderContent::Nothing {
            // A folder without data gets a new identity, before the format file says that there is data.
            folder.draw_identity()?;
            folder.seal()?;
        }
        folder.create_subfolders()?;
        Ok(folder)
    }

    /// Locks a folder that has data, and checks its format. Changes nothing, so it works on a read-only file system.
    pub(crate) fn open_read_only(path: &Path) -> Result<Self, StoreError> {
        let folder = Self(DataFolder::lock_read_only(path, FORMAT)?);
        match folder.check_format()? {
            FolderContent::Data => Ok(folder),
            FolderContent::Nothing => Err(StoreError::NoData { path: path.to_owned() }),
        }
    }

    /// Creates and locks a folder for a restore, and refuses one that holds data. It cannot be opened before
    /// [`Folder::seal`].
    pub(crate) fn prepare(path: &Path) -> Result<Self, StoreError> {
        let folder = Self::lock(path)?;
        let is_there =
            [folder.0.format_file(), folder.log(), folder.segments()].iter().any(|path| path.exists());
        let left = [folder.numbered("snapshot-")?, folder.numbered("ids-")?].concat();
        if is_there || !left.is_empty() {
            return Err(folder.0.not_empty().into());
        }
        Ok(folder)
    }

    /// Marks the folder as complete.
    pub(crate) fn seal(&self) -> Result<(), StoreError> {
        Ok(self.0.write_format()?)
    }

    /// Removes all data, the log last: if that fails half-way, the folder is refused. The lock file stays, because
    /// somebody may wait for it.
    pub(crate) fn clear(&self) -> Result<(), StoreError> {
        let numbered = [self.numbered("snapshot-")?, self.numbered("ids-")?].concat();
        let files =
            numbered.into_iter().map(|(_, path)| path).chain([self.0.format_file(), self.identity_file()]);
        for path in files.filter(|path| path.exists()) {
            fs::remove_file(&path).map_err(StoreError::io("remove", &path))?;
        }
        for path in [self.segments(), self.log()].into_iter().filter(|path| path.exists()) {
            fs::remove_dir_all(&path).map_err(StoreError::io("remove", &path))?;
        }
        self.sync()
    }

    fn lock(path: &Path) -> Result<Self, StoreError> {
        make(path)?;
        // Also a folder that somebody else created: messages and the token are private.
        private::close_to_others(path).map_err(StoreError::io("close to others", path))?;
        Ok(Self(DataFolder::lock(path, FORMAT)?))
    }

    /// Creates the subfolders.
    pub(crate) fn create_subfolders(&self) -> Result<(), StoreError> {
        make(&self.log())?;
        make(&self.segments())?;
        self.sync()
    }

    pub(super) fn lock_metadata(&self) -> std::io::Result<fs::Metadata> {
        self.0.lock_metadata()
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path().join("log")
    }

    pub(crate) fn segments(&self) -> PathBuf {
        self.path().join("segments")
    }

    /// The snapshot that covers the log up to `sequence`.
    pub(crate) fn snapshot(&self, sequence: u64) -> PathBuf {
        self.0.number("snapshot-", sequence)
    }

    /// Dedup ids noted before the snapshot of `sequence`.
    pub(crate) fn ids(&self, sequence: u64) -> PathBuf {
        self.0.number("ids-", sequence)
    }

    /// All files of a kind with their sequence, oldest first.
    pub(crate) fn numbered(&self, prefix: &str) -> Result<Vec<(u64, PathBuf)>, StoreError> {
        Ok(self.0.numbered(prefix)?)
    }

    /// Half-written files that a crash has left: nobody else writes here.
    pub(crate) fn unfinished(&self) -> Result<Vec<PathBuf>, StoreError> {
        let list = || -> io::Result<Vec<PathBuf>> {
            fs::read_dir(self.path())?.map(|entry| Ok(entry?.path())).collect()
        };
        let paths = list().map_err(StoreError::io("list", self.path()))?;
        Ok(paths
            .into_iter()
            .filter(|path| path.extension().is_some_and(|end| end == private::UNFINISHED))
            .collect())
    }

    /// Makes names in the folder durable.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        Ok(self.0.sync()?)
    }

    fn check_format(&self) -> Result<FolderContent, StoreError> {
        if self.0.has_format()? {
            return Ok(FolderContent::Data);
        }
        // A folder that has data but lost its format file is not new.
        if self.numbered("snapshot-")?.is_empty() && !self.log().exists() {
            return Ok(FolderContent::Nothing);
        }
        Err(StoreError::damaged(&self.0.format_file(), 0, "it is missing, but there is data"))
    }
}

/// Creates a folder and its parents durably.
fn make(path: &Path) -> Result<(), StoreError> {
    private::make_folder(path).map_err(StoreError::io("create", path))
}

/// Makes names in a folder durable.
pub(crate) fn sync_dir(path: &Path) -> Result<(), StoreError> {
    private::sync_folder(path).map_err(StoreError::io("synchronise", path))
}

/// Replaces a file atomically. Its contents are durable, its name is not yet.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    private::replace(path, bytes).map_err(StoreError::io("write", path))
}
