//! Results of mergers, executors and pushes. A result that nobody waits for any more changes nothing.

use menagerie_znodes::pipelines::{BranchState, Id, JobsStep, MergeResult, MergeStep, Outcome};

use super::{Build, Pass, PushResult};

impl Pass<'_, '_> {
    pub(super) fn on_outcome(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Merge { request, buildset, result } => self.on_merge(&request, &buildset, result),
            Outcome::Tips { request, buildset, tips } => self.on_tips(&request, &buildset, tips),
            Outcome::Build { build, buildset, result, start_ms, end_ms, executor, detail } => {
                self.on_build(&buildset, &build, |record| {
                    record.result = Some(result);
                    record.start_ms = Some(start_ms);
                    record.end_ms = Some(end_ms);
                    record.executor = Some(executor);
                    record.detail = detail;
                });
            }
        }
    }

    fn with_buildset(&self, buildset: &Id) -> Option<Id> {
        self.state.items.iter().find(|(_, item)| item.record.buildset == *buildset).map(|(id, _)| id.clone())
    }

    fn on_merge(&mut self, request: &Id, buildset: &Id, result: MergeResult) {
        let Some(id) = self.with_buildset(buildset) else { return };
        let item = self.item_mut(&id);
        if item.buildset.record.merge != (MergeStep::Pending { request: request.clone() }) {
            return;
        }
        let (project, branch) = (item.record.subject.project().to_owned(), item.record.subject.branch());
        let branch = branch.unwrap_or_default().to_owned();
        let buildset = &mut item.buildset;
        buildset.record.merge = match result {
            MergeResult::Merged { state, parent, files, config } => {
                let commit = state.head().clone();
                buildset.state.get_or_insert_default().0.entry(project).or_default().insert(branch, state);
                buildset.record.config = config;
                MergeStep::Done { commit, parent, files }
            }
            MergeResult::Conflict { message } | MergeResult::Failed { message } => {
                MergeStep::Failed { message }
            }
        };
    }

    fn on_tips(
        &mut self,
        request: &Id,
        buildset: &Id,
        tips: Result<Vec<(String, String, menagerie_znodes::pipelines::Sha)>, String>,
    ) {
        let Some(id) = self.with_buildset(buildset) else { return };
        let buildset = &mut self.item_mut(&id).buildset;
        let JobsStep::Tips { request: awaited, names } = &buildset.record.jobs else { return };
        if awaited != request {
            return;
        }
        let names = names.clone();
        buildset.record.jobs = match tips {
            Ok(tips) => {
                let state = buildset.state.get_or_insert_default();
                for (project, branch, base) in tips {
                    let known = state.0.entry(project).or_default();
                    known.entry(branch).or_insert(BranchState { base, links: Vec::new() });
                }
                JobsStep::Ready { names }
            }
            Err(message) => JobsStep::Failed { message },
        };
    }

    fn on_build(
        &mut self,
        buildset: &Id,
        build: &Id,
        note: impl FnOnce(&mut menagerie_znodes::pipelines::BuildRecord),
    ) {
        let Some(id) = self.with_buildset(buildset) else { return };
        for job in &mut self.item_mut(&id).buildset.jobs {
            let attempts = job.record.job.attempts;
            let found =
                job.builds.last_mut().filter(|last| last.id == *build && last.record.result.is_none());
            if let Some(Build { record, .. }) = found {
                note(record);
                // The executor was lost: nobody knows how far it got, so it is tried again.
                let is_lost = record.result.as_deref() == Some("ABORTED");
                record.is_final = !is_lost || record.attempt >= attempts;
                if is_lost && record.is_final {
                    record.result = Some("RETRY_LIMIT".to_owned());
                }
                return;
            }
        }
    }

    pub(super) fn on_pushed(&mut self, buildset: &Id, result: PushResult) {
        let Some(id) = self.with_buildset(buildset).filter(|id| self.item(id).record.is_pushing) else {
            return;
        };
        self.item_mut(&id).record.is_pushing = false;
        match result {
            PushResult::Merged => self.merged(&id),
            PushResult::TargetMoved => self.reset_chain(&id),
            PushResult::Refused(why) => {
                self.item_mut(&id).record.push_failure = Some(format!("it could not be merged: {why}"))
            }
        }
    }
}
