//! A znode that is watched for as long as a session lives.

use menagerie_kernel::session::Change;
use menagerie_kernel::{CallError, Term, whole};
use menagerie_znodes::{Payload, Znode};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::warn;

/// Follows a znode; dropped, it stops.
pub struct Followed<T> {
    seen: watch::Receiver<Option<(T, i64)>>,
    follow: JoinHandle<()>,
}

impl<T> Drop for Followed<T> {
    fn drop(&mut self) {
        self.follow.abort();
    }
}

impl<T: Payload + Send + Sync + 'static> Followed<T> {
    /// Begins to follow. The znode need not exist yet.
    pub fn start(term: &Term, znode: Znode<T>) -> Self {
        let (found, seen) = watch::channel(None);
        let term = term.patient();
        let follow = tokio::spawn(async move {
            let ended = follow(&term, &znode, &found).await;
            if let Err(error) = ended
                && !error.ends_term()
            {
                warn!(path = znode.path(), error = %whole(&error), "cannot follow a znode any more");
            }
        });
        Self { seen, follow }
    }

    /// What it holds, with its mzxid, as a watchable value. It ends with the session.
    pub fn seen(&self) -> watch::Receiver<Option<(T, i64)>> {
        self.seen.clone()
    }
}

async fn follow<T: Payload>(
    term: &Term,
    znode: &Znode<T>,
    found: &watch::Sender<Option<(T, i64)>>,
) -> Result<(), CallError> {
    let mut last = None;
    loop {
        let watch = match term.read_watched(znode).await? {
            Some((read, watch)) => {
                if last != Some(read.stat.mzxid) {
                    last = Some(read.stat.mzxid);
                    found.send_replace(Some((read.value, read.stat.mzxid)));
                }
                watch
            }
            None => {
                if last.take().is_some() {
                    found.send_replace(None);
                }
                match term.stat_watched(znode.path()).await? {
                    // It was created in between.
                    (Some(_), _) => continue,
                    (None, watch) => watch,
                }
            }
        };
        if watch.changed().await == Change::Ended {
            return Err(CallError::Expired);
        }
    }
}
