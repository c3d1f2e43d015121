//! Waiting until nothing is queued, or until a change has its result.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use menagerie_journal_directory::Journals;
use menagerie_kernel::{Session, Term};
use menagerie_znodes::Name;
use menagerie_znodes::pipelines::{self as znodes, HistoryRecord, PipelineZnodes, Sha};
use tokio::time::{Instant, sleep};

use super::{ChangeName, LOOK_EVERY, require_pipeline};
use crate::git::Caches;
use crate::history::{Filter, Follower};
use crate::{Connection, PipelineError, view};

/// The watcher sees a merge of ours within this time, unless it cannot read the repository.
const WATCHER_PATIENCE: Duration = Duration::from_secs(10);
/// A vote or a push just before may still be on its way to the queues. When nothing is queued for this long, the result that
/// there is stands.
const SETTLED_AFTER: Duration = Duration::from_secs(2);
/// Older results of a change than these do not matter.
const RESULTS_MAX: usize = 100;

/// Waits until nothing is queued in a tenant. `None`: however long that takes. With `repositories`, what was pushed before and
/// not noticed yet counts, too.
pub async fn wait_until_idle(
    session: &Session,
    tenant: &Name,
    repositories: Option<(&Caches, &BTreeMap<String, Connection>)>,
    limit: Option<Duration>,
) -> Result<(), PipelineError> {
    let began = Instant::now();
    loop {
        let mut pending = pending(session, tenant, began.elapsed()).await?;
        if let (None, Some((caches, connections))) = (&pending, repositories) {
            // In this order: what was noticed meanwhile is queued by now.
            pending = match unnoticed(session, tenant, caches, connections).await? {
                None => self::pending(session, tenant, began.elapsed()).await?,
                unnoticed => unnoticed,
            };
        }
        let Some(pending) = pending else { return Ok(()) };
        if limit.is_some_and(|limit| began.elapsed() >= limit) {
            return Err(PipelineError::TooLate {
                what: format!("tenant {tenant} is not idle after {}: {pending}", seconds(began)),
                help: "see with `menagerie pipeline status` what is queued, and what it waits for".to_owned(),
            });
        }
        sleep(LOOK_EVERY).await;
    }
}

/// A project whose refs are not those that were seen last. A repository that cannot be read has nothing to wait for.
async fn unnoticed(
    session: &Session,
    tenant: &Name,
    caches: &Caches,
    connections: &BTreeMap<String, Connection>,
) -> Result<Option<String>, PipelineError> {
    let names: Vec<String> = connections.keys().cloned().collect();
    let seen = view::refs(session, &names).await?;
    for (connection, project) in view::projects(&session.term(), tenant).await? {
        let Some(settings) = connections.get(&connection) else { continue };
        let Some(known) = seen.project(&connection, &project).filter(|known| known.trouble.is_none()) else {
            continue;
        };
        let url = settings.url(&project);
        let Ok(repository) = caches.repository(&connection, &project, &url).await else { continue };
        if repository.remote_refs().await.is_ok_and(|refs| refs != known.refs) {
            return Ok(Some(format!("a push to {project} was not noticed yet")));
        }
    }
    Ok(None)
}

/// What keeps a tenant from being idle. Events move from connections to tenants to pipelines and become items there: we look
/// in this order, so that none slips past us.
async fn pending(
    session: &Session,
    tenant: &Name,
    waited: Duration,
) -> Result<Option<String>, PipelineError> {
    if let Some(unread) = view::unread(session, tenant).await? {
        return Ok(Some(unread));
    }
    let term = session.term().patient();
    let connections = view::connections(&term).await?;
    for connection in &connections {
        if view::backlog(&term, &znodes::connection_events(connection)).await? > 0 {
            return Ok(Some(format!("connection {connection} has events")));
        }
    }
    if view::backlog(&term, &znodes::tenant_triggers(tenant)).await? > 0 {
        return Ok(Some("it has events".to_owned()));
    }
    let pipelines = view::pipelines(&term, tenant).await?;
    let mut merged = Vec::new();
    for pipeline in pipelines {
        let at = PipelineZnodes { tenant: tenant.clone(), pipeline };
        if let Some(what) = pending_in(&term, &at).await? {
            return Ok(Some(format!("pipeline {} has {what}", at.pipeline)));
        }
        let record = term.read(&at.root().maybe_damaged()).await?.and_then(|found| found.value.sound());
        merged.extend(record.map(|record| record.merged).unwrap_or_default());
    }
    // Others may be triggered by a merge that the watcher has not seen yet.
    if waited < WATCHER_PATIENCE && !merged.is_empty() {
        let refs = view::refs(session, &connections).await?;
        let is_unseen = |merged: &&znodes::MergedChange| {
            connections.iter().any(|connection| {
                let open = refs.change(connection, &merged.change);
                let trouble =
                    refs.project(connection, &merged.change.project).and_then(|p| p.trouble.as_ref());
                trouble.is_none() && open.is_some_and(|open| open.patchset == merged.patchset)
            })
        };
        if let Some(merged) = merged.iter().find(is_unseen) {
            return Ok(Some(format!("the merge of {} was not seen yet", merged.change)));
        }
    }
    Ok(None)
}

async fn pending_in(term: &Term, at: &PipelineZnodes) -> Result<Option<&'static str>, PipelineError> {
    for queue in [at.triggers(), at.management(), at.results()] {
        if view::backlog(term, &queue).await? > 0 {
            return Ok(Some("events"));
        }
    }
    if term.stat(at.dirty().path()).await?.is_some() {
        return Ok(Some("a pass to make"));
    }
    for (folder, what) in [(at.items(), "items"), (at.reports(), "reports to make")] {
        if term.stat(folder.path()).await?.is_some_and(|stat| stat.children > 0) {
            return Ok(Some(what));
        }
    }
    Ok(None)
}

/// Where a change is.
struct Whereabouts {
    /// The head of its branch, while it is open.
    patchset: Option<Sha>,
    is_queued: bool,
}

/// Waits for the result of a change's patchset in a pipeline. What a reset threw away is no result. Results from before count
/// if the change is closed, or if nothing is queued that could bring another one.
pub async fn wait_for_change(
    session: &Session,
    journals: &Journals,
    tenant: &Name,
    pipeline: &Name,
    change: &ChangeName,
    limit: Option<Duration>,
) -> Result<HistoryRecord, PipelineError> {
    let began = Instant::now();
    require_pipeline(session, tenant, pipeline).await?;
    let filter = Filter {
        tenant: Some(tenant.clone()),
        pipeline: Some(pipeline.to_string()),
        change: Some(change.to_string()),
        limit: Some(RESULTS_MAX),
        ..Filter::default()
    };
    let (mut follower, mut results) = Follower::start(journals, filter).await?;
    let old: BTreeSet<Name> = results.iter().map(|result| result.uuid.clone()).collect();
    let mut quiet_since: Option<Instant> = None;
    loop {
        let place = whereabouts(session, tenant, pipeline, change).await?;
        let newest = results
            .iter()
            .filter(|result| result.result != "CANCELED" && is_about(result, place.patchset.as_ref()))
            .max_by_key(|result| result.ltime);
        let is_quiet = !place.is_queued && pending(session, tenant, WATCHER_PATIENCE).await?.is_none();
        quiet_since = if is_quiet { quiet_since.or(Some(Instant::now())) } else { None };
        let is_settled = quiet_since.is_some_and(|since| since.elapsed() >= SETTLED_AFTER);
        // A report that is still to be made may bring another result.
        let is_closed = place.patchset.is_none() && is_quiet;
        if let Some(newest) = newest.filter(|newest| is_closed || is_settled || !old.contains(&newest.uuid)) {
            return Ok(newest.clone());
        }
        if limit.is_some_and(|limit| began.elapsed() >= limit) {
            let whereabouts = match place {
                Whereabouts { is_queued: true, .. } => "it is still queued",
                Whereabouts { patchset: Some(_), .. } => "it is open, and not queued there",
                Whereabouts { patchset: None, .. } => "nobody has seen it",
            };
            return Err(PipelineError::TooLate {
                what: format!("{change} has no result in {pipeline} after {}: {whereabouts}", seconds(began)),
                help: "see with `menagerie pipeline status` what it waits for".to_owned(),
            });
        }
        results.extend(follower.next(LOOK_EVERY).await?);
    }
}

/// Whether a result is about this patchset; about any, if the change is not open any more.
fn is_about(result: &HistoryRecord, patchset: Option<&Sha>) -> bool {
    patchset.is_none_or(|patchset| result.refs.iter().any(|one| one.patchset.as_ref() == Some(patchset)))
}

async fn whereabouts(
    session: &Session,
    tenant: &Name,
    pipeline: &Name,
    change: &ChangeName,
) -> Result<Whereabouts, PipelineError> {
    let term = session.term().patient();
    let connections = view::connections(&term).await?;
    let refs = view::refs(session, &connections).await?;
    let patchset = change.find(&refs).map(|open| open.patchset.clone());
    let at = PipelineZnodes { tenant: tenant.clone(), pipeline: pipeline.clone() };
    let state = view::read_state(&term, &at).await?;
    let mut live = state.items.values().filter(|item| item.record.is_live);
    let is_queued = live.any(|item| item.record.subject.change().is_some_and(|found| change.is(found)));
    Ok(Whereabouts { patchset, is_queued })
}

fn seconds(began: Instant) -> String {
    format!("{} s", began.elapsed().as_secs())
}
