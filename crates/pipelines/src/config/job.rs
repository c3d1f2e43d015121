//! Definitions of jobs: one job may have several, which apply to different branches.

use std::sync::Arc;

use serde_json::{Map, Value as Json};

use menagerie_znodes::pipelines::JobDependency;

use super::fields::{self, Fields};
use super::names;
use super::pattern::Pattern;
use super::problem::{Fault, Origin, Position};
use super::yaml::{Node, Value};

/// The job that others inherit from, if they name no parent and a config project defines it.
pub(super) const BASE_JOB: &str = "base";

const LATER_IN_JOB: [&str; 39] = [
    "protected",
    "intermediate",
    "type",
    "attribute-control",
    "success-message",
    "failure-message",
    "success-url",
    "failure-url",
    "hold-following-changes",
    "semaphore",
    "semaphores",
    "provides",
    "requires",
    "secrets",
    "secret-exposure",
    "nodeset",
    "override-checkout",
    "pre-timeout",
    "post-timeout",
    "pre-run",
    "post-run",
    "cleanup-run",
    "ansible-split-streams",
    "ansible-version",
    "roles",
    "include-projects",
    "exclude-projects",
    "extra-vars",
    "host-vars",
    "group-vars",
    "include-vars",
    "allowed-projects",
    "post-review",
    "match-on-config-updates",
    "deduplicate",
    "failure-output",
    "workspace-checkout",
    "workspace-scheme",
    "image-build-name",
];

/// The branches an object applies to.
#[derive(Debug, Clone)]
pub(super) enum BranchMatcher {
    Any,
    /// The branch of the file, because the object does not say. Tags belong to no branch: for them the definitions
    /// of the default branch apply.
    Implied {
        branch: String,
        is_default: bool,
    },
    Explicit(Vec<Pattern>),
}

impl BranchMatcher {
    /// Whether it applies to this branch, or to this ref if there is no branch.
    pub fn matches(&self, branch: Option<&str>, reference: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Implied { branch: own, is_default } => branch.map_or(*is_default, |branch| branch == own),
            Self::Explicit(patterns) => {
                let text = branch.unwrap_or(reference);
                patterns.iter().any(|pattern| pattern.matches(text))
            }
        }
    }
}

/// The job that a definition inherits from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Parent {
    /// Not said: `base`, if a config project defines it; otherwise there is no parent.
    Default,
    /// `parent: null`.
    Nothing,
    Job(String),
}

/// What a job runs, and from which file that was said.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub path: String,
    pub origin: Arc<Origin>,
}

/// The attributes that a definition sets; `None` leaves what was inherited.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    pub is_abstract: Option<bool>,
    pub is_final: Option<bool>,
    pub run: Option<Run>,
    pub is_voting: Option<bool>,
    pub timeout_s: Option<u32>,
    pub attempts: Option<u32>,
    pub dependencies: Option<Vec<JobDependency>>,
    pub required_projects: Vec<String>,
    pub vars: Map<String, Json>,
    pub files: Option<Vec<Pattern>>,
    pub irrelevant_files: Option<Vec<Pattern>>,
}

impl Settings {
    /// Lets a later definition override this one. Required projects and variables are merged.
    pub fn apply(&mut self, later: &Self) {
        fn set<T: Clone>(slot: &mut Option<T>, later: &Option<T>) {
            if later.is_some() {
                slot.clone_from(later);
            }
        }
        set(&mut self.run, &later.run);
        set(&mut self.is_voting, &later.is_voting);
        set(&mut self.timeout_s, &later.timeout_s);
        set(&mut self.attempts, &later.attempts);
        set(&mut self.dependencies, &later.dependencies);
        set(&mut self.files, &later.files);
        set(&mut self.irrelevant_files, &later.irrelevant_files);
        // Within one job, what is abstract stays abstract. What is final stays final everywhere: otherwise whoever may
        // write a variant could undo it and then change what is executed.
        for (slot, later) in
            [(&mut self.is_abstract, later.is_abstract), (&mut self.is_final, later.is_final)]
        {
            if later == Some(true) {
                *slot = Some(true);
            }
        }
        for project in &later.required_projects {
            if !self.required_projects.contains(project) {
                self.required_projects.push(project.clone());
            }
        }
        merge_vars(&mut self.vars, &later.vars);
    }

    /// Whether it sets what a final job does not allow to change: what is executed, rather than when.
    pub fn changes_execution(&self) -> bool {
        self.run.is_some()
            || self.timeout_s.is_some()
            || self.attempts.is_some()
            || !self.required_projects.is_empty()
            || !self.vars.is_empty()
    }

    /// Whether a change of these files runs the job. Without a list of files it does.
    pub fn matches_files(&self, files: Option<&[String]>) -> bool {
        /// Gerrit's name for the commit message, which is no file of the repository.
        const COMMIT_MESSAGE: &str = "/COMMIT_MSG";
        let files: Vec<&str> = files
            .unwrap_or_default()
            .iter()
            .map(String::as_str)
            .filter(|file| *file != COMMIT_MESSAGE)
            .collect();
        if files.is_empty() {
            return true;
        }
        let is_match =
            |patterns: &[Pattern], file: &str| patterns.iter().any(|pattern| pattern.matches(file));
        let is_relevant =
            self.files.as_ref().is_none_or(|patterns| files.iter().any(|file| is_match(patterns, file)));
        let is_irrelevant = self
            .irrelevant_files
            .as_ref()
            .is_some_and(|patterns| files.iter().all(|file| is_match(patterns, file)));
        is_relevant && !is_irrelevant
    }
}

/// Merges mappings key by key; other values are replaced. Files are at most 64 levels deep, so this may recurse.
pub(super) fn merge_vars(into: &mut Map<String, Json>, from: &Map<String, Json>) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(Json::Object(old)), Json::Object(new)) => merge_vars(old, new),
            (Some(old), _) => old.clone_from(value),
            (None, _) => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

/// One definition of a job.
#[derive(Debug, Clone)]
pub(super) struct JobDefinition {
    pub name: String,
    pub position: Position,
    pub parent: Parent,
    pub branches: BranchMatcher,
    pub settings: Settings,
}

impl JobDefinition {
    /// Reads a `job` object.
    pub fn read(node: &Node, position: Position, implied: BranchMatcher) -> Result<Self, Fault> {
        let mut fields = Fields::new("a job", node)?;
        let name = fields.name("job")?;
        let parent = match fields.entry("parent").map(|entry| &entry.node) {
            None => Parent::Default,
            Some(Node { value: Value::Null, .. }) => Parent::Nothing,
            Some(node) => Parent::Job(fields::text(&format!("`parent` of job `{name}`"), node)?),
        };
        let (branches, settings) = read_attributes(fields, &position.origin)?;
        let branches = branches.map_or(implied, BranchMatcher::Explicit);
        Ok(Self { name, position, parent, branches, settings })
    }
}

/// A job of a pipeline, with the attributes that are set there. They are applied last.
#[derive(Debug, Clone)]
pub(super) struct JobVariant {
    pub name: String,
    pub position: Position,
    pub branches: BranchMatcher,
    pub settings: Settings,
}

impl JobVariant {
    /// Reads an item of `jobs`: a name, or a name with attributes.
    pub fn read(what: &str, node: &Node, origin: &Arc<Origin>) -> Result<Self, Fault> {
        let (name, attributes) = fields::named(&format!("an item of {what}"), node)?;
        names::check_object("job", &name, node.line)?;
        let (branches, settings) = match attributes {
            Some(node) => read_attributes(Fields::new(format!("job `{name}` in {what}"), node)?, origin)?,
            None => (None, Settings::default()),
        };
        Ok(Self {
            name,
            position: Position { origin: Arc::clone(origin), line: node.line },
            branches: branches.map_or(BranchMatcher::Any, BranchMatcher::Explicit),
            settings,
        })
    }
}

fn read_attributes(
    mut fields: Fields<'_>,
    origin: &Arc<Origin>,
) -> Result<(Option<Vec<Pattern>>, Settings), Fault> {
    let branches = fields.patterns("branches")?;
    let settings = Settings {
        is_abstract: fields.boolean("abstract")?,
        is_final: fields.boolean("final")?,
        run: read_run(&mut fields)?.map(|path| Run { path, origin: Arc::clone(origin) }),
        is_voting: fields.boolean("voting")?,
        timeout_s: fields.number("timeout", 1, u32::MAX)?,
        attempts: fields.number("attempts", 1, 1000)?,
        dependencies: read_dependencies(&mut fields)?,
        required_projects: read_required_projects(&mut fields)?,
        vars: fields.json("vars")?,
        files: fields.patterns("files")?,
        irrelevant_files: fields.patterns("irrelevant-files")?,
    };
    fields.text("description")?;
    fields.texts("tags")?;
    fields.finish(&LATER_IN_JOB)?;
    Ok((branches, settings))
}

fn read_run(fields: &mut Fields<'_>) -> Result<Option<String>, Fault> {
    let what = format!("`run` of {}", fields.what);
    let Some(node) = fields.node("run") else { return Ok(None) };
    let [item] = fields::items(node) else {
        let message = format!("{what} must name exactly one executable; several are not supported yet");
        return Err(Fault::at(node.line, message, "call the others from one script"));
    };
    let path = fields::text(&what, item)?;
    let is_inside = !path.is_empty()
        && !path.contains(['\\', '\0', '\n'])
        && path.split('/').all(|part| !part.is_empty() && part != "." && part != ".." && part != ".git");
    if is_inside {
        return Ok(Some(path));
    }
    let message = format!("{what} is {path:?}, which is no path inside the repository");
    Err(Fault::at(item.line, message, "write a path from the root of the repository, such as `ci/unit.sh`"))
}

fn read_dependencies(fields: &mut Fields<'_>) -> Result<Option<Vec<JobDependency>>, Fault> {
    let what = format!("`dependencies` of {}", fields.what);
    let Some(node) = fields.node("dependencies") else { return Ok(None) };
    let read = |item: &Node| match &item.value {
        Value::Map(_) => {
            let mut fields = Fields::new(format!("an item of {what}"), item)?;
            let Some(name) = fields.text("name")? else {
                return Err(Fault::at(
                    item.line,
                    format!("an item of {what} has no `name`"),
                    "add `name: JOB`",
                ));
            };
            let is_soft = fields.boolean("soft")?.unwrap_or(false);
            fields.finish(&[])?;
            Ok(JobDependency { name, is_soft })
        }
        _ => Ok(JobDependency { name: fields::text(&what, item)?, is_soft: false }),
    };
    fields::items(node).iter().map(read).collect::<Result<_, _>>().map(Some)
}

fn read_required_projects(fields: &mut Fields<'_>) -> Result<Vec<String>, Fault> {
    let what = format!("`required-projects` of {}", fields.what);
    let Some(node) = fields.node("required-projects") else { return Ok(Vec::new()) };
    let read = |item: &Node| match &item.value {
        Value::Map(_) => {
            let mut fields = Fields::new(format!("an item of {what}"), item)?;
            let Some(name) = fields.text("name")? else {
                return Err(Fault::at(
                    item.line,
                    format!("an item of {what} has no `name`"),
                    "add `name: PROJECT`",
                ));
            };
            fields.finish(&["override-checkout", "override-branch"])?;
            Ok(name)
        }
        _ => fields::text(&what, item),
    };
    fields::items(node).iter().map(read).collect()
}
