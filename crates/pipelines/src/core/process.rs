//! Goes through the queues until nothing changes.
//!
//! Each item is tested on top of the *nearest non-failing item* ahead of it. When an item fails, those behind it are linked to
//! the one before it, and begin anew; so by the time it is reported, nobody counts on it any more. Results are reported at
//! the head only, so they are in order.

use menagerie_znodes::pipelines::{
    BranchState, Change, Id, JobsStep, Link, MergeStep, MergedChange, RepoState, Subject,
};

use super::{Buildset, Pass, State};
use crate::config::{Manager, Step};

/// What was merged lately is remembered for as many merges: until watchers have seen it, others must not take it for open.
const MERGED_MAX: usize = 200;

/// A pass that still changes something after so many rounds would never end.
const ROUNDS_MAX: usize = 10_000;

impl Pass<'_, '_> {
    pub(super) fn process(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let queues = self.state.record.queues.clone();
            let has_changed = queues.iter().fold(false, |changed, queue| self.process_queue(queue) | changed);
            if !has_changed {
                break;
            }
        }
        self.drop_empty_queues();
    }

    /// A queue of an independent pipeline is there for one change; one of a dependent pipeline keeps its window.
    fn drop_empty_queues(&mut self) {
        if self.pipeline.manager == Manager::Independent {
            self.state.queues.retain(|_, queue| !queue.items.is_empty());
            let queues = &self.state.queues;
            self.state.record.queues.retain(|id| queues.contains_key(id));
        }
    }

    fn process_queue(&mut self, queue: &Id) -> bool {
        let items = self.state.queues[queue].items.clone();
        let (mut nearest, mut has_changed) = (None, false);
        for id in &items {
            if self.state.items.contains_key(id) {
                has_changed |= self.process_item(queue, id, &mut nearest);
            }
        }
        has_changed
    }

    /// `nearest` is the nearest item ahead that is not failing; it becomes this one if this one is not.
    fn process_item(&mut self, queue: &Id, id: &Id, nearest: &mut Option<Id>) -> bool {
        let items = &self.state.queues[queue].items;
        let position = items.iter().position(|item| item == id).expect("the item is in its queue");
        if let Some(why) = self.reason_to_leave(queue, id) {
            self.end(id, "DEQUEUED", Some(why));
            self.dequeue(id, false);
            return true;
        }
        let window = self.state.queues[queue].window;
        let is_active = window == 0 || position < window as usize;
        let mut has_changed = self.item(id).record.is_active != is_active;
        self.item_mut(id).record.is_active = is_active;
        let is_blocked = self.needs_failing_item(queue, id);
        if is_blocked {
            has_changed |= self.cancel_builds(id);
        } else if self.live_ahead(id) != *nearest {
            self.item_mut(id).record.item_ahead.clone_from(nearest);
            self.reset_chain(id);
            has_changed = true;
        }
        if is_active && !is_blocked {
            has_changed |= self.prepare(id);
        }
        let failing = self.failing_reasons(id, is_blocked);
        has_changed |= self.item(id).record.failing != failing;
        self.item_mut(id).record.failing = failing;
        let record = &self.item(id).record;
        if !record.is_live {
            let has_behind = self.state.queues[queue].items.len() > position + 1;
            if !has_behind {
                self.dequeue(id, false);
            }
            return has_changed | !has_behind;
        }
        let is_first =
            !self.state.queues[queue].items[..position].iter().any(|other| self.item(other).record.is_live);
        if is_first && self.is_decided(id) {
            has_changed |= self.conclude(queue, id);
        }
        // Those behind count on it while it is pushed, too.
        if self.state.items.get(id).is_some_and(|item| item.record.failing.is_empty()) {
            *nearest = Some(id.clone());
        }
        has_changed
    }

    /// The live item that this one is tested on top of.
    fn live_ahead(&self, id: &Id) -> Option<Id> {
        let ahead = self.item(id).record.item_ahead.as_ref()?;
        self.state.items.get(ahead).filter(|item| item.record.is_live).map(|_| ahead.clone())
    }

    /// Why an item cannot stay, if it cannot. One that is pushed stays until git has decided.
    fn reason_to_leave(&self, queue: &Id, id: &Id) -> Option<String> {
        let record = &self.item(id).record;
        if record.is_pushing {
            return None;
        }
        let project = record.subject.project();
        if self.facts.config.source(project).is_none() {
            return Some(format!("the tenant has no project {project}"));
        }
        match (self.pipeline.manager, record.subject.change()) {
            (Manager::Dependent, Some(change)) if self.is_merged(change) => {
                Some("somebody else has merged it".to_owned())
            }
            (Manager::Dependent, Some(change)) => self.missing_dependency(queue, id, change),
            (Manager::Dependent, None) | (Manager::Independent, _) => None,
        }
    }

    /// In a dependent pipeline whatever a change needs is merged or ahead of it; why not, if not.
    fn missing_dependency(&self, queue: &Id, id: &Id, change: &Change) -> Option<String> {
        let needed = match self.needed(change) {
            Ok(needed) => needed,
            Err(why) => return Some(why),
        };
        let ahead = self.state.queues[queue].items.iter().take_while(|other| *other != id);
        let ahead: Vec<&Subject> = ahead.map(|other| &self.item(other).record.subject).collect();
        let missing =
            needed.iter().find(|needed| !ahead.iter().any(|subject| subject.change() == Some(needed)))?;
        Some(format!("it depends on {missing}, which left the queue without being merged"))
    }

    fn needs_failing_item(&self, queue: &Id, id: &Id) -> bool {
        let Some(change) = self.item(id).record.subject.change() else { return false };
        if self.pipeline.manager != Manager::Dependent {
            return false;
        }
        let needed = self.needed(change).unwrap_or_default();
        let ahead = self.state.queues[queue].items.iter().take_while(|other| *other != id);
        ahead.into_iter().any(|other| {
            let record = &self.item(other).record;
            !record.failing.is_empty()
                && record.subject.change().is_some_and(|change| needed.contains(change))
        })
    }

    fn failing_reasons(&self, id: &Id, is_blocked: bool) -> Vec<String> {
        let item = self.item(id);
        let mut reasons = Vec::new();
        if is_blocked {
            reasons.push("a needed change is failing".to_owned());
        }
        if let MergeStep::Failed { message } = &item.buildset.record.merge {
            reasons.push(format!("it cannot be merged: {message}"));
        }
        if let JobsStep::Failed { message } = &item.buildset.record.jobs {
            reasons.push(format!("its configuration is wrong: {message}"));
        }
        if item.buildset.jobs.iter().any(|job| job.record.job.is_voting && job.has_failed()) {
            reasons.push("at least one job failed".to_owned());
        }
        reasons.extend(item.record.push_failure.clone());
        reasons
    }

    /// Whether it is known how the item ends.
    fn is_decided(&self, id: &Id) -> bool {
        let item = self.item(id);
        matches!(item.buildset.record.merge, MergeStep::Failed { .. })
            || matches!(item.buildset.record.jobs, JobsStep::Failed { .. })
            || item.buildset.is_complete()
    }

    /// Ends an item at the head, or begins its merge.
    fn conclude(&mut self, queue: &Id, id: &Id) -> bool {
        if self.item(id).record.is_pushing {
            return false;
        }
        let (mut result, mut message) = self.result(id);
        let is_merging = self.pipeline.manager == Manager::Dependent && self.submits(id);
        if result == "SUCCESS" && is_merging {
            let change = self.item(id).record.subject.change();
            match change.map_or(Ok(()), |change| self.can_merge(change)) {
                // Written down before it is done.
                Ok(()) => {
                    self.item_mut(id).record.is_pushing = true;
                    return true;
                }
                Err(why) => (result, message) = ("FAILURE", Some(why)),
            }
        }
        if self.pipeline.manager == Manager::Dependent && result != "SUCCESS" {
            // A clash says nothing about how well changes are tested before.
            self.resize(queue, result == "MERGE_CONFLICT");
        }
        self.end(id, result, message);
        self.dequeue(id, false);
        true
    }

    /// Shrinks the window after a failure.
    fn resize(&mut self, queue: &Id, is_spared: bool) {
        let window = self.pipeline.window;
        let record = self.state.queues.get_mut(queue).expect("the queue of an item exists");
        if is_spared || record.window == 0 {
            return;
        }
        let less = match window.decrease {
            Step::Linear(by) => record.window.saturating_sub(by),
            Step::Exponential(by) => record.window / by.max(1),
        };
        record.window = less.max(window.floor).max(1);
    }

    fn enlarge(&mut self, queue: &Id) {
        let window = self.pipeline.window;
        let record = self.state.queues.get_mut(queue).expect("the queue of an item exists");
        if record.window == 0 {
            return;
        }
        let more = match window.increase {
            Step::Linear(by) => record.window.saturating_add(by),
            Step::Exponential(by) => record.window.saturating_mul(by.max(1)),
        };
        record.window = window.ceiling.map_or(more, |ceiling| more.min(ceiling));
    }

    /// The item's commit is on its branch.
    pub(super) fn merged(&mut self, id: &Id) {
        self.state.remember_merge(id);
        if let Some(queue) = self.queue_of(id).cloned() {
            self.enlarge(&queue);
        }
        self.end(id, "SUCCESS", None);
        self.dequeue(id, true);
    }

    /// Removes an item. Unless it was merged, those that were tested on top of it begin anew.
    pub(super) fn dequeue(&mut self, id: &Id, is_merged: bool) {
        let Some(removed) = self.state.items.remove(id) else { return };
        for queue in self.state.queues.values_mut() {
            queue.items.retain(|item| item != id);
        }
        let behind: Vec<Id> = self.directly_behind(id);
        for other in behind {
            self.item_mut(&other).record.item_ahead.clone_from(&removed.record.item_ahead);
            if !is_merged {
                self.reset_chain(&other);
            }
        }
    }

    fn directly_behind(&self, id: &Id) -> Vec<Id> {
        let is_behind =
            |record: &menagerie_znodes::pipelines::ItemRecord| record.item_ahead.as_ref() == Some(id);
        self.state
            .items
            .iter()
            .filter(|(_, item)| is_behind(&item.record))
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// A new buildset for an item, and for all that are tested on top of it.
    pub(super) fn reset_chain(&mut self, id: &Id) {
        self.reset(id);
        for other in self.directly_behind(id) {
            self.reset_chain(&other);
        }
    }

    /// A new buildset. What the old one has begun is recorded as canceled; its requests follow the state.
    fn reset(&mut self, id: &Id) {
        let buildset = &self.item(id).buildset;
        if buildset.record.merge == MergeStep::New {
            return;
        }
        if self.item(id).record.is_live && matches!(buildset.record.merge, MergeStep::Done { .. }) {
            self.cancel_builds(id);
            let why = "what it was tested on top of has changed";
            self.record_history(id, "CANCELED", Some(why.to_owned()));
        }
        let fresh = (self.draw)();
        let item = self.item_mut(id);
        item.record.buildset = fresh;
        item.record.failing = Vec::new();
        item.record.push_failure = None;
        item.buildset = Buildset::new();
    }

    /// Gives up all builds that run.
    pub(super) fn cancel_builds(&mut self, id: &Id) -> bool {
        let now_ms = self.facts.now_ms;
        self.item_mut(id).buildset.cancel_builds(now_ms)
    }

    /// The repositories as the item ahead leaves them; `None` while that is not known.
    pub(super) fn state_ahead(&self, id: &Id) -> Option<RepoState> {
        match &self.item(id).record.item_ahead {
            None => Some(RepoState::default()),
            Some(ahead) => match self.state.items.get(ahead) {
                None => Some(RepoState::default()),
                Some(ahead) => {
                    let done = matches!(ahead.buildset.record.merge, MergeStep::Done { .. });
                    let merged = &self.state.record.merged;
                    ahead.buildset.state.as_ref().filter(|_| done).map(|state| speculative(state, merged))
                }
            },
        }
    }
}

impl State {
    /// Refs that are seen may be older than a merge of ours.
    pub(super) fn remember_merge(&mut self, id: &Id) {
        let Subject::Change { change, patchset } = &self.items[id].record.subject else { return };
        let merged = &mut self.record.merged;
        merged.push(MergedChange { change: change.clone(), patchset: patchset.clone() });
        let old = merged.len().saturating_sub(MERGED_MAX);
        merged.drain(..old);
    }
}

/// Only branches onto which something was merged that is not pushed yet: where others are is looked at anew. What is pushed
/// is the base; otherwise chains would grow as long as a queue is never empty.
fn speculative(state: &RepoState, merged: &[MergedChange]) -> RepoState {
    let is_pushed =
        |link: &Link| merged.iter().any(|one| one.change == link.change && one.patchset == link.patchset);
    let mut shorter = RepoState::default();
    for (project, branches) in &state.0 {
        for (name, branch) in branches {
            let pushed_count = branch.links.iter().rposition(is_pushed).map_or(0, |at| at + 1);
            let (pushed, links) = branch.links.split_at(pushed_count);
            if !links.is_empty() {
                let base = pushed.last().map_or(&branch.base, |link| &link.commit).clone();
                let branch = BranchState { base, links: links.to_vec() };
                shorter.0.entry(project.clone()).or_default().insert(name.clone(), branch);
            }
        }
    }
    shorter
}
