//! Another user of this machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use menagerie_testkit::binary;
use tempfile::TempDir;

/// The user `nobody`, present on every system.
const NOBODY: u32 = 65534;

/// Runs commands as `nobody`.
pub struct Stranger {
    folder: TempDir,
    servers: String,
}

impl Stranger {
    /// A stranger with ZooKeeper's address; `None` without the privileges to change users.
    pub fn at(servers: impl Into<String>) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        // Everybody may run it from there.
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        // Copied by another process: a process started by a concurrent test would inherit the file that we write, and
        // a file open for writing cannot be run.
        let copied = Command::new("cp").arg(binary()).arg(folder.path().join("menagerie")).status();
        assert!(copied.expect("there is a cp").success());
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        Some(Self { folder, servers: servers.into() })
    }

    /// Runs a command; returns its exit code and stderr.
    pub fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(self.folder.path().join("menagerie"));
        command.uid(NOBODY).gid(NOBODY).current_dir("/").env_clear().args(arguments);
        let done = command.env("MENAGERIE_ZOOKEEPER", &self.servers).output().expect("it can be run");
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    }
}
