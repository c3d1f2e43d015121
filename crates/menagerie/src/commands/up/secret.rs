//! The secret that keeps the namespace of `menagerie up` to its own user: drawn once, kept in the data folder.

use std::io;
use std::path::{Path, PathBuf};

use crate::commands::secret_file::SecretFile;
use crate::config::Secret;
use crate::exit::CliError;

/// Below the data folder: `USER:PASSWORD`, the format of `zookeeper.auth_file` and of other clients' digest
/// authentication.
const FILE: &str = "zookeeper.auth";
/// The user that access lists name.
pub const USER: &str = "menagerie";

/// Path of this data folder's secret.
pub fn path(root: &Path) -> PathBuf {
    root.join(FILE)
}

/// Reads this data folder's secret, or draws a new one.
pub fn load_or_draw(root: &Path) -> Result<Secret, CliError> {
    let file = SecretFile::at(path(root));
    match file.read()? {
        Some(text) => parse(file.path(), text),
        None => {
            let secret = random(USER)?;
            file.write(&secret.0)?;
            Ok(secret)
        }
    }
}

fn parse(path: &Path, text: String) -> Result<Secret, CliError> {
    let known = text.strip_prefix(USER).and_then(|rest| rest.strip_prefix(':'));
    if known.is_none_or(|password| password.is_empty() || password.contains(['\n', ':'])) {
        return Err(CliError::Usage {
            what: format!("{} does not hold {USER}:PASSWORD", path.display()),
            help: format!("remove it, and the next start draws another one: rm {}", path.display()),
        });
    }
    Ok(Secret(text))
}

/// `USER:PASSWORD` with an unguessable password.
pub fn random(user: &str) -> Result<Secret, CliError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| CliError::Io {
        doing: "draw a secret".to_owned(),
        source: io::Error::other(error.to_string()),
    })?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Secret(format!("{user}:{hex}")))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::*;

    #[test]
    fn secret_is_drawn_once_and_readable_for_its_user_alone() {
        let root = tempfile::tempdir().unwrap();
        let secret = load_or_draw(root.path()).unwrap();
        assert_eq!(secret, load_or_draw(root.path()).unwrap());
        assert_eq!(fs::metadata(path(root.path())).unwrap().mode() & 0o777, 0o600);
        assert_ne!(secret, load_or_draw(tempfile::tempdir().unwrap().path()).unwrap());
    }

    #[test]
    fn secret_that_others_may_know_is_refused() {
        let root = tempfile::tempdir().unwrap();
        load_or_draw(root.path()).unwrap();
        fs::set_permissions(path(root.path()), fs::Permissions::from_mode(0o640)).unwrap();
        assert!(load_or_draw(root.path()).unwrap_err().to_string().contains("not this user's alone"));
        fs::set_permissions(path(root.path()), fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(path(root.path()), "menagerie:\n").unwrap();
        assert!(load_or_draw(root.path()).unwrap_err().to_string().contains("does not hold"));
    }
}
