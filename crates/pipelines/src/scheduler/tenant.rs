//! The trigger events of a tenant: brings its layout up to date, and hands each event to the pipelines that it concerns.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::select_all;
use menagerie_kernel::recipes::grant::Grant;
use menagerie_kernel::recipes::sequence_queue::{LIMIT, SequenceQueue};
use menagerie_kernel::recipes::tree_cache::TreeCache;
use menagerie_kernel::whole;
use menagerie_znodes::pipelines::{
    Event, EventKind, Events, PipelineZnodes, Trigger, Triggers, branches, tenant_triggers,
};
use menagerie_znodes::{Name, Payload as _};
use tokio::time::timeout;
use tracing::warn;

use super::commit::{BATCH, acknowledge, entries, those_that_fit};
use super::layouts::{Configs, Layouts, read_refs};
use crate::PipelineError;
use crate::config;
use crate::core::knowledge::branch_of;
use crate::core::{Refs, TenantConfig};

/// Longest wait for a layout that was just committed to be read.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two attempts to read configuration that could not be read.
const AGAIN: Duration = Duration::from_secs(5);

/// Handles the trigger events of a tenant until it fails or is stopped.
pub async fn run(layouts: &Layouts<'_>, grant: &Grant, configs: &Configs) -> Result<(), PipelineError> {
    let queue = SequenceQueue::new(layouts.session, tenant_triggers(layouts.name), LIMIT);
    let caches: Vec<TreeCache> =
        layouts.hosts.keys().map(|name| TreeCache::start(layouts.session, &branches(name))).collect();
    let mut looks: Vec<_> = caches.iter().map(TreeCache::subscribe).collect();
    let mut is_stale = renew(layouts, configs).await;
    loop {
        let looked = select_all(looks.iter_mut().map(|look| look.changed().boxed_local()));
        tokio::select! {
            arrived = queue.arrival(None) => arrived?,
            // A repository that could not be read may have come back, or was never looked at before.
            _ = looked, if is_stale && !caches.is_empty() => {
                is_stale = renew(layouts, configs).await;
                continue;
            }
            () = tokio::time::sleep(AGAIN), if is_stale => {
                is_stale = renew(layouts, configs).await;
                continue;
            }
        }
        let pipelines =
            configs.borrow().get(layouts.name).map_or(1, |config| config.layout().pipelines().count());
        let batch = those_that_fit(entries::<Events>(&queue, BATCH).await?, pipelines);
        let events = || batch.iter().filter_map(|entry| entry.value.as_ref()).flat_map(|Events(all)| all);
        let moves_branch =
            |event: &Event| event.kind == EventKind::RefUpdated && branch_of(&event.reference).is_some();
        if is_stale || events().any(moves_branch) {
            is_stale = renew(layouts, configs).await;
        }
        let config = configs.borrow().get(layouts.name).cloned();
        let Some(config) = config else {
            // Events wait until there is a layout.
            tokio::time::sleep(AGAIN).await;
            is_stale = renew(layouts, configs).await;
            continue;
        };
        let refs = read_refs(layouts.session, layouts.hosts.keys()).await?;
        let mut transaction = grant.transaction();
        for pipeline in config.layout().pipelines() {
            let Ok(name) = Name::new(&pipeline.name) else { continue };
            let at = PipelineZnodes { tenant: layouts.name.clone(), pipeline: name };
            let concerned = |event: &Event| trigger(&config, &refs, &at, pipeline, event);
            let found = Triggers(events().filter_map(concerned).collect());
            if !found.0.is_empty() {
                let triggers = SequenceQueue::new(layouts.session, at.triggers(), LIMIT);
                transaction = triggers.put_with(transaction, &found.encode()).await?;
            }
        }
        let acked: Vec<_> = batch.into_iter().map(|entry| entry.id).collect();
        for id in &acked {
            transaction = queue.ack_with(transaction, id);
        }
        acknowledge(&queue, transaction, &acked).await?;
    }
}

/// Brings the layout up to date; whether that could not be done, and is to be tried again.
async fn renew(layouts: &Layouts<'_>, configs: &Configs) -> bool {
    let (id, is_whole) = match layouts.renew().await {
        Ok(renewed) => renewed,
        Err(error) => {
            warn!(tenant = %layouts.name, error = %whole(&error), "the configuration cannot be read; trying again");
            return true;
        }
    };
    let mut seen = configs.subscribe();
    let is_it = |known: &Arc<TenantConfig>| known.id() == id;
    let read = seen.wait_for(|configs| configs.get(layouts.name).is_some_and(is_it));
    timeout(PATIENCE, read).await.is_err() || !is_whole
}

/// What a pipeline is told of an event, if anything.
fn trigger(
    config: &TenantConfig,
    refs: &Refs,
    at: &PipelineZnodes,
    pipeline: &config::Pipeline,
    event: &Event,
) -> Option<Trigger> {
    let votes = event.change.as_ref().and_then(|change| refs.change(&event.connection, change));
    let facts = config::Event {
        kind: event.kind,
        branch: event
            .change
            .as_ref()
            .map(|change| change.target.as_str())
            .or_else(|| branch_of(&event.reference)),
        reference: &event.reference,
        is_delete: event.newrev.is_zero(),
        votes_added: &event.votes,
        votes: votes.map_or(&[], |record| &record.votes),
        comment: event.comment.as_deref(),
        by: &event.by,
    };
    let is_in = match &event.change {
        Some(_) => config.layout().takes_changes(&event.project, &pipeline.name),
        None => config.layout().is_in_pipeline(&event.project, &pipeline.name),
    };
    let is_own = event.pipeline.as_deref() == Some(format!("{}/{}", at.tenant, at.pipeline).as_str());
    let enqueues = is_in && !is_own && pipeline.is_triggered_by(&event.connection, &facts);
    // Whatever has become of a change concerns the pipelines that test it: a vote may be withdrawn.
    let concerns = match event.kind {
        EventKind::PatchsetCreated | EventKind::ChangeAbandoned => is_in,
        EventKind::CommentAdded => is_in && !is_own && !event.votes.is_empty(),
        EventKind::ChangeMerged | EventKind::RefUpdated => false,
    };
    (enqueues || concerns).then(|| Trigger { event: event.clone(), enqueues })
}
