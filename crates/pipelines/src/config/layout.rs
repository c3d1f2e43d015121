//! The layout of a tenant: everything its projects configure, and the questions that can be asked of it.

use std::collections::{BTreeMap, BTreeSet};

use super::job::JobDefinition;
use super::pipeline::Pipeline;
use super::problem::{Problem, SourceFile};
use super::project::{ProjectStanza, StanzaBody, Target};
use super::reading;
use super::tenant::{Tenant, TenantProject};

/// Where configuration may be, in the order of preference.
const CONFIG_PLACES: [&str; 4] = ["zuul.yaml", "zuul.d/", ".zuul.yaml", ".zuul.d/"];

/// Whether configuration is read from this path of a repository: `zuul.yaml`, `.zuul.yaml`, and files that end in
/// `.yaml` anywhere below `zuul.d` and `.zuul.d`. If several exist on a branch, [`Layout::new`] reads the first of
/// `zuul.yaml`, `zuul.d`, `.zuul.yaml`, `.zuul.d`.
pub fn is_config_path(path: &str) -> bool {
    config_place(path).is_some()
}

/// Which of the places a path belongs to; smaller is preferred.
pub(super) fn config_place(path: &str) -> Option<usize> {
    CONFIG_PLACES.iter().position(|place| match place.ends_with('/') {
        true => path.starts_with(place) && path.ends_with(".yaml"),
        false => path == *place,
    })
}

/// What an item is about, as far as the choice of its jobs goes.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The project, by its plain or canonical name.
    pub project: &'a str,
    /// The branch a change is for, or that was updated; `None` for tags.
    pub branch: Option<&'a str>,
    /// The full name of the ref.
    pub reference: &'a str,
    /// The changed files; `None` if unknown, and then every file matcher matches.
    pub files: Option<&'a [String]>,
}

/// A queue that several projects share, so that their changes are tested together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedQueue {
    /// Unique in its layout.
    pub name: String,
    /// Whether every branch has a queue of this name of its own.
    pub is_per_branch: bool,
}

/// All the configuration of a tenant.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    /// By plain name.
    pub(super) projects: BTreeMap<String, TenantProject>,
    /// The canonical name of each project, by plain name.
    pub(super) canonical: BTreeMap<String, String>,
    pub(super) problems: Vec<Problem>,
    pub(super) pipelines: Vec<Pipeline>,
    /// Pipelines that were left out. Stanzas that use them are not to blame.
    pub(super) broken_pipelines: BTreeSet<String>,
    /// By name.
    pub(super) queues: BTreeMap<String, SharedQueue>,
    /// All definitions of each job, in order; the first is the reference.
    pub(super) jobs: BTreeMap<String, Vec<JobDefinition>>,
    pub(super) stanzas: Vec<ProjectStanza>,
    /// All definitions of each template, in order.
    pub(super) templates: BTreeMap<String, Vec<StanzaBody>>,
}

impl Layout {
    /// Reads the files of all projects. `hosts` has the canonical host name of each connection, `branches` all
    /// branches of each project: one with a single branch implies no branch matchers. It never fails: a broken
    /// object or file is left out and listed in [`Layout::problems`].
    pub fn new(
        tenant: &Tenant,
        hosts: &BTreeMap<String, String>,
        branches: &BTreeMap<String, BTreeSet<String>>,
        files: &[SourceFile],
    ) -> Self {
        reading::read(tenant, hosts, branches, files)
    }

    /// What is wrong with the configuration.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// All pipelines, in the order of their definitions.
    pub fn pipelines(&self) -> impl Iterator<Item = &Pipeline> {
        self.pipelines.iter()
    }

    /// A pipeline by name.
    pub fn pipeline(&self, name: &str) -> Option<&Pipeline> {
        self.pipelines.iter().find(|pipeline| pipeline.name == name)
    }

    /// Whether a pipeline is defined, and left out because of a mistake in it.
    pub fn is_broken(&self, pipeline: &str) -> bool {
        self.broken_pipelines.contains(pipeline) && self.pipeline(pipeline).is_none()
    }

    /// A project by its plain name or its canonical name, `HOST/NAME`.
    pub fn project(&self, name: &str) -> Option<&TenantProject> {
        self.projects.get(name).or_else(|| {
            let (plain, _) = self.canonical.iter().find(|(_, canonical)| *canonical == name)?;
            self.projects.get(plain)
        })
    }

    /// The canonical name of a project, `HOST/NAME`.
    pub fn canonical(&self, name: &str) -> Option<String> {
        self.canonical.get(&self.project(name)?.name).cloned()
    }

    /// Whether a project takes part in a pipeline, on any branch.
    pub fn is_in_pipeline(&self, project: &str, pipeline: &str) -> bool {
        let has_section = |body: &StanzaBody| body.section(pipeline).is_some();
        self.stanzas_of(project).any(|stanza| {
            has_section(&stanza.body)
                || stanza.templates.iter().flat_map(|name| self.template(name)).any(has_section)
        })
    }

    /// Whether a pipeline takes a project's changes: also if the project has no stanza, because a change may bring its first.
    pub fn takes_changes(&self, project: &str, pipeline: &str) -> bool {
        self.is_in_pipeline(project, pipeline) || self.stanzas_of(project).next().is_none()
    }

    /// The queue that a project shares with others on this branch; `None`: it has one of its own. A queue of the
    /// stanza itself goes before one of its templates, and that before one of a pipeline's section.
    pub fn shared_queue(&self, project: &str, branch: &str) -> Option<SharedQueue> {
        let reference = format!("refs/heads/{branch}");
        let stanzas: Vec<_> = self
            .stanzas_of(project)
            .filter(|stanza| stanza.body.branches.matches(Some(branch), &reference))
            .collect();
        let bodies = || {
            let own = stanzas.iter().map(|stanza| &stanza.body);
            let templates =
                stanzas.iter().flat_map(|stanza| &stanza.templates).flat_map(|name| self.template(name));
            own.chain(templates.filter(|body| body.branches.matches(Some(branch), &reference)))
        };
        let name = bodies()
            .find_map(|body| body.queue.as_ref())
            .or_else(|| bodies().flat_map(|body| &body.sections).find_map(|section| section.queue.as_ref()));
        self.queues.get(name?).cloned()
    }

    /// The stanzas that configure a project, in order, for any branch.
    pub(super) fn stanzas_of(&self, project: &str) -> impl Iterator<Item = &ProjectStanza> {
        let plain = self.project(project).map_or(project, |project| project.name.as_str()).to_owned();
        let canonical = self.canonical.get(&plain).cloned().unwrap_or_default();
        self.stanzas.iter().filter(move |stanza| match &stanza.target {
            Target::Name(name) => *name == plain,
            Target::Matching(pattern) => pattern.matches_any(&[&plain, &canonical]),
        })
    }

    /// All definitions of a template.
    pub(super) fn template(&self, name: &str) -> &[StanzaBody] {
        self.templates.get(name).map_or(&[], Vec::as_slice)
    }
}
