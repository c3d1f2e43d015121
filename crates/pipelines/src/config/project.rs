//! Project stanzas and templates: which jobs run in which pipeline.

use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::fields::{self, Fields};
use super::job::{BranchMatcher, JobVariant};
use super::pattern::Pattern;
use super::problem::{Fault, Origin, Position};
use super::yaml::{Entry, Node};

const LATER_IN_PROJECT: [&str; 2] = ["default-branch", "merge-mode"];
const LATER_IN_SECTION: [&str; 1] = ["parameters"];

/// The projects that a stanza configures.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// A plain name.
    Name(String),
    /// All names that match, plain or canonical.
    Matching(Pattern),
}

/// A `project` object.
#[derive(Debug, Clone)]
pub(super) struct ProjectStanza {
    pub target: Target,
    pub templates: Vec<String>,
    pub body: StanzaBody,
}

/// What a `project` and a `project-template` have in common.
#[derive(Debug, Clone)]
pub(super) struct StanzaBody {
    pub position: Position,
    pub branches: BranchMatcher,
    pub queue: Option<String>,
    pub vars: Map<String, Json>,
    pub sections: Vec<PipelineSection>,
}

/// The jobs of one pipeline.
#[derive(Debug, Clone)]
pub(super) struct PipelineSection {
    pub pipeline: String,
    pub line: u32,
    pub queue: Option<String>,
    pub jobs: Vec<JobVariant>,
}

impl StanzaBody {
    /// The section of a pipeline.
    pub fn section(&self, pipeline: &str) -> Option<&PipelineSection> {
        self.sections.iter().find(|section| section.pipeline == pipeline)
    }

    fn read(mut fields: Fields<'_>, position: Position, implied: BranchMatcher) -> Result<Self, Fault> {
        let queue = fields.text("queue")?;
        let vars = fields.json("vars")?;
        fields.text("description")?;
        let mut sections = Vec::new();
        for entry in fields.rest() {
            if LATER_IN_PROJECT.contains(&entry.key.as_str()) {
                return Err(fields.refuse(entry, &LATER_IN_PROJECT));
            }
            sections.push(read_section(&fields.what, entry, &position.origin)?);
        }
        Ok(Self { position, branches: implied, queue, vars, sections })
    }
}

impl ProjectStanza {
    /// Reads a `project` object. `resolve` turns a plain or canonical name into the plain one, if the tenant has it.
    pub fn read(
        node: &Node,
        position: Position,
        implied: BranchMatcher,
        resolve: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Fault> {
        let mut fields = Fields::new("a project stanza", node)?;
        let origin = Arc::clone(&position.origin);
        let name = fields.text("name")?;
        fields.what = format!("the stanza of project `{}`", name.as_deref().unwrap_or(&origin.project));
        let target = read_target(name, &origin, node.line, resolve)?;
        let templates = fields.texts("templates")?.unwrap_or_default();
        let branches = fields.patterns("branches")?.map_or(implied, BranchMatcher::Explicit);
        Ok(Self { target, templates, body: StanzaBody::read(fields, position, branches)? })
    }
}

/// Reads a `project-template` object: its name and its body.
pub(super) fn read_template(
    node: &Node,
    position: Position,
    implied: BranchMatcher,
) -> Result<(String, StanzaBody), Fault> {
    let mut fields = Fields::new("a project template", node)?;
    let name = fields.name("project-template")?;
    Ok((name, StanzaBody::read(fields, position, implied)?))
}

fn read_target(
    name: Option<String>,
    origin: &Origin,
    line: u32,
    resolve: impl Fn(&str) -> Option<String>,
) -> Result<Target, Fault> {
    let Some(name) = name else { return Ok(Target::Name(origin.project.clone())) };
    let is_own = resolve(&name).is_some_and(|plain| plain == origin.project);
    if !is_own && !origin.is_trusted {
        let message =
            format!("project `{}` may not configure `{name}`, because it is not trusted", origin.project);
        return Err(Fault::at(line, message, "leave out `name`, or move the stanza to a config project"));
    }
    if name.starts_with('^') {
        return Pattern::new("the name of a project stanza", &name, line).map(Target::Matching);
    }
    match resolve(&name) {
        Some(plain) => Ok(Target::Name(plain)),
        None => {
            let message = format!("the tenant has no project `{name}`");
            Err(Fault::at(line, message, "correct the name, or add the project to the tenant file"))
        }
    }
}

fn read_section(what: &str, entry: &Entry, origin: &Arc<Origin>) -> Result<PipelineSection, Fault> {
    let what = format!("pipeline `{}` in {what}", entry.key);
    let mut fields = Fields::new(what.clone(), &entry.node)?;
    let queue = fields.text("queue")?;
    // Only adds explanations to reports.
    fields.boolean("debug")?;
    let jobs = match fields.node("jobs") {
        Some(node) => fields::items(node)
            .iter()
            .map(|item| JobVariant::read(&what, item, origin))
            .collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    fields.only("fail-fast", false)?;
    fields.finish(&LATER_IN_SECTION)?;
    Ok(PipelineSection { pipeline: entry.key.clone(), line: entry.line, queue, jobs })
}
