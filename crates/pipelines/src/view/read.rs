//! From the tree of znodes to the state of a pipeline, for readers. What is missing or damaged is left out: one znode must
//! not hide all others.

use std::collections::BTreeMap;

use menagerie_kernel::recipes::blob::{Blob, BlobError};
use menagerie_kernel::session::{Read, ReadResult};
use menagerie_kernel::{CallError, Session, Term};
use menagerie_znodes::pipelines::{
    self as znodes, ConnectionRefs, Id, JobQueue, JobsStep, PipelineRecord, PipelineZnodes,
};
use menagerie_znodes::quote::unquote;
use menagerie_znodes::{Dir, Kind, Name, Payload, Znode};

use super::{
    ConnectionErrorView, EventQueueView, Fleet, PipelineView, RequestView, Requests, StatusView,
    pipeline_view,
};
use crate::core::knowledge::Refs;
use crate::core::{Build, Buildset, Item, Job, State};
use crate::scheduler::NOT_SEEN;
use crate::{PipelineError, config};

/// A pass may happen while we read; then we read again, this often at most.
const TRIES: usize = 5;
/// Lists of children read by one request.
const LISTS_MAX: usize = 128;

/// A tenant with all its pipelines.
pub async fn status(session: &Session, tenant: &Name) -> Result<StatusView, PipelineError> {
    let term = session.term().patient();
    let mut view = StatusView { tenant: tenant.to_string(), ..StatusView::default() };
    let layout = term.read(&znodes::layout(tenant).maybe_damaged()).await?;
    view.config_errors = layout
        .and_then(|found| found.value.sound())
        .map(|layout| [layout.problems, layout.trouble].concat())
        .unwrap_or_default();
    for connection in connections(&term).await? {
        let length = backlog(&term, &znodes::connection_events(&connection)).await?;
        view.connection_errors.extend(troubles(session, &connection).await?);
        view.connection_event_queues.insert(connection, EventQueueView { length });
    }
    view.trigger_event_queue.length = backlog(&term, &znodes::tenant_triggers(tenant)).await?;
    let fleet = Fleet::read(&term).await?;
    for pipeline in pipelines(&term, tenant).await? {
        view.pipelines.push(read_pipeline(&term, tenant, pipeline, &fleet).await?);
    }
    Ok(view)
}

async fn read_pipeline(
    term: &Term,
    tenant: &Name,
    pipeline: Name,
    fleet: &Fleet,
) -> Result<PipelineView, PipelineError> {
    let at = PipelineZnodes { tenant: tenant.clone(), pipeline };
    let trigger_events = backlog(term, &at.triggers()).await?;
    let management_events = backlog(term, &at.management()).await?;
    let result_events = backlog(term, &at.results()).await?;
    let state = read_state(term, &at).await?;
    let requests = read_requests(term, &state).await?;
    let view = pipeline_view(at.pipeline.as_str(), &state, &requests, fleet);
    Ok(PipelineView { trigger_events, management_events, result_events, ..view })
}

/// The state of a pipeline between two passes, if passes let us; without the state of repositories.
pub async fn read_state(term: &Term, at: &PipelineZnodes) -> Result<State, CallError> {
    let root = at.root();
    let mut record = sound(term, std::slice::from_ref(&root)).await?.remove(0).unwrap_or_default();
    let mut state = State::default();
    for _ in 0..TRIES {
        state = read_once(term, at, record).await?;
        let after: PipelineRecord =
            sound(term, std::slice::from_ref(&root)).await?.remove(0).unwrap_or_default();
        if after.passes == state.record.passes {
            break;
        }
        record = after;
    }
    Ok(state)
}

async fn read_once(term: &Term, at: &PipelineZnodes, record: PipelineRecord) -> Result<State, CallError> {
    let ids = record.queues.clone();
    let queues: Vec<_> = ids.iter().map(|id| at.queue(id)).collect();
    let queues: BTreeMap<_, _> = present(ids, sound(term, &queues).await?).collect();
    let ids: Vec<Id> = queues.values().flat_map(|queue| queue.items.clone()).collect();
    let items: Vec<_> = ids.iter().map(|id| at.item(id)).collect();
    let items: Vec<_> = present(ids, sound(term, &items).await?).collect();
    let sets: Vec<_> = items.iter().map(|(id, item)| at.buildset(id, &item.buildset)).collect();
    let sets = sound(term, &sets).await?;
    let mut jobs = read_jobs(term, at, &items, &sets).await?;
    let mut state = State { record, queues, ..State::default() };
    for ((id, record), set) in items.into_iter().zip(sets) {
        let Some(set) = set else { continue };
        let buildset = Buildset { record: set, state: None, jobs: jobs.remove(&id).unwrap_or_default() };
        state.items.insert(id, Item { record, buildset });
    }
    let ids = names(term, &at.reports()).await?;
    let reports: Vec<_> = ids.iter().map(|id| at.report(id)).collect();
    state.reports = present(ids, sound(term, &reports).await?).collect();
    Ok(state)
}

/// The jobs of all items, with their builds.
async fn read_jobs(
    term: &Term,
    at: &PipelineZnodes,
    items: &[(Id, znodes::ItemRecord)],
    sets: &[Option<znodes::BuildsetRecord>],
) -> Result<BTreeMap<Id, Vec<Job>>, CallError> {
    let mut places = Vec::new();
    for ((item, record), set) in items.iter().zip(sets) {
        let names: &[String] = match set.as_ref().map(|set| &set.jobs) {
            Some(JobsStep::Tips { names, .. } | JobsStep::Ready { names }) => names,
            Some(JobsStep::New | JobsStep::Failed { .. }) | None => &[],
        };
        places.extend(names.iter().map(|name| (item, &record.buildset, name)));
    }
    let records: Vec<_> = places.iter().map(|(item, set, job)| at.job(item, set, job)).collect();
    let records = sound(term, &records).await?;
    let lists: Vec<_> = places.iter().map(|(item, set, job)| at.builds(item, set, job)).collect();
    let lists = children_of_all(term, &lists).await?;
    let builds: Vec<_> = places
        .iter()
        .zip(&lists)
        .flat_map(|((item, set, job), ids)| ids.iter().map(|id| at.build(item, set, job, id)))
        .collect();
    let mut builds = sound(term, &builds).await?.into_iter();
    let mut jobs: BTreeMap<Id, Vec<Job>> = BTreeMap::new();
    for (((item, ..), record), ids) in places.into_iter().zip(records).zip(lists) {
        let found: Vec<_> = builds.by_ref().take(ids.len()).collect();
        let mut builds: Vec<Build> = present(ids, found).map(|(id, record)| Build { id, record }).collect();
        builds.sort_by_key(|build| build.record.attempt);
        if let Some(record) = record {
            jobs.entry(item.clone()).or_default().push(Job { record, builds });
        }
    }
    Ok(jobs)
}

/// The requests of all builds in flight.
pub async fn read_requests(term: &Term, state: &State) -> Result<Requests, CallError> {
    let jobs = state.items.values().flat_map(|item| &item.buildset.jobs);
    let ids: Vec<Id> = jobs.filter_map(|job| Some(job.in_flight()?.id.clone())).collect();
    let requests: Vec<_> = ids.iter().map(|id| JobQueue::Executor.request(id)).collect();
    let found = present(ids, sound(term, &requests).await?);
    Ok(found
        .map(|(id, request)| {
            let since_ms = request.worker.as_ref().map(|worker| worker.since_ms);
            (
                id,
                RequestView {
                    state: request.state,
                    worker: request.worker.map(|worker| worker.name),
                    since_ms,
                },
            )
        })
        .collect())
}

/// All tenants, by name.
pub async fn tenants(term: &Term) -> Result<Vec<Name>, CallError> {
    let conf = term.read(&znodes::system_conf().maybe_damaged()).await?.and_then(|found| found.value.sound());
    let tenants = conf.and_then(|conf| config::tenants(&conf.tenants).ok()).unwrap_or_default();
    let mut names: Vec<Name> = tenants.into_iter().filter_map(|tenant| Name::new(tenant.name).ok()).collect();
    names.sort_unstable();
    Ok(names)
}

/// All pipelines of a tenant, by name: those that its layout defines, and those that have a state.
pub async fn pipelines(term: &Term, tenant: &Name) -> Result<Vec<Name>, CallError> {
    let mut found = names(term, &znodes::tenant_pipelines(tenant)).await?;
    let layout =
        term.read(&znodes::layout(tenant).maybe_damaged()).await?.and_then(|found| found.value.sound());
    let defined = layout.map(|layout| layout.pipelines).unwrap_or_default();
    found.extend(defined.into_iter().filter_map(|name| Name::new(name).ok()));
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// What is still to be read after the schedulers have started: then nobody knows yet what is queued.
pub async fn unread(session: &Session, tenant: &Name) -> Result<Option<String>, PipelineError> {
    let term = session.term();
    let layout =
        term.read(&znodes::layout(tenant).maybe_damaged()).await?.and_then(|found| found.value.sound());
    let Some(layout) = layout else { return Ok(Some("its configuration was not read yet".to_owned())) };
    let seen = refs(session, &connections(&term).await?).await?;
    let projects = projects(&term, tenant).await?;
    let unseen = projects.iter().find(|(connection, project)| seen.project(connection, project).is_none());
    if let Some((_, project)) = unseen {
        return Ok(Some(format!("project {project} was not looked at yet")));
    }
    let stored = names(&term, &znodes::tenant_pipelines(tenant)).await?;
    let is_stored = |name: &&String| stored.iter().any(|stored| stored.as_str() == name.as_str());
    let missing = layout.pipelines.iter().find(|name| !is_stored(name));
    let stale = layout.trouble.iter().find(|trouble| trouble.ends_with(NOT_SEEN));
    Ok(missing.map(|name| format!("pipeline {name} has not begun yet")).or_else(|| stale.cloned()))
}

/// The projects of a tenant, each with its connection.
pub async fn projects(term: &Term, tenant: &Name) -> Result<Vec<(String, String)>, CallError> {
    let found =
        term.read(&znodes::layout(tenant).maybe_damaged()).await?.and_then(|found| found.value.sound());
    let projects = found.map(|layout| layout.tenant["projects"].clone());
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let pair = |project: &serde_json::Value| (text(&project["connection"]), text(&project["name"]));
    Ok(projects.as_ref().and_then(|list| list.as_array()).into_iter().flatten().map(pair).collect())
}

/// All connections that the schedulers know, by name.
pub async fn connections(term: &Term) -> Result<Vec<String>, CallError> {
    let conf = term.read(&znodes::system_conf().maybe_damaged()).await?.and_then(|found| found.value.sound());
    Ok(conf.map(|conf| conf.hosts.into_keys().collect()).unwrap_or_default())
}

/// What was seen last of the repositories of these connections. One that is damaged counts as one that was never seen.
pub async fn refs(session: &Session, connections: &[String]) -> Result<Refs, PipelineError> {
    let mut refs = Refs::default();
    for connection in connections {
        let found = match Blob::new(session, znodes::branches(connection)).read().await {
            Err(BlobError::Damaged { .. }) => None,
            found => found?,
        };
        if let Some(seen) = found.and_then(|(data, _)| ConnectionRefs::decode(&data).ok()) {
            refs.0.insert(connection.clone(), seen);
        }
    }
    Ok(refs)
}

async fn troubles(session: &Session, connection: &str) -> Result<Vec<ConnectionErrorView>, PipelineError> {
    let refs = refs(session, &[connection.to_owned()]).await?;
    let projects = refs.0.into_values().flat_map(|refs| refs.projects);
    let trouble = |(project, seen): (String, znodes::ProjectRefs)| {
        Some(ConnectionErrorView { connection: connection.to_owned(), project, error: seen.trouble? })
    };
    Ok(projects.filter_map(trouble).collect())
}

/// Number of entries of an event queue. Unlike its consumers, a reader creates nothing.
pub async fn backlog(term: &Term, queue: &Znode<Dir>) -> Result<usize, CallError> {
    let stat = term.stat(queue.child::<()>("queue", Kind::Persistent).path()).await?;
    Ok(stat.and_then(|stat| usize::try_from(stat.children).ok()).unwrap_or(0))
}

/// The payloads of znodes; `None` for those that are gone or damaged.
async fn sound<T: Payload>(term: &Term, znodes: &[Znode<T>]) -> Result<Vec<Option<T>>, CallError> {
    let znodes: Vec<_> = znodes.iter().map(Znode::maybe_damaged).collect();
    let found = term.read_many(&znodes).await?;
    Ok(found.into_iter().map(|found| found.and_then(|found| found.value.sound())).collect())
}

fn present<T>(ids: Vec<Id>, found: Vec<Option<T>>) -> impl Iterator<Item = (Id, T)> {
    ids.into_iter().zip(found).filter_map(|(id, found)| Some((id, found?)))
}

/// The names of a znode's children, sorted; none if it does not exist.
async fn names<T>(term: &Term, folder: &Znode<T>) -> Result<Vec<Name>, CallError> {
    match term.children(folder.path()).await {
        Ok(names) => Ok(valid(names)),
        Err(CallError::NoZnode { .. }) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

async fn children_of_all(term: &Term, folders: &[Znode<()>]) -> Result<Vec<Vec<Name>>, CallError> {
    let mut all = Vec::with_capacity(folders.len());
    for folders in folders.chunks(LISTS_MAX) {
        let reads: Vec<Read> =
            folders.iter().map(|folder| Read::Children(folder.path().to_owned())).collect();
        for result in term.read_together(&reads).await? {
            all.push(match result {
                ReadResult::Children(names) => valid(names),
                ReadResult::Data(..) | ReadResult::Nothing => Vec::new(),
            });
        }
    }
    Ok(all)
}

fn valid(names: Vec<String>) -> Vec<Name> {
    let unquoted = names.iter().filter_map(|name| unquote(name));
    let mut names: Vec<Name> = unquoted.filter_map(|name| Name::new(name).ok()).collect();
    names.sort_unstable();
    names
}
