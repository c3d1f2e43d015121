//! The limit of open files.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises this process's limit of open files and sockets to `wanted`; many systems default to 1,024.
///
/// # Panics
/// If the system does not allow as many.
pub fn allow_files(wanted: u64) {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return;
    }
    assert!(
        limit.maximum.is_none_or(|maximum| maximum >= wanted),
        "this test needs {wanted} open files, but the hard limit is {:?}: raise it (ulimit -Hn)",
        limit.maximum
    );
    limit.current = Some(wanted);
    setrlimit(Resource::Nofile, limit).expect("the soft limit may be raised up to the hard one");
}
