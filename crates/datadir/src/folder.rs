//! The data folder: one server at a time, one format version.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::DataError;
use crate::private;

/// The file that names the server and the format version.
const FORMAT_FILE: &str = "format";
const LOCK_FILE: &str = "lock";

/// The server of a folder and its format version: the file `format` holds `menagerie-SERVER VERSION`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// The server: `keeper`, `journal`.
    pub server: &'static str,
    /// The version that this build writes, and the newest that it reads.
    pub version: u32,
}

/// A data folder that this process has locked.
#[derive(Debug)]
pub struct DataFolder {
    path: PathBuf,
    format: Format,
    /// Kept open, so that names can be synced even when no more files can be opened.
    dir: File,
    /// Holds the lock as long as it is open.
    lock: File,
}

impl DataFolder {
    /// Locks an existing folder, and writes our pid into the lock file.
    pub fn lock(path: &Path, format: Format) -> Result<Self, DataError> {
        let name = path.join(LOCK_FILE);
        let mut lock = private::open(&name).map_err(DataError::io("open", &name))?;
        hold(&mut lock, path, format)?;
        lock.set_len(0)
            .and_then(|()| writeln!(lock, "{}", std::process::id()))
            .map_err(DataError::io("write", &name))?;
        Self::held(path, format, lock)
    }

    /// Locks a folder and changes nothing, so it works on a read-only file system.
    pub fn lock_read_only(path: &Path, format: Format) -> Result<Self, DataError> {
        let name = path.join(LOCK_FILE);
        let lock = match File::open(&name) {
            // A copy may have no lock file. Without it, nobody has the folder locked.
            Err(error) if error.kind() == ErrorKind::NotFound => File::open(path),
            opened => opened,
        };
        let mut lock = lock.map_err(DataError::io("open", &name))?;
        hold(&mut lock, path, format)?;
        Self::held(path, format, lock)
    }

    fn held(path: &Path, format: Format, lock: File) -> Result<Self, DataError> {
        let dir = File::open(path).map_err(DataError::io("open", path))?;
        Ok(Self { path: path.to_owned(), format, dir, lock })
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The format file. It is written last, so a folder without it is empty or damaged.
    pub fn format_file(&self) -> PathBuf {
        self.path.join(FORMAT_FILE)
    }

    /// The metadata of the lock file.
    pub fn lock_metadata(&self) -> io::Result<fs::Metadata> {
        self.lock.metadata()
    }

    /// Whether the folder has our format; `false` if it has no format file.
    pub fn has_format(&self) -> Result<bool, DataError> {
        let Format { server, version } = self.format;
        let path = self.format_file();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(DataError::io("read", &path)(error)),
        };
        let word = format!("menagerie-{server}");
        let rest = text.strip_prefix(&word).and_then(|rest| rest.strip_prefix(' '));
        match rest.map(|rest| rest.trim_end().parse::<u32>()) {
            Some(Ok(found)) if found > version => Err(DataError::Newer { path, found, known: version }),
            // Exactly what we write: any changed byte is damage.
            _ if text == format!("{word} {version}\n") => Ok(true),
            _ => {
                let what = format!("expected `{word} {version}`, found {text:?}");
                Err(DataError::damaged(&path, 0, what))
            }
        }
    }

    /// Durably marks the folder as complete, with our format.
    pub fn write_format(&self) -> Result<(), DataError> {
        let Format { server, version } = self.format;
        let path = self.format_file();
        let text = format!("menagerie-{server} {version}\n");
        private::replace(&path, text.as_bytes()).map_err(DataError::io("write", &path))?;
        self.sync()
    }

    /// Makes names in the folder durable.
    pub fn sync(&self) -> Result<(), DataError> {
        self.dir.sync_all().map_err(DataError::io("synchronise", &self.path))
    }

    /// The path of a numbered file, which [`DataFolder::numbered`] finds again.
    pub fn number(&self, prefix: &str, number: u64) -> PathBuf {
        self.path.join(format!("{prefix}{number:016x}"))
    }

    /// All numbered files with this prefix, lowest first. Ignores any other files.
    pub fn numbered(&self, prefix: &str) -> Result<Vec<(u64, PathBuf)>, DataError> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(DataError::io("list", &self.path))? {
            let entry = entry.map_err(DataError::io("list", &self.path))?;
            let name = entry.file_name();
            let digits = name.to_str().and_then(|name| name.strip_prefix(prefix));
            let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            if let Some(number) = number.filter(|number| self.number(prefix, *number) == entry.path()) {
                found.push((number, entry.path()));
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// The error for a caller that needs an empty folder.
    pub fn not_empty(&self) -> DataError {
        DataError::NotEmpty { server: self.format.server, path: self.path.clone() }
    }
}

fn hold(lock: &mut File, folder: &Path, format: Format) -> Result<(), DataError> {
    if flock(&*lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
        return Ok(());
    }
    let mut owner = String::new();
    // Only to name the other process; the error is right without it.
    let _ = lock.read_to_string(&mut owner);
    let owner = owner.trim().parse().ok();
    Err(DataError::InUse { server: format.server, path: folder.to_owned(), owner })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Format = Format { server: "keeper", version: 1 };
    const NEW: Format = Format { server: "keeper", version: 2 };

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("there is room for a folder")
    }

    #[test]
    fn one_process_has_the_folder_and_the_next_is_told_which() {
        let parent = folder();
        let held = DataFolder::lock(parent.path(), OLD).expect("nobody has it");
        for refused in [DataFolder::lock(parent.path(), OLD), DataFolder::lock_read_only(parent.path(), OLD)]
        {
            let told = refused.expect_err("it is held").to_string();
            let owner = format!("is in use by another keeper (process {})", std::process::id());
            assert!(told.ends_with(&owner), "{told}");
        }
        drop(held);
        assert!(DataFolder::lock_read_only(parent.path(), OLD).is_ok());
    }

    #[test]
    fn the_format_is_exactly_what_we_write_or_refused() {
        let parent = folder();
        let new = DataFolder::lock(parent.path(), NEW).expect("nobody has it");
        assert!(!new.has_format().expect("there is none"));
        new.write_format().expect("it can be written");
        assert!(new.has_format().expect("it was written"));
        drop(new);
        let old = DataFolder::lock(parent.path(), OLD).expect("nobody has it");
        assert!(matches!(old.has_format(), Err(DataError::Newer { found: 2, known: 1, .. })));
        for text in ["menagerie-keeper 1", "menagerie-journal 1\n", "menagerie-keeper x\n", ""] {
            fs::write(old.format_file(), text).expect("it can be written");
            assert!(matches!(old.has_format(), Err(DataError::Damaged { .. })), "{text:?}");
        }
    }

    #[test]
    fn only_files_that_we_named_are_found() {
        let parent = folder();
        let folder = DataFolder::lock(parent.path(), OLD).expect("nobody has it");
        let names =
            ["snapshot-000000000000000a", "snapshot-000000000000000A", "snapshot-2", "snapshot-x", "x"];
        for name in names {
            fs::write(parent.path().join(name), "").expect("it can be written");
        }
        let found = folder.numbered("snapshot-").expect("it can be listed");
        assert_eq!(found, [(10, folder.number("snapshot-", 10))]);
    }
}
