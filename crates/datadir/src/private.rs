//! Folders and files that only their owner can read: what is in them lets one take over sessions, or read messages.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// How the names of files end that are being written: what a crash has left of them is of no use to anybody.
pub const UNFINISHED: &str = "new";

/// Makes a folder and those above it, durably: what is in it will be, and must be found.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let is_above = |above: &&Path| !above.as_os_str().is_empty();
    let missing: Vec<&Path> = path.ancestors().filter(is_above).take_while(|above| !above.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    for made in missing {
        sync_folder(made.parent().filter(is_above).unwrap_or(Path::new(".")))?;
    }
    Ok(())
}

/// Takes from others what rights they have to a folder that somebody may have made before us.
pub fn close_to_others(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o700))
}

/// Makes names in a folder durable.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path).and_then(|dir| dir.sync_all())
}

/// Opens a file for reading and writing, creating it if need be.
pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Creates or empties a file.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Puts a file in place as a whole, durably but for its name.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension(UNFINISHED);
    let write = || {
        let mut file = create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().inspect_err(|_| {
        // What matters is the first error; a part of a file is of no use.
        let _ = fs::remove_file(&temporary);
    })
}
