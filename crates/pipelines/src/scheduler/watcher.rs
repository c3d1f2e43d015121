//! The watcher of a connection: looks at its repositories, and puts what has changed as events.
//!
//! The refs that were seen last are written in the transaction that puts the events: a watcher that takes over tells nothing
//! twice, and misses nothing that happened meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use menagerie_kernel::recipes::blob::{Blob, Expect};
use menagerie_kernel::recipes::grant::Grant;
use menagerie_kernel::recipes::sequence_queue::{LIMIT, SequenceQueue};
use menagerie_kernel::recipes::tree_cache::TreeCache;
use menagerie_kernel::{CallError, Session, whole};
use menagerie_znodes::Payload as _;
use menagerie_znodes::pipelines::{
    ChangeRecord, ConnectionRefs, Event, Events, NoteLine, ProjectRefs, Sha, branches, connection_events,
    poke, pokes,
};
use serde_json::Value;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::core::refs::{self, NOTES_REF};
use crate::git::{Caches, Repository};
use crate::{Connection, PipelineError};

/// Repositories that are looked at concurrently.
const LOOKS_IN_FLIGHT: usize = 8;

/// Repositories whose changes are told by one transaction.
const LOOKS_TOGETHER: usize = 8;

/// What a watcher looks at.
pub struct Watcher<'a> {
    /// Its session.
    pub session: &'a Session,
    /// Caches of repositories.
    pub caches: &'a Caches,
    /// Name of the connection.
    pub name: &'a str,
    /// Where its repositories are.
    pub connection: &'a Connection,
    /// The projects that tenants have of it.
    pub projects: &'a BTreeSet<String>,
}

/// A repository as it is now, and what that means.
struct Look {
    project: String,
    seen: ProjectRefs,
    events: Vec<Event>,
}

impl Watcher<'_> {
    /// Watches until it fails or is stopped.
    pub async fn run(&self, grant: &Grant) -> Result<(), PipelineError> {
        let blob = Blob::new(self.session, branches(self.name));
        let mut known = match blob.read().await? {
            Some((data, _)) => decode(&data)?,
            None => ConnectionRefs::default(),
        };
        let poked = TreeCache::start(self.session, &pokes(self.name));
        poked.ready().await?;
        let mut revision = poked.subscribe();
        let mut answered: BTreeMap<String, i64> = BTreeMap::new();
        let mut next = Instant::now();
        loop {
            revision.borrow_and_update();
            let pokes = self.pokes(&poked);
            let is_due = Instant::now() >= next;
            if is_due {
                next = Instant::now() + self.connection.poll;
            }
            let is_news = |project: &&String| pokes.get(*project) > answered.get(*project);
            let due: Vec<String> =
                self.projects.iter().filter(|project| is_due || is_news(project)).cloned().collect();
            answered = pokes;
            self.look_at(grant, &blob, &mut known, due).await?;
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                changed = revision.changed() => if changed.is_err() {
                    poked.ready().await?;
                },
            }
        }
    }

    /// When each project was poked last.
    fn pokes(&self, cache: &TreeCache) -> BTreeMap<String, i64> {
        let poked = |project: &String| {
            let (_, stat) = cache.get(poke(self.name, project).path())?;
            Some((project.clone(), stat.mzxid))
        };
        self.projects.iter().filter_map(poked).collect()
    }

    async fn look_at(
        &self,
        grant: &Grant,
        blob: &Blob,
        known: &mut ConnectionRefs,
        due: Vec<String>,
    ) -> Result<(), PipelineError> {
        let looks: Vec<Look> = {
            let known = &*known;
            let looks = due.into_iter().map(|project| async move {
                let old = known.projects.get(&project);
                self.look(project, old).await
            });
            stream::iter(looks).buffered(LOOKS_IN_FLIGHT).filter_map(async |look| look).collect().await
        };
        let is_gone = |project: &String| !self.projects.contains(project);
        if looks.is_empty() && known.projects.keys().any(is_gone) {
            known.projects.retain(|project, _| self.projects.contains(project));
            blob.write_fenced(grant.transaction(), &known.encode(), Expect::Anything).await?;
        }
        known.projects.retain(|project, _| self.projects.contains(project));
        let queue = SequenceQueue::new(self.session, connection_events(self.name), LIMIT);
        // A few at a time: each may have events of any number, and all must fit into one transaction.
        for looks in looks.chunks(LOOKS_TOGETHER) {
            let mut events = Vec::new();
            for look in looks {
                if !look.events.is_empty() {
                    events.push(Events(look.events.clone()).encode());
                }
                known.projects.insert(look.project.clone(), look.seen.clone());
            }
            debug!(connection = self.name, repositories = looks.len(), "repositories have changed");
            let transaction = queue.put_all_with(grant.transaction(), &events).await?;
            blob.write_fenced(transaction, &known.encode(), Expect::Anything).await?;
        }
        Ok(())
    }

    /// Looks at a repository; `None` if nothing has changed.
    async fn look(&self, project: String, old: Option<&ProjectRefs>) -> Option<Look> {
        match self.seen(&project, old).await {
            Ok(None) => None,
            Ok(Some((seen, events))) => Some(Look { project, seen, events }),
            Err(error) => {
                let trouble = whole(&error).to_string();
                if old.and_then(|old| old.trouble.as_ref()) == Some(&trouble) {
                    return None;
                }
                warn!(connection = self.name, project, error = trouble, "cannot look at a repository");
                // What was seen last stays: a repository that is away has lost nothing.
                let seen = ProjectRefs { trouble: Some(trouble), ..old.cloned().unwrap_or_default() };
                Some(Look { project, seen, events: Vec::new() })
            }
        }
    }

    async fn seen(
        &self,
        project: &str,
        old: Option<&ProjectRefs>,
    ) -> Result<Option<(ProjectRefs, Vec<Event>)>, PipelineError> {
        let url = self.connection.url(project);
        let repository = self.caches.repository(self.name, project, &url).await?;
        let refs = repository.remote_refs().await?;
        // A repository that was never read, because it was away, is new.
        let old = old.filter(|old| !(old.refs.is_empty() && old.trouble.is_some()));
        if old.is_some_and(|old| old.refs == refs && old.trouble.is_none()) {
            return Ok(None);
        }
        let (notes_before, notes) = (old.and_then(|old| old.refs.get(NOTES_REF)), refs.get(NOTES_REF));
        let noted = match notes {
            Some(notes) if Some(notes) != notes_before => {
                repository.require(&[notes]).await?;
                repository.noted_since(notes_before, notes).await?
            }
            _ => Vec::new(),
        };
        // Votes are gone with the ref that has them.
        let is_gone = notes.is_none() && notes_before.is_some();
        let mut changes = BTreeMap::new();
        let mut added = Vec::new();
        for (change, patchset) in refs::proposals(project, &refs) {
            let before = old.and_then(|old| old.changes.get(&change.branch()));
            let before = before.filter(|before| before.patchset == patchset && before.change == change);
            let record = match before {
                Some(before) if !is_gone && !noted.contains(&patchset) => before.clone(),
                _ => {
                    let lines = note_lines(&repository, notes, &patchset).await?;
                    let known = match notes_before.filter(|_| before.is_some()) {
                        Some(notes) => note_lines(&repository, Some(notes), &patchset).await?,
                        None => Vec::new(),
                    };
                    let target = refs.get(&change.target_ref());
                    let messages = self.messages(&repository, target, &patchset).await?;
                    let record = ChangeRecord {
                        subject: messages
                            .first()
                            .and_then(|text| text.lines().next())
                            .unwrap_or_default()
                            .to_owned(),
                        depends_on: refs::dependencies(&messages),
                        votes: refs::votes(&change, &lines),
                        change,
                        patchset,
                    };
                    let name = record.change.to_string();
                    let is_new = |line: &NoteLine| line.change == name && !known.contains(line);
                    added.push((record.clone(), lines.into_iter().filter(is_new).collect()));
                    record
                }
            };
            changes.insert(record.change.branch(), record);
        }
        let seen = ProjectRefs { refs, changes, trouble: None };
        let events = refs::events(self.name, project, old, &seen, &added);
        Ok(Some((seen, events)))
    }

    async fn messages(
        &self,
        repository: &Repository,
        target: Option<&Sha>,
        patchset: &Sha,
    ) -> Result<Vec<String>, PipelineError> {
        let Some(target) = target else { return Ok(Vec::new()) };
        repository.require(&[target, patchset]).await?;
        Ok(repository.messages(target, patchset).await?)
    }
}

/// The lines of notes on a patchset that are ours.
async fn note_lines(
    repository: &Repository,
    notes: Option<&Sha>,
    patchset: &Sha,
) -> Result<Vec<NoteLine>, PipelineError> {
    let Some(notes) = notes else { return Ok(Vec::new()) };
    repository.require(&[notes]).await?;
    let lines: Vec<Value> = repository.notes(notes, patchset).await?;
    Ok(lines.into_iter().filter_map(|line| serde_json::from_value(line).ok()).collect())
}

/// Decodes the refs of a connection.
pub fn decode(data: &[u8]) -> Result<ConnectionRefs, PipelineError> {
    ConnectionRefs::decode(data).map_err(|error| {
        CallError::Payload { path: "the refs of a connection".to_owned(), why: error.source.to_string() }
            .into()
    })
}

/// Makes the watcher look at a repository at once. It would look anyhow, a little later.
pub async fn poke_watcher(session: &Session, connection: &str, project: &str) {
    let (znode, patience) = (poke(connection, project), Duration::from_secs(5));
    let term = session.term();
    let touch = async {
        match menagerie_kernel::retry::touch(&term, znode.path(), b"").await {
            Err(CallError::NoZnode { .. }) => menagerie_kernel::retry::ensure(&term, znode.path(), b"").await,
            touched => touched.map(drop),
        }
    };
    if !matches!(tokio::time::timeout(patience, touch).await, Ok(Ok(()))) {
        debug!(connection, project, "the watcher was not told; it looks by itself");
    }
}
