//! Whether a program exists: a worker with a missing one would give up message after message.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use menagerie_kernel::guard::GuardError;

use crate::exit::CliError;

/// Searches as the guard will: at the program's path, or in PATH if it has none.
pub fn find(program: &OsStr) -> Result<(), CliError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    search(program, &path).map_err(|source| {
        CliError::not_started(GuardError::NoProgram {
            program: program.to_string_lossy().into_owned(),
            source,
        })
    })
}

fn search(program: &OsStr, path: &OsStr) -> io::Result<()> {
    let places: Vec<PathBuf> = match program.as_bytes().contains(&b'/') {
        true => vec![PathBuf::from(program)],
        false => std::env::split_paths(path).map(|folder| folder.join(program)).collect(),
    };
    let mut missing = rustix::io::Errno::NOENT.into();
    for place in &places {
        match require_executable(place) {
            Ok(()) => return Ok(()),
            // The shell would search on, too, but "not executable" says more than "not found".
            Err(error) if error.kind() != io::ErrorKind::NotFound => missing = error,
            Err(_) => {}
        }
    }
    Err(missing)
}

fn require_executable(path: &Path) -> io::Result<()> {
    let found = std::fs::metadata(path)?;
    match found.is_file() && found.permissions().mode() & 0o111 != 0 {
        true => Ok(()),
        false => Err(rustix::io::Errno::ACCESS.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_the_shell_finds_them() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, run) = (folder.path().join("plain"), folder.path().join("run"));
        std::fs::write(&plain, "").unwrap();
        std::fs::write(&run, "").unwrap();
        std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o644)).unwrap();
        let path = std::env::join_paths(["/nowhere".as_ref(), folder.path()]).unwrap();
        let kind = |name: &OsStr| search(name, &path).map_err(|error| error.kind());
        assert_eq!(kind("run".as_ref()), Ok(()));
        assert_eq!(kind(run.as_os_str()), Ok(()));
        assert_eq!(kind("plain".as_ref()), Err(io::ErrorKind::PermissionDenied));
        assert_eq!(kind(folder.path().as_os_str()), Err(io::ErrorKind::PermissionDenied));
        assert_eq!(kind("missing".as_ref()), Err(io::ErrorKind::NotFound));
        assert_eq!(kind("./run".as_ref()), Err(io::ErrorKind::NotFound));
    }
}
