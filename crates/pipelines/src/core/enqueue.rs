//! Changes come into a pipeline, with what they depend on; and leave it on request.

use std::collections::BTreeSet;

use menagerie_znodes::pipelines::{
    Action, Change, ChangeRecord, Event, EventKind, Id, ItemRecord, Management, QueueRecord, Sha, Subject,
    Trigger,
};

use super::{Buildset, Effect, Item, Pass};
use crate::config::Manager;

/// Longer chains of dependencies are refused: each of them is a step of recursion.
const DEPTH_MAX: usize = 50;

/// Why a change is enqueued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Because {
    /// Of an event: the requirements of the pipeline apply, and what cannot be merged yet is passed over.
    Triggered,
    /// An operator says so.
    Asked,
    /// Another change depends on it, or it on another one.
    Related,
}

/// Why a change is not enqueued.
enum Refusal {
    /// It is not meant for this pipeline, or not yet.
    Ignored(String),
    /// It is, and cannot be.
    Refused(String),
}

impl Pass<'_, '_> {
    pub(super) fn on_trigger(&mut self, trigger: &Trigger) {
        let event = &trigger.event;
        match (event.kind, &event.change) {
            (EventKind::PatchsetCreated, Some(change)) => {
                let is_old = |subject: &Subject| matches!(subject, Subject::Change { change: ours, patchset } if ours == change && *patchset != event.newrev);
                self.remove_all(is_old, "a new patchset was proposed");
            }
            (EventKind::ChangeAbandoned, Some(change)) => {
                self.remove_all(|subject| subject.change() == Some(change), "it was abandoned");
            }
            _ => {}
        }
        let Some(subject) = trigger.enqueues.then(|| self.subject_of(event)).flatten() else { return };
        if let Err(Refusal::Refused(why)) = self.enqueue(&subject, Because::Triggered, 0) {
            self.report_refusal(&subject, why);
        }
    }

    /// What an event asks to test; nothing if it is out of date.
    fn subject_of(&self, event: &Event) -> Option<Subject> {
        match (event.kind, &event.change) {
            (EventKind::PatchsetCreated | EventKind::CommentAdded, Some(change)) => {
                let patchset = self.facts.refs.change(&event.connection, change)?.patchset.clone();
                (patchset == event.newrev).then(|| Subject::Change { change: change.clone(), patchset })
            }
            (EventKind::ChangeMerged, Some(change)) => Some(Subject::Ref {
                project: event.project.clone(),
                reference: change.target_ref(),
                oldrev: event.oldrev.clone(),
                newrev: event.newrev.clone(),
            }),
            (EventKind::RefUpdated, _) if !event.newrev.is_zero() => Some(Subject::Ref {
                project: event.project.clone(),
                reference: event.reference.clone(),
                oldrev: event.oldrev.clone(),
                newrev: event.newrev.clone(),
            }),
            _ => None,
        }
    }

    pub(super) fn on_management(&mut self, request: Management) {
        let done = match request.action {
            Action::Enqueue => self.enqueue_on_request(&request.change),
            Action::Dequeue => {
                let is_it = |subject: &Subject| subject.change() == Some(&request.change);
                let is_pushing = |item: &Item| item.record.is_pushing && is_it(&item.record.subject);
                match self.remove_all(is_it, "an operator dequeued it") {
                    0 if self.state.items.values().any(is_pushing) => {
                        Err(format!("{} is being merged", request.change))
                    }
                    0 => Err(format!("{} is not in this pipeline", request.change)),
                    _ => Ok(()),
                }
            }
        };
        self.effects.push(Effect::Answer { id: request.answer, error: done.err() });
    }

    fn enqueue_on_request(&mut self, change: &Change) -> Result<(), String> {
        let record = self.open(change).ok_or_else(|| format!("there is no open change {change}"))?;
        let subject = Subject::Change { change: change.clone(), patchset: record.patchset.clone() };
        self.enqueue(&subject, Because::Asked, 0).map_err(|refusal| match refusal {
            Refusal::Ignored(why) | Refusal::Refused(why) => why,
        })
    }

    /// Takes out all live items about such subjects; returns how many there were.
    fn remove_all(&mut self, is_meant: impl Fn(&Subject) -> bool, why: &str) -> usize {
        let is_meant = |(id, item): (&Id, &Item)| {
            (item.record.is_live && !item.record.is_pushing && is_meant(&item.record.subject))
                .then(|| id.clone())
        };
        let ids: Vec<Id> = self.state.items.iter().filter_map(is_meant).collect();
        for id in &ids {
            self.end(id, "DEQUEUED", Some(why.to_owned()));
            self.dequeue(id, false);
        }
        ids.len()
    }

    fn connection(&self, project: &str) -> Option<&str> {
        self.facts.config.source(project).map(|(connection, _)| connection)
    }

    fn open(&self, change: &Change) -> Option<&ChangeRecord> {
        self.facts.refs.change(self.connection(&change.project)?, change)
    }

    /// Whether the change is merged; the refs that were seen last may be older than our own merges.
    pub(super) fn is_merged(&self, change: &Change) -> bool {
        let by_us = self.state.record.merged.iter().rev().find(|merged| merged.change == *change);
        let proposed_anew = |merged: &Change, patchset: &Sha| {
            self.open(merged).is_some_and(|record| record.patchset != *patchset)
        };
        if let Some(merged) = by_us {
            return !proposed_anew(&merged.change, &merged.patchset);
        }
        self.connection(&change.project)
            .is_some_and(|connection| self.facts.refs.is_merged(connection, change))
    }

    /// Whether the change has the votes that a merge takes.
    pub(super) fn can_merge(&self, change: &Change) -> Result<(), String> {
        let record = self.open(change).ok_or_else(|| format!("{change} is not open"))?;
        let submit =
            self.connection(&change.project).and_then(|connection| self.facts.submit.get(connection));
        let submit = submit.ok_or_else(|| format!("nobody says which votes a merge of {change} takes"))?;
        for (label, least) in submit {
            if !record.votes.iter().any(|vote| vote.label == *label && vote.value >= *least) {
                return Err(format!("{change} lacks the vote {label}={least}"));
            }
        }
        Ok(())
    }

    /// The changes that one depends on and that are not merged; or why that cannot be told.
    pub(super) fn needed(&self, change: &Change) -> Result<Vec<Change>, String> {
        self.dependencies(change).collect()
    }

    /// The changes that one depends on and that are not merged; for each footer that names none, why not.
    fn dependencies(&self, change: &Change) -> impl Iterator<Item = Result<Change, String>> {
        let is_branch = |project: &str, branch: &str| {
            self.connection(project)
                .is_some_and(|connection| self.facts.refs.has_branch(connection, project, branch))
        };
        let texts = self.open(change).map_or(&[][..], |record| &record.depends_on);
        let parsed = texts.iter().map(move |text| {
            Change::parse(text, is_branch).map_err(|error| format!("its dependency {error}"))
        });
        let is_needed = move |dependency: &Change| dependency != change && !self.is_merged(dependency);
        parsed.filter(move |parsed| parsed.as_ref().map_or(true, is_needed))
    }

    /// Enqueues a change or a ref, after what it depends on, and before what depends on it.
    fn enqueue(&mut self, subject: &Subject, because: Because, depth: usize) -> Result<(), Refusal> {
        if self.find_live(subject).is_some() {
            return Ok(());
        }
        let (project, name) = (subject.project().to_owned(), self.pipeline.name.clone());
        let Some(connection) = self.connection(&project).map(str::to_owned) else {
            return Err(Refusal::Refused(format!("the tenant has no project {project}")));
        };
        let layout = self.facts.config.layout();
        let is_taken = match subject.change() {
            Some(_) => layout.takes_changes(&project, &name),
            None => layout.is_in_pipeline(&project, &name),
        };
        if !is_taken {
            return Err(Refusal::Ignored(format!("project {project} has no jobs in pipeline {name}")));
        }
        // Watchers may not have seen that we have merged it.
        if let Some(change) = subject.change().filter(|change| self.is_merged(change)) {
            return Err(Refusal::Ignored(format!("{change} is merged")));
        }
        if depth > DEPTH_MAX {
            return Err(Refusal::Refused(format!("more than {DEPTH_MAX} changes depend on each other")));
        }
        if let (Some(change), true) = (subject.change(), because != Because::Asked) {
            let votes = self.open(change).map_or(&[][..], |record| &record.votes);
            self.pipeline.meets_requirements(&connection, votes).map_err(Refusal::Ignored)?;
        }
        match (self.pipeline.manager, subject.change()) {
            (Manager::Dependent, Some(change)) => self.enqueue_dependent(subject, change, depth),
            (Manager::Dependent, None) => {
                Err(Refusal::Ignored("a dependent pipeline merges changes, and this is none".to_owned()))
            }
            (Manager::Independent, change) => {
                self.enqueue_independent(subject, change);
                Ok(())
            }
        }
    }

    fn enqueue_dependent(&mut self, subject: &Subject, change: &Change, depth: usize) -> Result<(), Refusal> {
        self.can_merge(change).map_err(Refusal::Ignored)?;
        let place = self.queue_name(subject);
        for dependency in self.needed(change).map_err(Refusal::Refused)? {
            let Some(patchset) = self.open(&dependency).map(|record| record.patchset.clone()) else {
                return Err(Refusal::Refused(format!(
                    "it depends on {dependency}, which is neither open nor merged"
                )));
            };
            let needs = Subject::Change { change: dependency.clone(), patchset };
            if self.queue_name(&needs) != place {
                let why = format!(
                    "it depends on {dependency}, whose project does not share its queue; merge that one first"
                );
                return Err(Refusal::Refused(why));
            }
            let because = |why: String| {
                Refusal::Refused(format!("it depends on {dependency}, which cannot be merged: {why}"))
            };
            if self.reaches(&dependency, change) {
                return Err(because("the two depend on each other".to_owned()));
            }
            self.enqueue(&needs, Because::Related, depth + 1).map_err(|refusal| match refusal {
                Refusal::Ignored(why) | Refusal::Refused(why) => because(why),
            })?;
        }
        // A dependency that came in has brought it in, as it depends on that.
        if self.find_live(subject).is_none() {
            let queue = self.find_or_make_queue(place);
            self.append(subject, queue, true);
            self.enqueue_dependents(change, depth);
        }
        Ok(())
    }

    /// Whether one change depends on another, directly or not.
    fn reaches(&self, from: &Change, to: &Change) -> bool {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(change) = next.pop() {
            if change == *to {
                return true;
            }
            if seen.insert(change.clone()) {
                next.extend(self.dependencies(&change).flatten());
            }
        }
        false
    }

    /// Pulls in the approved changes that depend on this one.
    fn enqueue_dependents(&mut self, change: &Change, depth: usize) {
        let tenant = self.facts.config.tenant();
        let connections: BTreeSet<&str> =
            tenant.projects.iter().map(|project| project.connection.as_str()).collect();
        let text = change.to_string();
        let behind: Vec<Subject> = connections
            .into_iter()
            .flat_map(|connection| self.facts.refs.open(connection))
            .filter(|record| record.depends_on.contains(&text))
            .map(|record| Subject::Change {
                change: record.change.clone(),
                patchset: record.patchset.clone(),
            })
            .collect();
        for subject in behind {
            // It was not asked for: whoever approves it later learns why it cannot be merged.
            let _ = self.enqueue(&subject, Because::Related, depth + 1);
        }
    }

    /// A queue of its own, with what it depends on ahead of it; that is neither tested nor reported.
    fn enqueue_independent(&mut self, subject: &Subject, change: Option<&Change>) {
        let mut ahead = Vec::new();
        if let Some(change) = change {
            self.collect_needed(change, &mut BTreeSet::from([change.clone()]), &mut ahead, 0);
        }
        let name = subject.project().to_owned();
        let queue = self.make_queue(name, subject.branch().map(str::to_owned), 0);
        for dependency in ahead {
            self.append(&dependency, queue.clone(), false);
        }
        self.append(subject, queue, true);
    }

    /// What a change depends on, the deepest first. What is not open is left out: jobs will show whether that matters.
    /// `seen` ends circles, and keeps shared dependencies from being followed once for each path to them.
    fn collect_needed(
        &self,
        change: &Change,
        seen: &mut BTreeSet<Change>,
        ahead: &mut Vec<Subject>,
        depth: usize,
    ) {
        for dependency in self.dependencies(change).flatten().filter(|_| depth < DEPTH_MAX) {
            let Some(patchset) = self.open(&dependency).map(|record| record.patchset.clone()) else {
                continue;
            };
            if seen.insert(dependency.clone()) {
                self.collect_needed(&dependency, seen, ahead, depth + 1);
                ahead.push(Subject::Change { change: dependency, patchset });
            }
        }
    }

    fn find_live(&self, subject: &Subject) -> Option<&Id> {
        let is_it = |item: &Item| item.record.is_live && item.record.subject == *subject;
        self.state.items.iter().find(|(_, item)| is_it(item)).map(|(id, _)| id)
    }

    /// Name and branch of the queue of a dependent pipeline that a subject belongs into.
    fn queue_name(&self, subject: &Subject) -> (String, Option<String>) {
        let (project, branch) = (subject.project(), subject.branch().unwrap_or_default());
        match self.facts.config.layout().shared_queue(project, branch) {
            Some(shared) => (shared.name.clone(), shared.is_per_branch.then(|| branch.to_owned())),
            None => (project.to_owned(), None),
        }
    }

    fn find_or_make_queue(&mut self, (name, branch): (String, Option<String>)) -> Id {
        let is_it = |queue: &QueueRecord| queue.name == name && queue.branch == branch;
        let found = self.state.queues.iter().find(|(_, queue)| is_it(queue)).map(|(id, _)| id.clone());
        found.unwrap_or_else(|| self.make_queue(name, branch, self.pipeline.window.start))
    }

    fn make_queue(&mut self, name: String, branch: Option<String>, window: u32) -> Id {
        let id = (self.draw)();
        self.state.queues.insert(id.clone(), QueueRecord { name, branch, items: Vec::new(), window });
        self.state.record.queues.push(id.clone());
        id
    }

    fn append(&mut self, subject: &Subject, queue: Id, is_live: bool) {
        let (id, buildset) = ((self.draw)(), (self.draw)());
        let items = &mut self.state.queues.get_mut(&queue).expect("the queue was just found or made").items;
        let record = ItemRecord {
            subject: subject.clone(),
            item_ahead: items.last().cloned(),
            is_live,
            is_active: false,
            enqueued_ms: self.facts.now_ms,
            buildset,
            is_start_reported: false,
            failing: Vec::new(),
            is_pushing: false,
            push_failure: None,
        };
        items.push(id.clone());
        self.state.items.insert(id, Item { record, buildset: Buildset::new() });
    }
}
