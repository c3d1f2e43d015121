//! Merge, jobs and builds of one item.

use std::collections::BTreeSet;

use menagerie_znodes::pipelines::{
    BranchState, BuildParams, BuildRecord, Checkout, FrozenJob, Id, JobQueue, JobRecord, JobsStep,
    MergeParams, MergeStep, Params, RepoState, Source, Subject, TipsParams,
};

use super::knowledge::Overlay;
use super::{Build, Effect, Job, Pass};
use crate::config;

impl Pass<'_, '_> {
    /// Takes the next step that is possible; whether there was one.
    pub(super) fn prepare(&mut self, id: &Id) -> bool {
        if self.item(id).record.is_pushing || self.item(id).record.push_failure.is_some() {
            return false;
        }
        let has_started = self.report_start(id);
        let has_stepped = match &self.item(id).buildset.record.merge {
            MergeStep::New => self.begin_merge(id),
            MergeStep::Pending { .. } | MergeStep::Failed { .. } => false,
            MergeStep::Done { .. } if !self.item(id).record.is_live => false,
            MergeStep::Done { .. } => match &self.item(id).buildset.record.jobs {
                JobsStep::New => self.freeze(id),
                JobsStep::Tips { .. } | JobsStep::Failed { .. } => false,
                JobsStep::Ready { .. } => self.start_builds(id),
            },
        };
        has_started | has_stepped
    }

    fn begin_merge(&mut self, id: &Id) -> bool {
        let Some(mut state) = self.state_ahead(id) else { return self.fail_with_ahead(id) };
        let record = &self.item(id).record;
        let (change, patchset) = match record.subject.clone() {
            Subject::Change { change, patchset } => (change, patchset),
            Subject::Ref { project, reference, oldrev, newrev } => {
                let name = reference.rsplit_once("refs/heads/").or(reference.rsplit_once("refs/tags/"));
                let name = name.map_or(reference.as_str(), |(_, name)| name).to_owned();
                let branch = BranchState { base: newrev.clone(), links: Vec::new() };
                state.0.entry(project).or_default().insert(name, branch);
                let buildset = &mut self.item_mut(id).buildset;
                buildset.record.merge = MergeStep::Done { commit: newrev, parent: oldrev, files: None };
                buildset.state = Some(state);
                return true;
            }
        };
        let Some(source) = self.source(&change.project) else { return false };
        let params = MergeParams {
            buildset: record.buildset.clone(),
            source,
            patchset,
            onto: state.branch(&change.project, &change.target).cloned(),
            change,
        };
        let request = self.submit(JobQueue::Merger, Params::Merge(params));
        let buildset = &mut self.item_mut(id).buildset;
        buildset.record.merge = MergeStep::Pending { request };
        buildset.state = Some(state);
        true
    }

    /// An item whose dependency clashes cannot be merged either.
    fn fail_with_ahead(&mut self, id: &Id) -> bool {
        let ahead = self.item(id).record.item_ahead.as_ref().and_then(|ahead| self.state.items.get(ahead));
        let Some(ahead) = ahead.filter(|ahead| !ahead.record.is_live) else { return false };
        let MergeStep::Failed { message } = &ahead.buildset.record.merge else { return false };
        let message = match ahead.record.subject.change() {
            Some(change) => format!("its dependency {change}: {message}"),
            None => message.clone(),
        };
        self.item_mut(id).buildset.record.merge = MergeStep::Failed { message };
        true
    }

    fn submit(&mut self, queue: JobQueue, params: Params) -> Id {
        let id = (self.draw)();
        self.submit_as(queue, id.clone(), params);
        id
    }

    fn submit_as(&mut self, queue: JobQueue, id: Id, params: Params) {
        let precedence = self.pipeline.precedence.as_number();
        self.effects.push(Effect::Submit { queue, id, precedence, params });
    }

    fn source(&self, project: &str) -> Option<Source> {
        let (connection, _) = self.facts.config.source(project)?;
        Some(Source { connection: connection.to_owned(), project: project.to_owned() })
    }

    /// The changes that an item is tested with, the first one first; each with its configuration if it touches that.
    fn overlays(&self, id: &Id) -> Vec<Overlay<'_>> {
        let (mut overlays, mut next) = (Vec::new(), Some(id));
        while let Some(item) = next.and_then(|id| self.state.items.get(id)) {
            let (subject, config) = (&item.record.subject, &item.buildset.record.config);
            if let (Some(change), Some(files)) = (subject.change(), config) {
                overlays.push(Overlay { project: &change.project, branch: &change.target, files });
            }
            next = item.record.item_ahead.as_ref();
        }
        overlays.reverse();
        overlays
    }

    /// Decides which jobs run.
    fn freeze(&mut self, id: &Id) -> bool {
        let jobs = match self.frozen(id) {
            Ok(jobs) => jobs,
            Err(message) => {
                self.item_mut(id).buildset.record.jobs = JobsStep::Failed { message };
                return true;
            }
        };
        let names: Vec<String> = jobs.iter().map(|job| job.name.clone()).collect();
        let wanted = self.missing_tips(id, &jobs);
        let records = jobs.into_iter().map(|job| JobRecord { job, is_skipped: false });
        let jobs = records.map(|record| Job { record, builds: Vec::new() }).collect();
        let step = if wanted.is_empty() {
            JobsStep::Ready { names }
        } else {
            let buildset = self.item(id).record.buildset.clone();
            let request = self.submit(JobQueue::Merger, Params::Tips(TipsParams { buildset, wanted }));
            JobsStep::Tips { request, names }
        };
        let buildset = &mut self.item_mut(id).buildset;
        (buildset.jobs, buildset.record.jobs) = (jobs, step);
        true
    }

    fn frozen(&self, id: &Id) -> Result<Vec<FrozenJob>, String> {
        let item = self.item(id);
        let (subject, reference) = (&item.record.subject, item.record.subject.reference());
        let files = match &item.buildset.record.merge {
            MergeStep::Done { files, .. } => files.as_deref(),
            MergeStep::New | MergeStep::Pending { .. } | MergeStep::Failed { .. } => None,
        };
        let overlays = self.overlays(id);
        if item.buildset.record.config.is_some()
            && let Some(problem) = self.facts.config.problems_of_last(&overlays).first()
        {
            return Err(problem.to_string());
        }
        let proposed = (!overlays.is_empty()).then(|| self.facts.config.with(&overlays));
        let layout = proposed.as_ref().unwrap_or(self.facts.config.layout());
        let wanted = config::Subject {
            project: subject.project(),
            branch: subject.branch(),
            reference: &reference,
            files,
        };
        layout.freeze(&self.pipeline.name, &wanted).map_err(|problem| problem.to_string())
    }

    /// The branches that jobs need, and of which it is not known yet where they are.
    fn missing_tips(&self, id: &Id, jobs: &[FrozenJob]) -> Vec<(Source, String)> {
        let item = self.item(id);
        let mut wanted = BTreeSet::new();
        for job in jobs {
            let mut needed: Vec<(String, String)> = self.branches_of(&item.record.subject, job);
            needed.push((job.project.clone(), self.run_branch(&item.record.subject, job)));
            for (project, branch) in needed {
                let is_known = item
                    .buildset
                    .state
                    .as_ref()
                    .is_some_and(|state| state.branch(&project, &branch).is_some());
                if !is_known && let Some(source) = self.source(&project) {
                    wanted.insert((source, branch));
                }
            }
        }
        wanted.into_iter().collect()
    }

    /// Projects that a job sees, each with the branch that is checked out: the item's if there is one of that name.
    fn branches_of(&self, subject: &Subject, job: &FrozenJob) -> Vec<(String, String)> {
        let own = subject.project().to_owned();
        let mut projects = vec![own.clone()];
        projects.extend(job.required_projects.iter().cloned());
        if !job.is_trusted {
            projects.push(job.project.clone());
        }
        let mut found: Vec<(String, String)> = Vec::new();
        for project in projects {
            if !found.iter().any(|(known, _)| *known == project) {
                let fallback = if project == job.project { Some(job.branch.as_str()) } else { None };
                let branch = self.branch_for(subject, &project, fallback);
                found.push((project, branch));
            }
        }
        found
    }

    fn branch_for(&self, subject: &Subject, project: &str, fallback: Option<&str>) -> String {
        let reference = subject.reference();
        let wanted = subject.branch().or_else(|| reference.strip_prefix("refs/tags/")).unwrap_or(&reference);
        if project == subject.project() {
            return wanted.to_owned();
        }
        let Some((connection, _)) = self.facts.config.source(project) else { return wanted.to_owned() };
        let branches = self.facts.refs.branches(connection, project);
        let known = |name: &&str| branches.contains(*name);
        let choice = [Some(wanted), fallback, Some("main"), Some("master")].into_iter().flatten().find(known);
        choice.map(str::to_owned).or_else(|| branches.first().cloned()).unwrap_or_else(|| wanted.to_owned())
    }

    /// The branch of its own project that a job's program comes from.
    fn run_branch(&self, subject: &Subject, job: &FrozenJob) -> String {
        match job.is_trusted {
            true => job.branch.clone(),
            false => self.branch_for(subject, &job.project, Some(&job.branch)),
        }
    }

    /// Starts the jobs whose dependencies are done; skips those whose dependencies failed.
    fn start_builds(&mut self, id: &Id) -> bool {
        let mut has_changed = false;
        for at in 0..self.item(id).buildset.jobs.len() {
            let job = &self.item(id).buildset.jobs[at];
            if job.result().is_some() || job.in_flight().is_some() {
                continue;
            }
            match self.readiness(id, at) {
                Readiness::Waits => continue,
                Readiness::Skipped => self.item_mut(id).buildset.jobs[at].record.is_skipped = true,
                Readiness::Ready => self.start_build(id, at),
            }
            has_changed = true;
        }
        has_changed
    }

    fn readiness(&self, id: &Id, at: usize) -> Readiness {
        let jobs = &self.item(id).buildset.jobs;
        let mut readiness = Readiness::Ready;
        for dependency in &jobs[at].record.job.dependencies {
            let Some(other) = jobs.iter().find(|job| job.record.job.name == dependency.name) else {
                // A soft one may be missing; a hard one was refused when jobs were frozen.
                continue;
            };
            match other.result() {
                None => readiness = Readiness::Waits,
                Some("SUCCESS") => {}
                Some("SKIPPED") if dependency.is_soft => {}
                Some(_) => return Readiness::Skipped,
            }
        }
        readiness
    }

    fn start_build(&mut self, id: &Id, at: usize) {
        let build = (self.draw)();
        let item = self.item(id);
        let (subject, job) = (item.record.subject.clone(), item.buildset.jobs[at].record.job.clone());
        let MergeStep::Done { commit, parent, .. } = item.buildset.record.merge.clone() else { return };
        let branches = self.branches_of(&subject, &job);
        let run_branch = self.run_branch(&subject, &job);
        let mut state = RepoState::default();
        let needed = branches.iter().cloned().chain([(job.project.clone(), run_branch.clone())]);
        for (project, branch) in needed {
            if let Some(found) =
                item.buildset.state.as_ref().and_then(|state| state.branch(&project, &branch))
            {
                state.0.entry(project).or_default().insert(branch, found.clone());
            }
        }
        let attempt = item.buildset.jobs[at].builds.len() as u32 + 1;
        let params = BuildParams {
            tenant: self.facts.pipeline.tenant.clone(),
            pipeline: self.facts.pipeline.pipeline.clone(),
            buildset: item.record.buildset.clone(),
            attempt,
            subject,
            commit,
            parent,
            checkouts: branches
                .into_iter()
                .filter_map(|(project, branch)| self.checkout(project, branch))
                .collect(),
            run_from: self.checkout(job.project.clone(), run_branch),
            state,
            job,
        };
        self.submit_as(JobQueue::Executor, build.clone(), Params::Build(Box::new(params)));
        let record = BuildRecord {
            attempt,
            result: None,
            is_final: false,
            requested_ms: self.facts.now_ms,
            start_ms: None,
            end_ms: None,
            executor: None,
            detail: None,
        };
        self.item_mut(id).buildset.jobs[at].builds.push(Build { id: build, record });
    }

    fn checkout(&self, project: String, branch: String) -> Option<Checkout> {
        let (connection, host) = self.facts.config.source(&project)?;
        let source = Source { connection: connection.to_owned(), project };
        Some(Checkout { host: host.to_owned(), source, branch })
    }
}

enum Readiness {
    Waits,
    Skipped,
    Ready,
}
