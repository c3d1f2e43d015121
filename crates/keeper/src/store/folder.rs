//! The data folder: one keeper at a time, one format version.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::StoreError;

/// The format that this version writes.
pub const FORMAT: u32 = 1;

/// A data folder that this process has to itself.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Holds the lock as long as it is open.
    _lock: File,
}

impl Folder {
    /// Makes the folder if need be, locks it, and checks its format.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(StoreError::io("create the data folder", path))?;
        // Also one that somebody made before us: what is in it lets one take over sessions.
        fs::set_permissions(path, Permissions::from_mode(0o700))
            .map_err(StoreError::io("close the data folder to others", path))?;
        let lock = lock(path)?;
        let folder = Self { path: path.to_owned(), _lock: lock };
        folder.check_format()?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder.log())
            .map_err(StoreError::io("create the log's folder", folder.log()))?;
        folder.remove_leftovers()?;
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the log is.
    pub fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// The name of the snapshot that covers the log up to `sequence`.
    pub fn snapshot(&self, sequence: u64) -> PathBuf {
        self.path.join(format!("snapshot-{sequence:016x}"))
    }

    /// The name of a snapshot that is not complete yet.
    pub fn snapshot_in_the_making(&self) -> PathBuf {
        self.path.join("snapshot.new")
    }

    /// All snapshots with the sequence they cover, oldest first. Anything that we did not name so is left alone.
    pub fn snapshots(&self) -> Result<Vec<(u64, PathBuf)>, StoreError> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(StoreError::io("list", &self.path))? {
            let entry = entry.map_err(StoreError::io("list", &self.path))?;
            let name = entry.file_name();
            let digits = name.to_str().and_then(|name| name.strip_prefix("snapshot-"));
            let sequence = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            if let Some(sequence) = sequence.filter(|sequence| self.snapshot(*sequence) == entry.path()) {
                found.push((sequence, entry.path()));
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Makes a rename in the folder durable.
    pub fn sync(&self) -> Result<(), StoreError> {
        File::open(&self.path)
            .and_then(|dir| dir.sync_all())
            .map_err(StoreError::io("synchronise", &self.path))
    }

    /// Removes a snapshot that whoever had the folder before us did not finish: it may be as large as all the data.
    fn remove_leftovers(&self) -> Result<(), StoreError> {
        let path = self.snapshot_in_the_making();
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(StoreError::Io { doing: "remove", path, source: error })
            }
            _ => Ok(()),
        }
    }

    fn check_format(&self) -> Result<(), StoreError> {
        let path = self.path.join("format");
        match fs::read_to_string(&path) {
            Ok(text) => match text.trim().strip_prefix("menagerie-keeper ").map(str::parse::<u32>) {
                Some(Ok(found)) if found <= FORMAT => Ok(()),
                Some(Ok(found)) => Err(StoreError::Newer { path, found, known: FORMAT }),
                _ => Err(StoreError::Damaged {
                    path,
                    offset: 0,
                    what: format!("expected `menagerie-keeper {FORMAT}`, found {text:?}"),
                }),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let temporary = self.path.join("format.new");
                let write = || -> std::io::Result<()> {
                    let mut file = create_private(&temporary)?;
                    writeln!(file, "menagerie-keeper {FORMAT}")?;
                    file.sync_all()?;
                    fs::rename(&temporary, &path)
                };
                write().map_err(StoreError::io("write", &path))?;
                self.sync()
            }
            Err(source) => Err(StoreError::Io { doing: "read", path, source }),
        }
    }
}

/// Creates or empties a file that only its owner can read.
pub fn create_private(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

fn lock(folder: &Path) -> Result<File, StoreError> {
    let path = folder.join("lock");
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(StoreError::io("open", &path))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let mut owner = String::new();
        // Only to name the culprit; without it the message is still right.
        let _ = file.read_to_string(&mut owner);
        return Err(StoreError::InUse { path: folder.to_owned(), owner: owner.trim().parse().ok() });
    }
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(StoreError::io("write", &path))?;
    Ok(file)
}
