//! Finds the program under test.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The `menagerie` executable: the one that `MENAGERIE_BIN` names, else one built now. Building here makes `cargo
/// test` work from a fresh clone: cargo builds executables only for tests of their own package.
///
/// # Panics
/// If `MENAGERIE_BIN` names no file, or the build fails.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match env::var_os("MENAGERIE_BIN") {
        Some(path) => {
            let path = PathBuf::from(path);
            assert!(path.is_file(), "MENAGERIE_BIN names {}, which is not a file", path.display());
            path
        }
        None => build(),
    })
}

/// Prefixes of the variables with which cargo describes the package whose test runs.
const OURS: [&str; 4] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_PRIMARY_"];

/// Builds into the same target directory and profile as the running test, so that next to nothing is compiled twice.
fn build() -> PathBuf {
    let profile_dir = profile_dir();
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["build", "--quiet", "--package", "menagerie", "--manifest-path"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml"))
        .arg("--target-dir")
        .arg(target_dir());
    // Cargo describes the tested package in the environment. Build scripts depend on these variables, so with them
    // dependencies would be compiled again here, and once more by the next build outside.
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| OURS.iter().any(|ours| name.starts_with(ours))) {
            command.env_remove(name);
        }
    }
    if profile_dir.ends_with("release") {
        command.arg("--release");
    }
    let status = command.status().expect("cargo can be run");
    assert!(status.success(), "cannot build menagerie: {command:?} ended with {status}");
    profile_dir.join("menagerie")
}

/// `target`, wherever cargo is configured to put it.
pub(crate) fn target_dir() -> PathBuf {
    profile_dir().parent().expect("the profile's directory lies in the target directory").to_owned()
}

/// `target/debug`, found from the running test, which cargo puts into `target/debug/deps`.
fn profile_dir() -> PathBuf {
    let exe = env::current_exe().expect("a running test has an executable");
    let dir = exe.parent().expect("an executable lies in a directory");
    if dir.ends_with("deps") {
        dir.parent().expect("deps lies in a directory").to_owned()
    } else {
        dir.to_owned()
    }
}
