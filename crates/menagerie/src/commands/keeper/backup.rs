//! `menagerie keeper backup FILE`: a consistent copy while the keeper runs.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use menagerie_keeper::shell::admin;
use menagerie_keeper::store::snapshot;

use crate::commands::data::DataArgs;
use crate::exit::CliError;

/// Write a consistent backup of the running keeper to FILE.
#[derive(Debug, Args)]
pub struct Backup {
    /// Where to; an existing file is replaced only when the backup is complete.
    file: PathBuf,
    #[command(flatten)]
    data: DataArgs,
}

impl Backup {
    /// Asks the running keeper, writes, checks, and only then gives the file its name.
    pub fn run(self) -> Result<(), CliError> {
        let folder = self.data.keeper()?;
        let source = admin::request_backup(&folder).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                CliError::NotRunning { path: folder.display().to_string(), source }
            }
            _ => {
                CliError::Io { doing: format!("ask the keeper on {} for a backup", folder.display()), source }
            }
        })?;
        let mut partial = self.file.clone().into_os_string();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let written = write(source, &partial, &self.file);
        if written.is_err() {
            // Nothing is there to remove when it could not even be made.
            let _ = fs::remove_file(&partial);
        }
        let (bytes, zxid) = written?;
        println!("{}: {bytes} bytes, up to zxid {zxid:#x}", self.file.display());
        Ok(())
    }
}

/// Copies, checks and renames. Returns the bytes written and the zxid that the copy stands at.
fn write(mut source: impl io::Read, partial: &Path, file: &Path) -> Result<(u64, i64), CliError> {
    let mut copy = || -> io::Result<u64> {
        // For its owner alone, like the data that it is a copy of.
        // Made anew, so that nobody's file or link of that name is written through.
        match fs::remove_file(partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(partial)?;
        let bytes = io::copy(&mut source, &mut out)?;
        out.sync_all()?;
        Ok(bytes)
    };
    let bytes = copy().map_err(CliError::io(format!("write {}", partial.display())))?;
    let checked = snapshot::verify(partial).map_err(|source| CliError::Store {
        doing: "verify the backup".to_owned(),
        source: Box::new(source),
        help: "try again; when the keeper was busy or stopping, its log says so",
    })?;
    let rename = || -> io::Result<()> {
        fs::rename(partial, file)?;
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    };
    rename().map_err(CliError::io(format!("write {}", file.display())))?;
    Ok((bytes, checked.zxid))
}
