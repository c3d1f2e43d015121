//! Locks between the processes and loops of one machine that share a cache.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::error::GitError;

/// The first pause between two attempts; each next one is half as long again.
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_millis(50);
/// Git never holds its own lock files this long; an older one was left behind by a crash.
const STALE_AFTER: Duration = Duration::from_secs(60);

/// Holds a lock file until it is dropped, or until the process ends.
#[derive(Debug)]
pub(super) struct FileLock {
    _file: File,
}

impl FileLock {
    /// Waits for the lock. It is polled, because a thread that blocks in `flock` could not be cancelled.
    pub(super) async fn acquire(path: &Path, limit: Duration) -> Result<Self, GitError> {
        let doing = || format!("lock {}", path.display());
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(GitError::io(doing()))?;
        let deadline = Instant::now() + limit;
        let mut pause = PAUSE_MIN;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { _file: file }),
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < deadline => {}
                Err(Errno::WOULDBLOCK | Errno::INTR) => {
                    return Err(GitError::TimedOut { doing: doing(), limit });
                }
                Err(error) => return Err(GitError::io(doing())(error.into())),
            }
            tokio::time::sleep(pause).await;
            pause = (pause + pause / 2).min(PAUSE_MAX);
        }
    }
}

/// Removes the lock files that a crash has left below a folder of refs, so that one power cut does not stop fetches
/// for ever. Best effort: git complains again if a file stays.
pub(super) fn remove_stale_locks(folder: &Path) {
    let Ok(entries) = folder.read_dir() else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            remove_stale_locks(&path);
        } else if path.extension().is_some_and(|extension| extension == "lock") {
            remove_if_stale(&path);
        }
    }
}

/// Removes one lock file of git's if it is too old to be in use.
pub(super) fn remove_if_stale(path: &Path) {
    let modified = path.metadata().and_then(|metadata| metadata.modified()).ok();
    let age = modified.and_then(|modified| SystemTime::now().duration_since(modified).ok());
    if age.is_some_and(|age| age > STALE_AFTER) && std::fs::remove_file(path).is_ok() {
        tracing::warn!(path = %path.display(), "removed stale git lock file");
    }
}
