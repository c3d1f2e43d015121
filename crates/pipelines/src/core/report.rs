//! What is told when an item starts and when it ends: notes on its patchset, and an entry of the history.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use menagerie_znodes::pipelines::{
    HistoryBuild, HistoryRecord, HistoryRef, Id, JobsStep, MergeStep, Note, NoteLine, ReportRecord, Sha,
    Source, Subject,
};

use super::{Facts, Item, Pass, State};
use crate::config::Reporter;

/// Buildsets that may end in one step, in the order of `ltime`.
const ENDS_PER_STEP: i64 = 1_000;

impl Pass<'_, '_> {
    /// How an item whose jobs are done ends, and why.
    pub(super) fn result(&self, id: &Id) -> (&'static str, Option<String>) {
        let item = self.item(id);
        if let MergeStep::Failed { message } = &item.buildset.record.merge {
            return ("MERGE_CONFLICT", Some(message.clone()));
        }
        if let JobsStep::Failed { message } = &item.buildset.record.jobs {
            return ("CONFIG_ERROR", Some(message.clone()));
        }
        if let Some(why) = &item.record.push_failure {
            return ("FAILURE", Some(why.clone()));
        }
        let jobs = &item.buildset.jobs;
        if jobs.is_empty() {
            return ("NO_JOBS", None);
        }
        let has_failed = jobs.iter().any(|job| job.record.job.is_voting && job.has_failed());
        let is_idle = jobs.iter().all(|job| job.record.is_skipped);
        if has_failed || is_idle || !item.record.failing.is_empty() {
            return ("FAILURE", item.record.failing.first().cloned());
        }
        ("SUCCESS", None)
    }

    fn reporter<'r>(&self, id: &Id, reporters: &'r BTreeMap<String, Reporter>) -> Option<&'r Reporter> {
        let (connection, _) = self.facts.config.source(self.item(id).record.subject.project())?;
        reporters.get(connection)
    }

    /// Whether success means to merge it.
    pub(super) fn submits(&self, id: &Id) -> bool {
        self.reporter(id, &self.pipeline.success).is_some_and(|reporter| reporter.submit)
    }

    /// Tells once that an item has started.
    pub(super) fn report_start(&mut self, id: &Id) -> bool {
        let record = &self.item(id).record;
        if record.is_start_reported || !record.is_live {
            return false;
        }
        self.item_mut(id).record.is_start_reported = true;
        let text = self.pipeline.start_message.clone().unwrap_or_else(|| "Starting jobs.".to_owned());
        let buildset = self.item(id).record.buildset.clone();
        let note = self.reporter(id, &self.pipeline.start).and_then(|reporter| {
            self.note(&self.item(id).record.subject, &format!("{buildset}-start"), reporter, None, text)
        });
        if let Some(note) = note {
            self.keep(ReportRecord { history: None, notes: vec![note] });
        }
        true
    }

    /// Writes down what is to be told about the end of an item.
    pub(super) fn end(&mut self, id: &Id, result: &'static str, message: Option<String>) {
        if !self.item(id).record.is_live {
            return;
        }
        self.cancel_builds(id);
        let reporters = match result {
            "SUCCESS" => &self.pipeline.success,
            "MERGE_CONFLICT" => &self.pipeline.merge_conflict,
            "CONFIG_ERROR" => &self.pipeline.config_error,
            "NO_JOBS" => &self.pipeline.no_jobs,
            "DEQUEUED" => &self.pipeline.dequeue,
            _ => &self.pipeline.failure,
        };
        let text = self.text(id, result, message.as_deref());
        let buildset = self.item(id).record.buildset.clone();
        let note = self.reporter(id, reporters).and_then(|reporter| {
            self.note(&self.item(id).record.subject, &buildset.to_string(), reporter, Some(result), text)
        });
        let history = self.next_history(id, result, message);
        self.keep(ReportRecord { history, notes: note.into_iter().collect() });
    }

    /// Only an entry of the history.
    pub(super) fn record_history(&mut self, id: &Id, result: &'static str, message: Option<String>) {
        let history = self.next_history(id, result, message);
        self.keep(ReportRecord { history, notes: Vec::new() });
    }

    fn next_history(&mut self, id: &Id, result: &str, message: Option<String>) -> Option<HistoryRecord> {
        self.ended += 1;
        history(&self.state, id, self.facts, self.ended, result, message)
    }

    /// Tells whoever proposed it why a change was not enqueued.
    pub(super) fn report_refusal(&mut self, subject: &Subject, why: String) {
        let uuid = (self.draw)();
        let reporter = Reporter { votes: BTreeMap::new(), comment: true, submit: false };
        let text = format!("Not enqueued in {}: {why}", self.pipeline.name);
        let note = self.note(subject, uuid.as_str(), &reporter, Some("DEQUEUED"), text);
        self.ended += 1;
        let history = HistoryRecord {
            ltime: self.facts.ltime * ENDS_PER_STEP + self.ended,
            refs: vec![history_ref(subject, None, None, false)],
            ..blank(uuid, self.facts, "DEQUEUED", Some(why), subject.project())
        };
        self.keep(ReportRecord { history: Some(history), notes: note.into_iter().collect() });
    }

    fn keep(&mut self, report: ReportRecord) {
        let id = (self.draw)();
        self.state.reports.insert(id, report);
    }

    fn note(
        &self,
        subject: &Subject,
        id: &str,
        reporter: &Reporter,
        result: Option<&str>,
        text: String,
    ) -> Option<Note> {
        let Subject::Change { change, patchset } = subject else { return None };
        let (connection, _) = self.facts.config.source(&change.project)?;
        let line = NoteLine {
            id: id.to_owned(),
            change: change.to_string(),
            by: "menagerie".to_owned(),
            at_ms: self.facts.now_ms,
            votes: reporter.votes.clone(),
            comment: reporter.comment.then_some(text),
            pipeline: Some(format!("{}/{}", self.facts.pipeline.tenant, self.facts.pipeline.pipeline)),
            result: result.map(str::to_owned),
        };
        let source = Source { connection: connection.to_owned(), project: change.project.clone() };
        Some(Note { source, patchset: patchset.clone(), line })
    }

    fn text(&self, id: &Id, result: &str, message: Option<&str>) -> String {
        let pipeline = self.pipeline;
        let chosen = match result {
            "SUCCESS" => &pipeline.success_message,
            "MERGE_CONFLICT" => &pipeline.merge_conflict_message,
            _ => &pipeline.failure_message,
        };
        let usual = || match result {
            "SUCCESS" => "Build succeeded.".to_owned(),
            "MERGE_CONFLICT" => "It cannot be merged.".to_owned(),
            "CONFIG_ERROR" => "The configuration is wrong.".to_owned(),
            "NO_JOBS" => "There are no jobs for it.".to_owned(),
            "DEQUEUED" => "It was dequeued.".to_owned(),
            _ => "Build failed.".to_owned(),
        };
        let mut text = format!("{} ({} pipeline)", chosen.clone().unwrap_or_else(usual), pipeline.name);
        if let Some(message) = message {
            let _ = write!(text, "\n{message}");
        }
        for job in &self.item(id).buildset.jobs {
            let voting = if job.record.job.is_voting { "" } else { " (non-voting)" };
            let build = job.builds.last().map_or("-", |build| build.id.as_str());
            let detail = job.builds.last().and_then(|build| build.record.detail.as_deref());
            let result = job.result().unwrap_or("-");
            let _ = write!(text, "\n- {} {build}: {result}{voting}", job.record.job.name);
            if let Some(detail) = detail {
                let _ = write!(text, ": {detail}");
            }
        }
        text
    }
}

/// The history entry of a live item, as it stands.
pub(super) fn history(
    state: &State,
    id: &Id,
    facts: &Facts<'_>,
    number: i64,
    result: &str,
    message: Option<String>,
) -> Option<HistoryRecord> {
    let item = state.items.get(id).filter(|item| item.record.is_live)?;
    let queue = state.queues.values().find(|queue| queue.items.contains(id));
    let queue = queue.map_or_else(|| item.record.subject.project().to_owned(), |queue| queue.name.clone());
    let (commit, parent) = match &item.buildset.record.merge {
        MergeStep::Done { commit, parent, .. } => (Some(commit.clone()), Some(parent.clone())),
        MergeStep::New | MergeStep::Pending { .. } | MergeStep::Failed { .. } => (None, None),
    };
    let is_merged = result == "SUCCESS"
        && state.record.merged.iter().any(|merged| match &item.record.subject {
            Subject::Change { change, patchset } => merged.change == *change && merged.patchset == *patchset,
            Subject::Ref { .. } => false,
        });
    Some(HistoryRecord {
        ltime: facts.ltime * ENDS_PER_STEP + number,
        refs: vec![history_ref(&item.record.subject, commit, parent, is_merged)],
        state: item.buildset.state.as_ref().map(heads).unwrap_or_default(),
        builds: builds(item),
        ..blank(item.record.buildset.clone(), facts, result, message, &queue)
    })
}

fn blank(uuid: Id, facts: &Facts<'_>, result: &str, message: Option<String>, queue: &str) -> HistoryRecord {
    HistoryRecord {
        uuid,
        tenant: facts.pipeline.tenant.clone(),
        pipeline: facts.pipeline.pipeline.clone(),
        queue: queue.to_owned(),
        result: result.to_owned(),
        message,
        ltime: 0,
        end_ms: facts.now_ms,
        refs: Vec::new(),
        state: BTreeMap::new(),
        builds: Vec::new(),
    }
}

fn history_ref(subject: &Subject, commit: Option<Sha>, parent: Option<Sha>, merged: bool) -> HistoryRef {
    let (patchset, oldrev, newrev) = match subject {
        Subject::Change { patchset, .. } => (Some(patchset.clone()), None, None),
        Subject::Ref { oldrev, newrev, .. } => (None, Some(oldrev.clone()), Some(newrev.clone())),
    };
    HistoryRef {
        project: subject.project().to_owned(),
        branch: subject.branch().map(str::to_owned),
        change: subject.change().map(menagerie_znodes::pipelines::Change::branch),
        patchset,
        reference: subject.reference(),
        oldrev,
        newrev,
        parent,
        commit,
        merged,
    }
}

fn heads(state: &menagerie_znodes::pipelines::RepoState) -> BTreeMap<String, BTreeMap<String, Sha>> {
    let branches = |branches: &BTreeMap<String, menagerie_znodes::pipelines::BranchState>| {
        branches.iter().map(|(name, branch)| (name.clone(), branch.head().clone())).collect()
    };
    state.0.iter().map(|(project, found)| (project.clone(), branches(found))).collect()
}

fn builds(item: &Item) -> Vec<HistoryBuild> {
    let of = |job: &super::Job| {
        let (name, voting) = (job.record.job.name.clone(), job.record.job.is_voting);
        let one = move |build: &super::Build| HistoryBuild {
            uuid: build.id.clone(),
            job_name: name.clone(),
            result: build.record.result.clone(),
            voting,
            is_final: build.record.is_final,
            attempt: build.record.attempt,
            start_time: build.record.start_ms,
            end_time: build.record.end_ms,
            executor: build.record.executor.clone(),
        };
        job.builds.iter().map(one).collect::<Vec<_>>()
    };
    item.buildset.jobs.iter().flat_map(of).collect()
}
