//! Clean-up when a test binary ends without running destructors.
//!
//! Destructors do not run for statics, nor when a test binary is killed. So a small shell waits at the end of a pipe
//! whose other end only the test binary has: however the binary ends, the kernel closes the pipe, and the shell
//! cleans up. (Linux's parent-death signal would not do: it fires when the *thread* that started the child ends, and
//! every test has its own.)

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const KILL: &str = r#"read -r _; kill -KILL "$0""#;

/// The processes that write into the folder are being killed at the same moment, so the first attempt may find it not
/// empty.
const REMOVE: &str = r#"read -r _; for _ in 1 2 3 4 5 6 7 8; do rm -rf -- "$0" && break; sleep 0.2; done"#;

/// Cleans up once this process has ended. Dropping it cancels that.
#[derive(Debug)]
pub(crate) struct Guard {
    shell: Child,
}

impl Guard {
    /// Kills a child.
    pub(crate) fn of_process(pid: u32) -> Self {
        Self::new(KILL, pid.to_string().as_ref())
    }

    /// Removes a folder.
    pub(crate) fn of_folder(path: &Path) -> Self {
        Self::new(REMOVE, path.as_os_str())
    }

    fn new(script: &str, argument: &OsStr) -> Self {
        let shell = Command::new("sh")
            .arg("-c")
            .arg(script)
            .arg(argument)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C must reach the tests and not their guards.
            .process_group(0)
            .spawn()
            .expect("there is a shell");
        Self { shell }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Kill it before the pipe closes, which happens when the field is dropped.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
