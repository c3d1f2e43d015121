//! Which jobs an item runs: inheritance, variants and matchers resolved.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};

use menagerie_znodes::pipelines::FrozenJob;

use super::job::{BASE_JOB, JobDefinition, JobVariant, Parent, Settings, merge_vars};
use super::layout::{Layout, Subject};
use super::names;
use super::problem::{Position, Problem};
use super::project::StanzaBody;

const TIMEOUT_S_DEFAULT: u32 = 1800;
const ATTEMPTS_DEFAULT: u32 = 3;
/// Longest chain of parents. Reading it recurses, and untrusted projects may define jobs.
const ANCESTORS_MAX: usize = 100;

/// The jobs of a pipeline as the stanzas list them.
#[derive(Default)]
struct JobList<'a> {
    /// Names in the order of first mention.
    order: Vec<&'a str>,
    variants: BTreeMap<&'a str, Vec<&'a JobVariant>>,
    /// Variables of projects and templates. Those of jobs go before them.
    vars: Map<String, Json>,
}

impl<'a> JobList<'a> {
    fn add(&mut self, body: &'a StanzaBody, pipeline: &str) {
        merge_vars(&mut self.vars, &body.vars);
        for job in body.section(pipeline).into_iter().flat_map(|section| &section.jobs) {
            let variants = self.variants.entry(&job.name).or_default();
            if variants.is_empty() {
                self.order.push(&job.name);
            }
            variants.push(job);
        }
    }
}

impl Layout {
    /// The jobs of an item, in the order the stanzas mention them, with all inheritance resolved. Soft dependencies on
    /// jobs that do not run are left out. The error is what to report as a configuration error.
    pub fn freeze(&self, pipeline: &str, subject: &Subject<'_>) -> Result<Vec<FrozenJob>, Problem> {
        let list = self.job_list(pipeline, subject)?;
        let mut frozen: Vec<(FrozenJob, &Position)> = Vec::new();
        for name in &list.order {
            let variants = list.variants.get(name).map_or(&[][..], Vec::as_slice);
            let Some(first) = variants.first() else { continue };
            if let Some(job) = self.freeze_job(variants, &first.position, &list.vars, subject)? {
                frozen.push((job, &first.position));
            }
        }
        resolve_dependencies(&mut frozen)?;
        Ok(frozen.into_iter().map(|(job, _)| job).collect())
    }

    fn job_list(&self, pipeline: &str, subject: &Subject<'_>) -> Result<JobList<'_>, Problem> {
        let applies = |body: &StanzaBody| body.branches.matches(subject.branch, subject.reference);
        let mut list = JobList::default();
        for stanza in self.stanzas_of(subject.project).filter(|stanza| applies(&stanza.body)) {
            for name in &stanza.templates {
                let templates = self.template(name);
                if templates.is_empty() {
                    let message = format!("there is no project-template `{name}`");
                    let guess = names::nearest(name, self.templates.keys().map(String::as_str));
                    return Err(stanza
                        .body
                        .position
                        .problem(message, hint(guess, "define it, or remove it")));
                }
                for template in templates.iter().filter(|template| applies(template)) {
                    list.add(template, pipeline);
                }
            }
            list.add(&stanza.body, pipeline);
        }
        Ok(list)
    }

    /// Freezes one job; `None` if its matchers leave it out.
    fn freeze_job(
        &self,
        variants: &[&JobVariant],
        used_at: &Position,
        project_vars: &Map<String, Json>,
        subject: &Subject<'_>,
    ) -> Result<Option<FrozenJob>, Problem> {
        let Some(name) = variants.first().map(|variant| variant.name.as_str()) else { return Ok(None) };
        let mut chain = Chain { layout: self, subject, definitions: Vec::new(), seen: BTreeSet::new() };
        if !chain.collect(name, used_at, &mut Vec::new())? {
            return Ok(None);
        }
        let mut settings = inherit(&chain.definitions)?;
        let matching: Vec<_> = variants
            .iter()
            .filter(|variant| variant.branches.matches(subject.branch, subject.reference))
            .collect();
        for variant in &matching {
            check_final(name, &settings, &variant.settings, &variant.position)?;
            settings.apply(&variant.settings);
        }
        if matching.is_empty() || !settings.matches_files(subject.files) {
            return Ok(None);
        }
        let mut vars = project_vars.clone();
        merge_vars(&mut vars, &settings.vars);
        settings.vars = vars;
        self.finish(name, settings, used_at).map(Some)
    }

    fn finish(&self, name: &str, settings: Settings, used_at: &Position) -> Result<FrozenJob, Problem> {
        if settings.is_abstract == Some(true) {
            let message = format!("job `{name}` is abstract and cannot run itself");
            return Err(used_at.problem(message, "run a job that inherits from it"));
        }
        let Some(run) = settings.run else {
            let message = format!("job `{name}` has nothing to run");
            return Err(used_at.problem(message, "add `run: PATH` to the job or one of its parents"));
        };
        let mut required_projects = Vec::new();
        for project in &settings.required_projects {
            let Some(project) = self.project(project) else {
                let message =
                    format!("job `{name}` requires the project `{project}`, which the tenant does not have");
                return Err(
                    used_at.problem(message, "correct the name, or add the project to the tenant file")
                );
            };
            if !required_projects.contains(&project.name) {
                required_projects.push(project.name.clone());
            }
        }
        Ok(FrozenJob {
            name: name.to_owned(),
            run: run.path,
            project: run.origin.project.clone(),
            branch: run.origin.branch.clone(),
            is_trusted: run.origin.is_trusted,
            is_voting: settings.is_voting.unwrap_or(true),
            timeout_s: settings.timeout_s.unwrap_or(TIMEOUT_S_DEFAULT).into(),
            attempts: settings.attempts.unwrap_or(ATTEMPTS_DEFAULT),
            dependencies: settings.dependencies.unwrap_or_default(),
            required_projects,
            vars: settings.vars,
        })
    }
}

/// The definitions that make up a job, ancestors first.
struct Chain<'a> {
    layout: &'a Layout,
    subject: &'a Subject<'a>,
    definitions: Vec<&'a JobDefinition>,
    /// Jobs whose definitions are in already: two variants may name the same parent.
    seen: BTreeSet<&'a str>,
}

impl<'a> Chain<'a> {
    /// Collects the definitions of a job and its ancestors that apply to the subject. False if the job or an ancestor
    /// has none: then the job does not exist on this branch.
    fn collect(
        &mut self,
        name: &str,
        used_at: &Position,
        children: &mut Vec<&'a str>,
    ) -> Result<bool, Problem> {
        let Some((name, definitions)) = self.layout.jobs.get_key_value(name) else {
            let guess = names::nearest(name, self.layout.jobs.keys().map(String::as_str));
            let message = format!("there is no job `{name}`");
            return Err(used_at.problem(message, hint(guess, "define it; perhaps its definition is broken")));
        };
        if children.contains(&name.as_str()) {
            let path = children.iter().chain([&name.as_str()]).copied().collect::<Vec<_>>().join(" -> ");
            let message = format!("job `{name}` inherits from itself: {path}");
            return Err(used_at.problem(message, "give one of them another `parent`"));
        }
        if children.len() >= ANCESTORS_MAX {
            let message = format!("job `{}` has more than {ANCESTORS_MAX} ancestors", children[0]);
            return Err(used_at.problem(message, "shorten the chain of parents"));
        }
        if !self.seen.insert(name) {
            return Ok(true);
        }
        let mut is_first = true;
        for definition in definitions {
            if !definition.branches.matches(self.subject.branch, self.subject.reference) {
                continue;
            }
            if let Some(parent) = self.parent(definition, is_first) {
                children.push(name);
                let is_matched = self.collect(parent, &definition.position, children)?;
                children.pop();
                if !is_matched {
                    return Ok(false);
                }
            }
            is_first = false;
            self.definitions.push(definition);
        }
        Ok(!is_first)
    }

    /// The parent of a definition. Only the first one that matches falls back to the base job.
    fn parent(&self, definition: &'a JobDefinition, is_first: bool) -> Option<&'a str> {
        match &definition.parent {
            Parent::Job(parent) => Some(parent),
            Parent::Nothing => None,
            Parent::Default => {
                let has_base =
                    self.layout.jobs.get(BASE_JOB).is_some_and(|definitions| !definitions.is_empty());
                (is_first && has_base && definition.name != BASE_JOB).then_some(BASE_JOB)
            }
        }
    }
}

/// Applies definitions one after the other. Whether a job is abstract is not inherited.
fn inherit(definitions: &[&JobDefinition]) -> Result<Settings, Problem> {
    let mut settings = Settings::default();
    let mut previous: Option<&JobDefinition> = None;
    for definition in definitions {
        match previous.filter(|previous| previous.name != definition.name) {
            Some(parent) if settings.is_final == Some(true) => {
                let message =
                    format!("job `{}` inherits from `{}`, which is final", definition.name, parent.name);
                return Err(definition.position.problem(message, "choose another `parent`"));
            }
            Some(_) => settings.is_abstract = None,
            None => check_final(&definition.name, &settings, &definition.settings, &definition.position)?,
        }
        settings.apply(&definition.settings);
        previous = Some(definition);
    }
    Ok(settings)
}

fn check_final(
    name: &str,
    settings: &Settings,
    later: &Settings,
    position: &Position,
) -> Result<(), Problem> {
    if settings.is_final != Some(true) || !later.changes_execution() {
        return Ok(());
    }
    let message = format!("job `{name}` is final; a variant may not change what it executes");
    Err(position
        .problem(message, "remove `run`, `timeout`, `attempts`, `required-projects` and `vars` there"))
}

/// Drops soft dependencies on jobs that do not run, and refuses hard ones and loops.
fn resolve_dependencies(jobs: &mut [(FrozenJob, &Position)]) -> Result<(), Problem> {
    let running: BTreeSet<String> = jobs.iter().map(|(job, _)| job.name.clone()).collect();
    for (job, position) in jobs.iter_mut() {
        let missing = job.dependencies.iter().find(|one| !one.is_soft && !running.contains(&one.name));
        if let Some(missing) = missing {
            let message = format!("job `{}` depends on `{}`, which was not run", job.name, missing.name);
            let help =
                "add that job to the pipeline, give both the same matchers, or make the dependency soft";
            return Err(position.problem(message, help));
        }
        job.dependencies.retain(|one| running.contains(&one.name));
    }
    refuse_loops(jobs)
}

/// Takes away jobs that wait for nothing, again and again; those that remain wait for themselves.
fn refuse_loops(jobs: &[(FrozenJob, &Position)]) -> Result<(), Problem> {
    let mut dependents: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, (job, _)) in jobs.iter().enumerate() {
        for dependency in &job.dependencies {
            dependents.entry(&dependency.name).or_default().push(index);
        }
    }
    let mut waits_for: Vec<usize> = jobs.iter().map(|(job, _)| job.dependencies.len()).collect();
    let mut ready: Vec<usize> = (0..jobs.len()).filter(|index| waits_for[*index] == 0).collect();
    while let Some(index) = ready.pop() {
        for dependent in dependents.remove(jobs[index].0.name.as_str()).unwrap_or_default() {
            waits_for[dependent] -= 1;
            if waits_for[dependent] == 0 {
                ready.push(dependent);
            }
        }
    }
    let waiting: Vec<_> =
        jobs.iter().zip(&waits_for).filter(|(_, count)| **count > 0).map(|(job, _)| job).collect();
    let Some((_, position)) = waiting.first() else { return Ok(()) };
    let names = waiting.iter().map(|(job, _)| format!("`{}`", job.name)).collect::<Vec<_>>().join(", ");
    let message = format!("jobs depend on each other in a loop: {names}");
    Err(position.problem(message, "remove one of their `dependencies`"))
}

fn hint(guess: Option<&str>, otherwise: &str) -> String {
    guess.map_or_else(|| otherwise.to_owned(), |guess| format!("did you mean `{guess}`?"))
}
