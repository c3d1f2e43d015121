//! The data folder: one journal at a time, one format version.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::error::StoreError;

/// The format that this version writes.
pub const FORMAT: u32 = 1;
const FORMAT_WORD: &str = "menagerie-journal";
/// How the names of files end that are being written.
const UNFINISHED: &str = "new";

/// A data folder that this process has to itself.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Open, so that names can be made durable also when no more files can be opened.
    dir: File,
    /// Holds the lock as long as it is open.
    lock: File,
}

/// What a folder holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// Data of our format.
    Data,
    /// None of ours.
    Nothing,
}

impl Folder {
    /// Makes the folder if need be, locks it, and checks its format.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let folder = Self::lock(path)?;
        if folder.check_format()? == Found::Nothing {
            // What was here before is gone, and its id with it. Before the word that says that there is data.
            folder.draw_identity()?;
            folder.seal()?;
        }
        folder.furnish()?;
        Ok(folder)
    }

    /// Locks a folder that has data, and checks its format; changes nothing, so that it may be on a disk that cannot be written.
    pub(crate) fn look(path: &Path) -> Result<Self, StoreError> {
        let name = path.join("lock");
        let file = match File::open(&name) {
            // A copy may have none. Nobody has a folder without it.
            Err(error) if error.kind() == ErrorKind::NotFound => File::open(path),
            opened => opened,
        };
        let mut file = file.map_err(StoreError::io("open", &name))?;
        hold(&mut file, path)?;
        let dir = File::open(path).map_err(StoreError::io("open", path))?;
        let folder = Self { path: path.to_owned(), dir, lock: file };
        match folder.check_format()? {
            Found::Data => Ok(folder),
            Found::Nothing => Err(StoreError::NoData { path: path.to_owned() }),
        }
    }

    /// Makes and locks a folder for data that is yet to come, and refuses one that holds any. Until [`Folder::seal`] nobody
    /// opens it.
    pub(crate) fn prepare(path: &Path) -> Result<Self, StoreError> {
        let folder = Self::lock(path)?;
        let is_there = [folder.format(), folder.log(), folder.segments()].iter().any(|path| path.exists());
        let left = [folder.numbered("snapshot-")?, folder.numbered("ids-")?].concat();
        if is_there || !left.is_empty() {
            return Err(StoreError::NotEmpty { path: path.to_owned() });
        }
        Ok(folder)
    }

    /// Says that all is there.
    pub(crate) fn seal(&self) -> Result<(), StoreError> {
        let bytes = format!("{FORMAT_WORD} {FORMAT}\n");
        replace(&self.format(), bytes.as_bytes())?;
        self.sync()
    }

    /// Removes all data, the log last: what is left when that fails is refused. The lock stays, as somebody may wait for it.
    pub(crate) fn clear(&self) -> Result<(), StoreError> {
        let numbered = [self.numbered("snapshot-")?, self.numbered("ids-")?].concat();
        let files = numbered.into_iter().map(|(_, path)| path).chain([self.format(), self.identity_file()]);
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
        // Also one that somebody made before us: messages and the token are nobody else's business.
        fs::set_permissions(path, Permissions::from_mode(0o700))
            .map_err(StoreError::io("close to others", path))?;
        let dir = File::open(path).map_err(StoreError::io("open", path))?;
        Ok(Self { path: path.to_owned(), dir, lock: lock(path)? })
    }

    /// Makes the folders within.
    pub(crate) fn furnish(&self) -> Result<(), StoreError> {
        make(&self.log())?;
        make(&self.segments())?;
        self.sync()
    }

    pub(super) fn lock_metadata(&self) -> std::io::Result<fs::Metadata> {
        self.lock.metadata()
    }

    fn format(&self) -> PathBuf {
        self.path.join("format")
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    pub(crate) fn segments(&self) -> PathBuf {
        self.path.join("segments")
    }

    /// The snapshot that covers the log up to `sequence`.
    pub(crate) fn snapshot(&self, sequence: u64) -> PathBuf {
        self.path.join(format!("snapshot-{sequence:016x}"))
    }

    /// Dedup ids noted before the snapshot of `sequence`.
    pub(crate) fn ids(&self, sequence: u64) -> PathBuf {
        self.path.join(format!("ids-{sequence:016x}"))
    }

    /// All files of a kind with their sequence, oldest first.
    pub(crate) fn numbered(&self, prefix: &str) -> Result<Vec<(u64, PathBuf)>, StoreError> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(StoreError::io("list", &self.path))? {
            let entry = entry.map_err(StoreError::io("list", &self.path))?;
            let name = entry.file_name();
            let digits = name.to_str().and_then(|name| name.strip_prefix(prefix));
            let sequence = digits.filter(|digits| digits.len() == 16);
            if let Some(sequence) = sequence.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
                found.push((sequence, entry.path()));
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Files that a crash has left half written: nobody else writes here.
    pub(crate) fn unfinished(&self) -> Result<Vec<PathBuf>, StoreError> {
        let entries = fs::read_dir(&self.path).map_err(StoreError::io("list", &self.path))?;
        let paths = entries.map(|entry| entry.map(|entry| entry.path()));
        let paths: Vec<PathBuf> =
            paths.collect::<Result<_, _>>().map_err(StoreError::io("list", &self.path))?;
        Ok(paths.into_iter().filter(|path| path.extension().is_some_and(|end| end == UNFINISHED)).collect())
    }

    /// Makes names in the folder durable.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        self.dir.sync_all().map_err(StoreError::io("synchronise", &self.path))
    }

    fn check_format(&self) -> Result<Found, StoreError> {
        let path = self.format();
        match fs::read_to_string(&path) {
            Ok(text) => {
                let word = text.strip_prefix(FORMAT_WORD).and_then(|rest| rest.strip_prefix(' '));
                match word.map(|rest| rest.trim_end().parse::<u32>()) {
                    // Exactly what we write: a changed byte is damage, not a matter of taste.
                    Some(Ok(found)) if found > FORMAT => {
                        Err(StoreError::Newer { path, found, known: FORMAT })
                    }
                    _ if text == format!("{FORMAT_WORD} {FORMAT}\n") => Ok(Found::Data),
                    _ => {
                        let what = format!("expected `{FORMAT_WORD} {FORMAT}`, found {text:?}");
                        Err(StoreError::damaged(&path, 0, what))
                    }
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // A folder of data whose format was lost is no new folder.
                if self.numbered("snapshot-")?.is_empty() && !self.log().exists() {
                    return Ok(Found::Nothing);
                }
                Err(StoreError::damaged(&path, 0, "it is missing, but there is data"))
            }
            Err(error) => Err(StoreError::io("read", &path)(error)),
        }
    }
}

/// Makes a folder and those above it, durably: what is in it will be, and must be found.
fn make(path: &Path) -> Result<(), StoreError> {
    let is_above = |above: &&Path| !above.as_os_str().is_empty();
    let missing: Vec<&Path> = path.ancestors().filter(is_above).take_while(|above| !above.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(StoreError::io("create", path))?;
    for made in missing {
        let above = made.parent().filter(is_above).unwrap_or(Path::new("."));
        sync_dir(above)?;
    }
    Ok(())
}

/// Makes names in a folder durable.
pub(crate) fn sync_dir(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|dir| dir.sync_all()).map_err(StoreError::io("synchronise", path))
}

/// Opens a file for reading and writing that only its owner can read, creating it if need be.
pub(crate) fn open_private(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Puts a file in place as a whole, durably but for its name.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let temporary = path.with_extension(UNFINISHED);
    let write = || {
        let mut file = open_private(&temporary)?;
        file.set_len(0)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|error| {
        // What matters is the first error; a part of a file is of no use.
        let _ = fs::remove_file(&temporary);
        StoreError::io("write", path)(error)
    })
}

fn lock(folder: &Path) -> Result<File, StoreError> {
    let path = folder.join("lock");
    let mut file = open_private(&path).map_err(StoreError::io("open", &path))?;
    hold(&mut file, folder)?;
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(StoreError::io("write", &path))?;
    Ok(file)
}

fn hold(lock: &mut File, folder: &Path) -> Result<(), StoreError> {
    if flock(&*lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
        return Ok(());
    }
    let mut owner = String::new();
    // Only to name the culprit; without it the message is still right.
    let _ = lock.read_to_string(&mut owner);
    Err(StoreError::InUse { path: folder.to_owned(), owner: owner.trim().parse().ok() })
}
