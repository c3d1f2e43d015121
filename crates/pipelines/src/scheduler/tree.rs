//! From the tree of znodes to the state of a pipeline, and back.

use std::collections::BTreeMap;

use menagerie_kernel::CallError;
use menagerie_kernel::recipes::tree_cache::TreeCache;
use menagerie_znodes::pipelines::{Id, JobsStep, PipelineZnodes};
use menagerie_znodes::{Name, Payload, Znode};

use crate::core::{Build, Buildset, Item, Job, State};

/// What stands in the tree: data by path. Without the folders that are always there.
pub type Written = BTreeMap<String, Vec<u8>>;

/// The tree that a state is stored as.
pub fn render(state: &State, at: &PipelineZnodes) -> Written {
    let mut tree = Written::new();
    put(&mut tree, &at.root(), &state.record);
    for (id, queue) in &state.queues {
        put(&mut tree, &at.queue(id), queue);
    }
    for (id, report) in &state.reports {
        put(&mut tree, &at.report(id), report);
    }
    for (id, item) in &state.items {
        put(&mut tree, &at.item(id), &item.record);
        put(&mut tree, &at.buildsets(id), &());
        render_buildset(&mut tree, at, id, &item.record.buildset, &item.buildset);
    }
    tree
}

fn render_buildset(tree: &mut Written, at: &PipelineZnodes, item: &Id, id: &Id, buildset: &Buildset) {
    put(tree, &at.buildset(item, id), &buildset.record);
    if let Some(state) = &buildset.state {
        put(tree, &at.repo_state(item, id), state);
    }
    if !buildset.jobs.is_empty() {
        put(tree, &at.jobs(item, id), &());
    }
    for job in &buildset.jobs {
        let name = &job.record.job.name;
        put(tree, &at.job(item, id, name), &job.record);
        if !job.builds.is_empty() {
            put(tree, &at.builds(item, id, name), &());
        }
        for build in &job.builds {
            put(tree, &at.build(item, id, name, &build.id), &build.record);
        }
    }
}

fn put<T: Payload>(tree: &mut Written, znode: &Znode<T>, payload: &T) {
    tree.insert(znode.path().to_owned(), payload.encode());
}

/// The state that the tree stores, and all that stands there: also what nobody refers to, so that the next write removes it.
pub fn load(cache: &TreeCache, at: &PipelineZnodes) -> Result<(State, Written), CallError> {
    let mut written = Written::new();
    collect(cache, at.root().path(), &mut written);
    for folder in [at.queues().path(), at.items().path(), at.reports().path(), at.dirty().path()] {
        written.remove(folder);
    }
    let mut state = State { record: required(cache, &at.root())?, ..State::default() };
    for id in std::mem::take(&mut state.record.queues) {
        // The pipeline is written last: a pass that was interrupted may have deleted an empty queue that it still names.
        let Some(queue) = cache.read(&at.queue(&id))?.map(|found| found.value) else { continue };
        state.record.queues.push(id.clone());
        for item in &queue.items {
            state.items.insert(item.clone(), load_item(cache, at, item)?);
        }
        state.queues.insert(id, queue);
    }
    for name in cache.children(at.reports().path()) {
        if let Ok(id) = Name::new(name) {
            state.reports.insert(id.clone(), required(cache, &at.report(&id))?);
        }
    }
    Ok((state, written))
}

fn load_item(cache: &TreeCache, at: &PipelineZnodes, id: &Id) -> Result<Item, CallError> {
    let record = required(cache, &at.item(id))?;
    let set = &record.buildset;
    let buildset = required(cache, &at.buildset(id, set))?;
    let names = match &buildset.jobs {
        JobsStep::Tips { names, .. } | JobsStep::Ready { names } => names.clone(),
        JobsStep::New | JobsStep::Failed { .. } => Vec::new(),
    };
    let mut jobs = Vec::new();
    for name in names {
        let mut builds = Vec::new();
        for build in cache.children(at.builds(id, set, &name).path()) {
            if let Ok(build) = Name::new(build) {
                builds.push(Build { record: required(cache, &at.build(id, set, &name, &build))?, id: build });
            }
        }
        builds.sort_by_key(|build| build.record.attempt);
        jobs.push(Job { record: required(cache, &at.job(id, set, &name))?, builds });
    }
    let state = cache.read(&at.repo_state(id, set))?.map(|found| found.value);
    Ok(Item { buildset: Buildset { record: buildset, state, jobs }, record })
}

fn required<T: Payload>(cache: &TreeCache, znode: &Znode<T>) -> Result<T, CallError> {
    match cache.read(znode)? {
        Some(found) => Ok(found.value),
        None => Err(CallError::no_znode(znode)),
    }
}

fn collect(cache: &TreeCache, path: &str, written: &mut Written) {
    let Some((data, _)) = cache.get(path) else { return };
    written.insert(path.to_owned(), data.to_vec());
    for child in cache.children(path) {
        collect(cache, &format!("{path}/{child}"), written);
    }
}
