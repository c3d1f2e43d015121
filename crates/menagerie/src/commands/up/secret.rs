//! The secret that keeps the namespace of `menagerie up` to its own user: drawn once, kept in the data folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

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
    let path = path(root);
    match fs::read_to_string(&path) {
        Ok(text) => parse(&path, text.trim_end_matches('\n')),
        Err(error) if error.kind() == io::ErrorKind::NotFound => draw(root, &path),
        Err(source) => Err(CliError::Io { doing: format!("read {}", path.display()), source }),
    }
}

fn parse(path: &Path, text: &str) -> Result<Secret, CliError> {
    let refused = |what: String, help: String| CliError::Usage { what, help };
    let about = fs::metadata(path).map_err(CliError::io(format!("look at {}", path.display())))?;
    if about.mode() & 0o077 != 0 || about.uid() != rustix::process::geteuid().as_raw() {
        return Err(refused(
            format!("{} is not this user's alone: others may know the secret in it", path.display()),
            format!("remove it, and the next start draws another one: rm {}", path.display()),
        ));
    }
    let known = text.strip_prefix(USER).and_then(|rest| rest.strip_prefix(':'));
    if known.is_none_or(|password| password.is_empty() || password.contains(['\n', ':'])) {
        return Err(refused(
            format!("{} does not hold {USER}:PASSWORD", path.display()),
            format!("remove it, and the next start draws another one: rm {}", path.display()),
        ));
    }
    Ok(Secret(text.to_owned()))
}

/// Atomic: a crash leaves a complete file or none.
fn draw(root: &Path, path: &Path) -> Result<Secret, CliError> {
    let secret = random(USER)?;
    let partial = path.with_extension("partial");
    let write = || -> io::Result<()> {
        fs::create_dir_all(root)?;
        let _ = fs::remove_file(&partial);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial)?;
        writeln!(file, "{}", secret.0)?;
        file.sync_all()?;
        fs::rename(&partial, path)?;
        File::open(root)?.sync_all()
    };
    write().map_err(CliError::io(format!("write {}", path.display())))?;
    Ok(secret)
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
    use std::os::unix::fs::PermissionsExt as _;

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
