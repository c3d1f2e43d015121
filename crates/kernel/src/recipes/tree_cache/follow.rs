//! The loop behind a cache: it watches, reads, and updates the mirror.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{broadcast, watch};
use tracing::{debug, warn};

use super::agenda::{Agenda, Batch, Job};
use super::mirror::Mirror;
use super::{Freshness, TreeCacheError};
use crate::error::CallError;
use crate::session::{Session, Stat, Term, TreeEvent, TreeWatch};

/// Requests in flight: enough to keep a server busy, and others still get their turn.
const IN_FLIGHT_MAX: usize = 8;

/// Znodes read by one request.
const READ_PATHS_MAX: usize = 256;

/// Bytes of paths in one request: well below what a server takes.
const READ_PATHS_BYTES_MAX: usize = 128 * 1024;

/// Target size of one reply: the number of znodes per request follows from the size of the last ones.
const REPLY_BYTES: usize = 512 * 1024;

/// Znodes per request until their size is known.
const FIRST_READ_PATHS: usize = 8;

/// Events processed before the reads that they request are sent.
const EVENTS_AT_ONCE: usize = 1_024;

/// Data and facts of a znode, if it exists.
type Data = Option<(Vec<u8>, Stat)>;

enum Answer {
    Read(Vec<Arc<str>>, Vec<Data>),
    List(Arc<str>, Vec<String>),
}

type Flight = Pin<Box<dyn Future<Output = Result<Answer, CallError>> + Send>>;

/// Keeps a mirror up to date.
pub struct Follower {
    root: Arc<str>,
    mirror: Arc<RwLock<Mirror>>,
    agenda: Agenda,
    paths_max: usize,
    /// Whether events may be missing: then the cache is not live, however much was read.
    suspended: bool,
    revision: watch::Sender<u64>,
    freshness: watch::Sender<Freshness>,
    changes: broadcast::Sender<Arc<str>>,
}

impl Follower {
    pub fn new(
        root: &str,
        mirror: Arc<RwLock<Mirror>>,
        revision: watch::Sender<u64>,
        freshness: watch::Sender<Freshness>,
        changes: broadcast::Sender<Arc<str>>,
    ) -> Self {
        let (root, agenda, paths_max) = (root.into(), Agenda::default(), FIRST_READ_PATHS);
        Self { root, mirror, agenda, paths_max, suspended: false, revision, freshness, changes }
    }

    /// Follows one term after the other, until the session is closed.
    pub async fn run(mut self, session: Session) {
        let mut terms = session.term_by_term();
        let source = loop {
            let followed = self.follow(&terms.term().patient()).await;
            self.stale();
            if let Some(Err(error)) = terms.finished(followed).await {
                break error;
            }
        };
        let error = TreeCacheError { root: self.root.to_string(), source };
        self.freshness.send_replace(Freshness::Stopped(error));
    }

    async fn follow(&mut self, term: &Term) -> Result<Infallible, CallError> {
        let mut watch = term.watch_tree(&self.root).await?;
        loop {
            // A new session may read older data than the last one did, unless its server has caught up.
            term.sync("/").await?;
            self.follow_watch(term, &mut watch).await?;
            // Set the new watch before the old one is dropped, so that the server is never asked to remove it.
            watch = term.watch_tree(&self.root).await?;
        }
    }

    /// Follows a watch until it must be set again.
    async fn follow_watch(&mut self, term: &Term, watch: &mut TreeWatch) -> Result<(), CallError> {
        self.suspended = false;
        let mirror = self.mirror.clone();
        self.agenda.restart(&self.root, &mirror.read().unwrap_or_else(PoisonError::into_inner));
        let mut flights: FuturesUnordered<Flight> = FuturesUnordered::new();
        loop {
            while flights.len() < IN_FLIGHT_MAX
                && let Some(job) = self.agenda.next(self.batch())
            {
                flights.push(ask(term, job));
            }
            tokio::select! {
                event = watch.next() => {
                    let mut next = Some(event);
                    for _ in 0..EVENTS_AT_ONCE {
                        match next {
                            Some(TreeEvent::At(path, _)) => self.agenda.changed(&path.into()),
                            Some(TreeEvent::Suspended) => self.stale(),
                            Some(TreeEvent::Resumed) => return Ok(()),
                            Some(TreeEvent::Ended) => return Err(CallError::Expired),
                            None => break,
                        }
                        next = watch.try_next();
                    }
                }
                Some(answer) = flights.next() => self.apply(answer?),
            }
        }
    }

    fn batch(&self) -> Batch {
        Batch { paths_max: self.paths_max, bytes_max: READ_PATHS_BYTES_MAX }
    }

    fn apply(&mut self, answer: Answer) {
        let mut changed = Vec::new();
        match answer {
            Answer::List(parent, names) => {
                let mirror = self.mirror.read().unwrap_or_else(PoisonError::into_inner);
                self.agenda.listed(&parent, &names, &mirror);
            }
            Answer::Read(paths, found) => {
                let bytes: usize = found.iter().flatten().map(|(data, _)| data.len()).sum();
                let mean = (bytes / paths.len().max(1)).max(1);
                self.paths_max = (REPLY_BYTES / mean).clamp(1, READ_PATHS_MAX);
                let mut mirror = self.mirror.write().unwrap_or_else(PoisonError::into_inner);
                for (path, found) in paths.into_iter().zip(found) {
                    if self.agenda.read(&path, found, &mut mirror) {
                        changed.push(path);
                    }
                }
            }
        }
        self.publish(changed);
    }

    /// Publishes the changed paths, and then the freshness.
    fn publish(&self, changed: Vec<Arc<str>>) {
        if !changed.is_empty() {
            self.revision.send_modify(|revision| *revision += 1);
        }
        if self.changes.receiver_count() > 0 {
            for path in changed {
                // Whoever listened may be gone by now.
                let _ = self.changes.send(path);
            }
        }
        if self.agenda.is_walked() && !self.suspended {
            self.freshness.send_if_modified(|freshness| {
                let news = *freshness != Freshness::Live;
                *freshness = Freshness::Live;
                news
            });
        }
    }

    fn stale(&mut self) {
        self.suspended = true;
        self.freshness.send_if_modified(|freshness| {
            let news = *freshness == Freshness::Live;
            if news {
                debug!(path = &*self.root, "cache is stale");
                *freshness = Freshness::Stale;
            }
            news
        });
    }
}

fn ask(term: &Term, job: Job) -> Flight {
    let term = term.clone();
    Box::pin(async move {
        match job {
            Job::Read(paths) => {
                let found = read(&term, &paths).await?;
                Ok(Answer::Read(paths, found))
            }
            Job::List(path) => {
                let names = match term.children(&path).await {
                    Err(CallError::NoZnode { .. }) => Vec::new(),
                    Err(CallError::Denied { .. }) => {
                        warn!(path = &*path, "not allowed to list; what is below is not in the cache");
                        Vec::new()
                    }
                    names => names?,
                };
                Ok(Answer::List(path, names))
            }
        }
    })
}

async fn read(term: &Term, paths: &[Arc<str>]) -> Result<Vec<Data>, CallError> {
    let strings: Vec<String> = paths.iter().map(ToString::to_string).collect();
    match term.get_many(&strings).await {
        // Together they exceed the size of one reply.
        Err(CallError::Refused { .. }) if paths.len() > 1 => {}
        found => return found,
    }
    let mut found = Vec::with_capacity(paths.len());
    for path in &strings {
        found.push(match term.get(path).await {
            Ok(data) => Some(data),
            Err(CallError::NoZnode { .. } | CallError::Denied { .. }) => None,
            Err(error) => return Err(error),
        });
    }
    Ok(found)
}
