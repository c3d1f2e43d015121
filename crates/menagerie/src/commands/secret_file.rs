//! Files with a secret, for their owner alone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::exit::CliError;

/// A file with a secret on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFile(PathBuf);

impl SecretFile {
    /// A file that may not exist yet.
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The secret; `None` if the file does not exist. Refuses one that others may have read.
    pub fn read(&self) -> Result<Option<String>, CliError> {
        let path = self.0.display();
        let text = match fs::read_to_string(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(CliError::io(format!("read {path}")))?,
        };
        let about = fs::metadata(&self.0).map_err(CliError::io(format!("look at {path}")))?;
        if about.mode() & 0o077 != 0 || about.uid() != rustix::process::geteuid().as_raw() {
            return Err(CliError::Usage {
                what: format!("{path} is not this user's alone: others may know the secret in it"),
                help: format!("remove it, and the next start draws another one: rm {path}"),
            });
        }
        Ok(Some(text.trim_end_matches('\n').to_owned()))
    }

    /// Writes it. Atomic: a crash leaves a complete file or none.
    pub fn write(&self, secret: &str) -> Result<(), CliError> {
        let partial = self.0.with_extension("partial");
        let folder = self.0.parent().unwrap_or(Path::new("/"));
        let write = || -> io::Result<()> {
            fs::create_dir_all(folder)?;
            let _ = fs::remove_file(&partial);
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial)?;
            writeln!(file, "{secret}")?;
            file.sync_all()?;
            fs::rename(&partial, &self.0)?;
            File::open(folder)?.sync_all()
        };
        write().map_err(CliError::io(format!("write {}", self.0.display())))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_secret_is_read_as_it_was_written_by_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = SecretFile::at(folder.path().join("secret"));
        assert_eq!(file.read().unwrap(), None);
        file.write("abc").unwrap();
        file.write("def").unwrap();
        assert_eq!(file.read().unwrap().as_deref(), Some("def"));
        assert_eq!(fs::metadata(file.path()).unwrap().mode() & 0o777, 0o600);
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o640)).unwrap();
        assert!(file.read().unwrap_err().to_string().contains("not this user's alone"));
    }
}
