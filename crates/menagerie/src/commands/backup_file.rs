//! The file of a backup: it gets its final name, replacing an older one, only when it is complete.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::exit::CliError;

/// Copies a backup to a partial file, lets `check` verify it, and renames it. Returns its size and what `check`
/// returned. On failure it removes the partial file and leaves an older `file` untouched.
pub fn write<T>(
    source: impl io::Read,
    file: &Path,
    check: impl FnOnce(&Path, u64) -> Result<T, CliError>,
) -> Result<(u64, T), CliError> {
    let mut partial = file.to_owned().into_os_string();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let written = copy(source, &partial)
        .map_err(CliError::io(format!("write {}", partial.display())))
        .and_then(|bytes| Ok((bytes, check(&partial, bytes)?)))
        .and_then(|found| {
            rename(&partial, file).map_err(CliError::io(format!("write {}", file.display())))?;
            Ok(found)
        });
    written.inspect_err(|_| {
        // There is nothing to remove if the partial file could not be created.
        let _ = fs::remove_file(&partial);
    })
}

fn copy(mut source: impl io::Read, partial: &Path) -> io::Result<u64> {
    // Create it new, so that we never write through an existing file or link of that name.
    match fs::remove_file(partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Owner-only, like the data that it copies.
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(partial)?;
    let bytes = io::copy(&mut source, &mut out)?;
    out.sync_all()?;
    Ok(bytes)
}

fn rename(partial: &Path, file: &Path) -> io::Result<()> {
    fs::rename(partial, file)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
