//! Folders and files that only their owner can read: with their contents, others could take over sessions or read
//! messages.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// The extension of files that are being written: leftovers of a crash can be deleted.
pub const UNFINISHED: &str = "new";

/// Creates a folder and its parents durably, because files in it will be durable and must be found.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let is_above = |above: &&Path| !above.as_os_str().is_empty();
    let missing: Vec<&Path> = path.ancestors().filter(is_above).take_while(|above| !above.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    for made in missing {
        sync_folder(made.parent().filter(is_above).unwrap_or(Path::new(".")))?;
    }
    Ok(())
}

/// Removes the rights of others to a folder that somebody may have created before us.
pub fn close_to_others(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o700))
}

/// Makes names in a folder durable.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path).and_then(|dir| dir.sync_all())
}

/// Opens a file for reading and writing; creates it if it is missing.
pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Creates or empties a file.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Replaces a file atomically. Its contents are durable, its name is not yet: see [`sync_folder`].
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension(UNFINISHED);
    let write = || {
        let mut file = create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().inspect_err(|_| {
        // Report the first error; a partial file is useless.
        let _ = fs::remove_file(&temporary);
    })
}
