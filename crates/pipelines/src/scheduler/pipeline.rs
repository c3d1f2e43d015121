//! A pipeline's passes: gathers what has happened, steps, writes, and does what is to be done outside of ZooKeeper.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use menagerie_kernel::recipes::grant::Grant;
use menagerie_kernel::recipes::logical_time::logical_time;
use menagerie_kernel::recipes::sequence_queue::{EntryId, LIMIT, SequenceQueue};
use menagerie_kernel::recipes::tree_cache::TreeCache;
use menagerie_kernel::session::now_ms;
use menagerie_kernel::{CallError, Session, retry};
use menagerie_znodes::pipelines::{
    Id, Management, ManagementAnswer, MergeStep, Outcome, PipelineRecord, PipelineRef, PipelineZnodes,
    Subject, Triggers, management_result,
};
use menagerie_znodes::{Dir, Kind, Payload, Znode};
use tokio::sync::watch;
use tracing::debug;

use super::commit::entries;
use super::layouts::read_refs;
use super::pass::PassWrite;
use super::pushes::{self, MergePush};
use super::reports::Reporter;
use super::tree::{self, Written};
use super::wanted::Requests;
use crate::core::{Effect, Facts, Input, Refs, State, TenantConfig, step};
use crate::git::Caches;
use crate::{PipelineError, Settings, submit};

/// Events of one queue that one pass takes in.
const EVENTS_MAX: usize = 200;
/// How often it is looked for builds whose executor is gone, besides whenever a lock is released.
const SWEEP: Duration = Duration::from_secs(2);

/// What the passes of all pipelines share.
pub struct Shared<'a> {
    /// The session.
    pub session: &'a Session,
    /// Connections.
    pub settings: &'a Settings,
    /// Caches of repositories.
    pub caches: &'a Caches,
    /// Makes reports.
    pub reporter: &'a Reporter,
    /// The requests of all pipelines.
    pub requests: &'a Requests,
    /// The votes that a merge takes, by connection.
    pub submit: &'a BTreeMap<String, BTreeMap<String, i64>>,
}

/// The passes of one pipeline.
pub struct Passes<'a> {
    /// What all pipelines share.
    pub shared: &'a Shared<'a>,
    /// Its znodes.
    pub at: PipelineZnodes,
    /// The configuration of its tenant.
    pub config: watch::Receiver<Option<Arc<TenantConfig>>>,
}

/// The three event queues of a pipeline.
struct Queues {
    cache: TreeCache,
    management: SequenceQueue,
    triggers: SequenceQueue,
    results: SequenceQueue,
}

/// A pipeline in memory, while its lock is held.
struct Live<'p> {
    passes: &'p Passes<'p>,
    grant: &'p Grant,
    name: PipelineRef,
    queues: Queues,
    state: State,
    written: Written,
    refs: Refs,
    is_dirty: bool,
    /// Pushes and reports under way.
    work: FuturesUnordered<LocalBoxFuture<'p, Result<Input, PipelineError>>>,
    pushing: HashSet<Id>,
    reporting: HashSet<Id>,
}

impl Passes<'_> {
    /// Makes passes until it fails or is stopped.
    pub async fn run(&self, grant: &Grant) -> Result<(), PipelineError> {
        let mut live = self.load(grant).await?;
        let mut config = self.config.clone();
        let mut arrivals = live.queues.cache.subscribe();
        let mut requests = self.shared.requests.changes();
        let mut sweep = tokio::time::interval(SWEEP);
        let mut inputs = Vec::new();
        let mut is_first = true;
        loop {
            arrivals.borrow_and_update();
            let known = config.borrow_and_update().clone();
            // A pipeline that is only broken comes back when somebody mends it: what is in it waits.
            let is_broken = |known: &&Arc<TenantConfig>| known.layout().is_broken(self.at.pipeline.as_str());
            if let Some(known) = known.as_ref().filter(|known| !is_broken(known)) {
                live.advance(known, std::mem::take(&mut inputs), is_first).await?;
                is_first = false;
                live.begin_work(known)?;
            }
            self.shared.requests.tidy(grant, &live.name, &live.state).await;
            let [executor, locks, merger] = &mut requests;
            tokio::select! {
                changed = arrivals.changed() => if changed.is_err() {
                    live.queues.cache.ready().await?;
                },
                _ = config.changed() => {}
                Some(done) = live.work.next(), if !live.work.is_empty() => inputs.push(done?),
                _ = executor.changed() => {}
                _ = locks.changed() => {}
                _ = merger.changed() => {}
                _ = sweep.tick() => {}
            }
            while let Some(Some(done)) = live.work.next().now_or_never() {
                inputs.push(done?);
            }
            let lost = self.shared.requests.lost(grant, &live.name, &live.state).await?;
            inputs.extend(lost.into_iter().map(Input::Outcome));
        }
    }

    /// Reads the pipeline as whoever held the lock before has left it.
    async fn load<'p>(&'p self, grant: &'p Grant) -> Result<Live<'p>, PipelineError> {
        let (term, at) = (grant.term().patient(), &self.at);
        retry::ensure(&term, at.root().path(), &PipelineRecord::default().encode()).await?;
        for folder in [at.queues(), at.items(), at.reports(), at.events()] {
            retry::ensure(&term, folder.path(), b"").await?;
        }
        let tree = TreeCache::start(self.shared.session, &at.root());
        tree.ready().await?;
        let (state, written) = tree::load(&tree, at)?;
        debug!(pipeline = %at.pipeline, items = state.items.len(), "the pipeline is read");
        let queue = |dir: Znode<Dir>| SequenceQueue::new(self.shared.session, dir, LIMIT);
        let queues = Queues {
            cache: TreeCache::start(self.shared.session, &at.events()),
            management: queue(at.management()),
            triggers: queue(at.triggers()),
            results: queue(at.results()),
        };
        queues.cache.ready().await?;
        Ok(Live {
            passes: self,
            grant,
            name: PipelineRef { tenant: at.tenant.clone(), pipeline: at.pipeline.clone() },
            queues,
            is_dirty: tree.contains(&at.dirty()),
            state,
            written,
            refs: read_refs(self.shared.session, self.shared.settings.connections.keys()).await?,
            work: FuturesUnordered::new(),
            pushing: HashSet::new(),
            reporting: HashSet::new(),
        })
    }
}

type Acked = Vec<(SequenceQueue, Vec<EntryId>)>;

impl Live<'_> {
    /// Passes until there is nothing to take in.
    async fn advance(
        &mut self,
        config: &Arc<TenantConfig>,
        mut inputs: Vec<Input>,
        is_first: bool,
    ) -> Result<(), PipelineError> {
        let mut is_due = is_first || self.is_dirty || self.state.record.layout != config.id();
        loop {
            let (mut events, acked) = self.events().await?;
            if events.iter().any(|event| !matches!(event, Input::Outcome(_))) || is_first {
                // Events are put together with the refs that they are about.
                self.refs =
                    read_refs(self.passes.shared.session, self.passes.shared.settings.connections.keys())
                        .await?;
            }
            events.append(&mut inputs);
            if events.is_empty() && acked.is_empty() && !is_due {
                return Ok(());
            }
            is_due = false;
            self.pass(config, events, acked).await?;
        }
    }

    /// What has arrived, in the order of the queues: operators first.
    async fn events(&self) -> Result<(Vec<Input>, Acked), PipelineError> {
        let (mut inputs, mut acked) = (Vec::new(), Acked::new());
        let at = &self.passes.at;
        let asked = self.take::<Management>(&at.management(), &self.queues.management, &mut acked).await?;
        inputs.extend(asked.into_iter().map(Input::Management));
        let triggers = self.take::<Triggers>(&at.triggers(), &self.queues.triggers, &mut acked).await?;
        inputs.extend(triggers.into_iter().flat_map(|Triggers(all)| all).map(Input::Trigger));
        let results = self.take::<Outcome>(&at.results(), &self.queues.results, &mut acked).await?;
        inputs.extend(results.into_iter().map(Input::Outcome));
        Ok((inputs, acked))
    }

    async fn take<T: Payload>(
        &self,
        dir: &Znode<Dir>,
        queue: &SequenceQueue,
        acked: &mut Acked,
    ) -> Result<Vec<T>, PipelineError> {
        let listed: Znode<()> = dir.child("queue", Kind::Persistent);
        if self.queues.cache.children(listed.path()).is_empty() {
            return Ok(Vec::new());
        }
        let found = entries::<T>(queue, EVENTS_MAX).await?;
        if !found.is_empty() {
            acked.push((queue.clone(), found.iter().map(|entry| entry.id.clone()).collect()));
        }
        Ok(found.into_iter().filter_map(|entry| entry.value).collect())
    }

    /// One pass.
    async fn pass(
        &mut self,
        config: &Arc<TenantConfig>,
        inputs: Vec<Input>,
        acked: Acked,
    ) -> Result<(), PipelineError> {
        // Where nothing can end, the time need not be asked for.
        let is_idle = self.state.record.layout == config.id()
            && inputs.iter().all(|input| matches!(input, Input::Reported(_)));
        let ltime = match is_idle {
            true => self.state.record.passes as i64,
            false => logical_time(&self.grant.term().patient()).await?.0,
        };
        let facts = Facts {
            now_ms: now_ms() as i64,
            ltime,
            pipeline: &self.name,
            config,
            refs: &self.refs,
            submit: self.passes.shared.submit,
        };
        let is_reported =
            |input: &Input| if let Input::Reported(id) = input { Some(id.clone()) } else { None };
        let reported: Vec<Id> = inputs.iter().filter_map(is_reported).collect();
        let is_pushed = |input: &Input| {
            if let Input::Pushed { buildset, .. } = input { Some(buildset.clone()) } else { None }
        };
        let pushed: Vec<Id> = inputs.iter().filter_map(is_pushed).collect();
        let (mut state, effects) = step(self.state.clone(), inputs, &facts, &mut submit::draw_id);
        state.record.passes += 1;
        let new = tree::render(&state, &self.passes.at);
        let write = PassWrite {
            at: &self.passes.at,
            old: &self.written,
            new: &new,
            number: state.record.passes,
            effects: &effects,
            acked: &acked,
            is_dirty: self.is_dirty,
        };
        write.commit(self.grant).await?;
        (self.state, self.written, self.is_dirty) = (state, new, false);
        self.reporting.retain(|id| !reported.contains(id));
        self.pushing.retain(|id| !pushed.contains(id));
        for effect in effects {
            if let Effect::Answer { id, error } = effect {
                self.answer(&id, error).await;
            }
        }
        Ok(())
    }

    /// Whoever asked may be gone.
    async fn answer(&self, id: &Id, error: Option<String>) {
        let answer = ManagementAnswer { is_done: true, error };
        match self.grant.term().set(management_result(id).path(), &answer.encode(), None).await {
            Ok(_) | Err(CallError::NoZnode { .. }) => {}
            Err(error) => debug!(%error, "an operator was not answered"),
        }
    }

    /// Begins the pushes and reports that the state asks for.
    fn begin_work(&mut self, config: &TenantConfig) -> Result<(), PipelineError> {
        let passes = self.passes;
        for (id, item) in &self.state.items {
            let buildset = &item.record.buildset;
            if !item.record.is_pushing || self.pushing.contains(buildset) {
                continue;
            }
            let merge =
                merge_push(passes.shared.settings, config, item).ok_or_else(|| PipelineError::Refused {
                    why: format!(
                        "item {id} is being merged, and this scheduler does not know its connection"
                    ),
                    help: "give all schedulers the same [pipelines.connections]".to_owned(),
                })?;
            self.pushing.insert(merge.buildset.clone());
            let work = pushes::push(
                passes.shared.session.clone(),
                passes.shared.caches.clone(),
                self.grant.clone(),
                merge,
            );
            self.work.push(work.boxed_local());
        }
        for (id, report) in &self.state.reports {
            if self.reporting.insert(id.clone()) {
                let work = passes.shared.reporter.clone().report(id.clone(), report.clone());
                self.work.push(async { Ok(work.await) }.boxed_local());
            }
        }
        Ok(())
    }
}

fn merge_push(settings: &Settings, config: &TenantConfig, item: &crate::core::Item) -> Option<MergePush> {
    let Subject::Change { change, patchset } = &item.record.subject else { return None };
    let MergeStep::Done { commit, parent, .. } = &item.buildset.record.merge else { return None };
    let (connection_name, _) = config.source(&change.project)?;
    Some(MergePush {
        buildset: item.record.buildset.clone(),
        connection_name: connection_name.to_owned(),
        connection: settings.connections.get(connection_name)?.clone(),
        change: change.clone(),
        patchset: patchset.clone(),
        parent: parent.clone(),
        commit: commit.clone(),
    })
}
