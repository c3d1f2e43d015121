//! Reads the files of all projects into a layout.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::fields::{self, Fields};
use super::job::{BASE_JOB, BranchMatcher, JobDefinition, Parent};
use super::layout::{Layout, SharedQueue, config_place};
use super::names;
use super::pipeline_reader;
use super::problem::{Fault, Origin, Position, Problem, SourceFile};
use super::project::{self, ProjectStanza};
use super::tenant::{OBJECT_KINDS, Tenant, TenantProject};
use super::yaml::{self, Entry, Node, Value};

/// Branches that are taken for the default one, best first. It decides which definitions apply to tags.
const DEFAULT_BRANCHES: [&str; 2] = ["main", "master"];

/// Builds the layout; see [`Layout::new`].
pub(super) fn read(
    tenant: &Tenant,
    hosts: &BTreeMap<String, String>,
    branches: &BTreeMap<String, BTreeSet<String>>,
    files: &[SourceFile],
) -> Layout {
    let mut reader = Reader { layout: Layout::default(), hosts, contested: BTreeSet::new() };
    for project in &tenant.projects {
        reader.add_project(project);
    }
    for file in ordered(tenant, branches, files) {
        reader.read_file(&file);
    }
    reader.check_references();
    reader.layout
}

/// A file that is read, and what its project means for it.
struct ConfigFile<'a> {
    file: &'a SourceFile,
    project: &'a TenantProject,
    origin: Arc<Origin>,
    implied: BranchMatcher,
}

/// The files to read. Config projects come first, so that no other project can take the name of one of their objects;
/// then the tenant's order counts, the default branch comes before others, and paths are sorted.
fn ordered<'a>(
    tenant: &'a Tenant,
    branches: &BTreeMap<String, BTreeSet<String>>,
    files: &'a [SourceFile],
) -> Vec<ConfigFile<'a>> {
    let mut places: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for file in files {
        if let Some(place) = config_place(&file.path) {
            let best = places.entry((&file.project, &file.branch)).or_insert(place);
            *best = place.min(*best);
        }
    }
    let is_chosen = |file: &&SourceFile| {
        let place = config_place(&file.path);
        place.is_some() && place.as_ref() == places.get(&(file.project.as_str(), file.branch.as_str()))
    };
    let mut sorted = Vec::new();
    for file in files.iter().filter(is_chosen) {
        let found = tenant.projects.iter().enumerate().find(|(_, project)| project.name == file.project);
        let Some((index, project)) = found else { continue };
        let known = branches.get(&file.project);
        let is_default = default_branch(known).is_none_or(|branch| branch == file.branch);
        let implies_branch = !project.is_trusted && known.is_some_and(|branches| branches.len() > 1);
        let origin = Arc::new(Origin {
            project: file.project.clone(),
            branch: file.branch.clone(),
            path: file.path.clone(),
            is_trusted: project.is_trusted,
        });
        let implied = match implies_branch {
            true => BranchMatcher::Implied { branch: file.branch.clone(), is_default },
            false => BranchMatcher::Any,
        };
        let key = (!project.is_trusted, index, !is_default, &file.branch, &file.path);
        sorted.push((key, ConfigFile { file, project, origin, implied }));
    }
    sorted.sort_by_key(|(key, _)| *key);
    sorted.into_iter().map(|(_, file)| file).collect()
}

fn default_branch(branches: Option<&BTreeSet<String>>) -> Option<&str> {
    let branches = branches?;
    let usual = DEFAULT_BRANCHES.into_iter().find(|branch| branches.contains(*branch));
    usual.or_else(|| branches.first().map(String::as_str))
}

struct Reader<'a> {
    layout: Layout,
    hosts: &'a BTreeMap<String, String>,
    /// Names that two projects claim, with the kind of object and the later project: the earlier one is told once.
    contested: BTreeSet<(&'static str, String, String)>,
}

impl Reader<'_> {
    fn add_project(&mut self, project: &TenantProject) {
        match self.hosts.get(&project.connection) {
            Some(host) => {
                self.layout.canonical.insert(project.name.clone(), format!("{host}/{}", project.name));
            }
            None => self.layout.problems.push(Problem {
                project: Some(project.name.clone()),
                branch: None,
                path: None,
                line: None,
                message: format!("the connection `{}` of this project does not exist", project.connection),
                help: "correct the tenant file, or configure the connection".into(),
            }),
        }
        self.layout.projects.insert(project.name.clone(), project.clone());
    }

    fn read_file(&mut self, file: &ConfigFile<'_>) {
        let objects = match yaml::parse(&file.file.text) {
            Ok(Node { value: Value::Null, .. }) => Vec::new(),
            Ok(Node { value: Value::List(objects), .. }) => objects,
            Ok(node) => {
                let fault = fields::expected("the file", "a list of objects such as `- job: ...`", &node);
                return self.layout.problems.push(file.origin.problem(fault));
            }
            Err(fault) => return self.layout.problems.push(file.origin.problem(fault)),
        };
        for object in &objects {
            if let Err(fault) = self.read_object(file, object) {
                self.layout.problems.push(file.origin.problem(fault));
            }
        }
    }

    fn read_object(&mut self, file: &ConfigFile<'_>, object: &Node) -> Result<(), Fault> {
        let entries = Fields::new("an object of the file", object)?.rest();
        let [entry] = entries.as_slice() else {
            let message =
                format!("an object of the file has {} keys where one is expected, its kind", entries.len());
            return Err(Fault::at(object.line, message, "write `- job:` and indent the attributes below it"));
        };
        let kind = entry.key.as_str();
        if file.project.loads.as_ref().is_some_and(|loads| !loads.contains(kind))
            && OBJECT_KINDS.contains(&kind)
        {
            return Ok(());
        }
        let position = Position { origin: Arc::clone(&file.origin), line: entry.line };
        match kind {
            "pipeline" => self.add_pipeline(position, entry),
            "queue" => self.add_queue(position, &entry.node),
            "job" => self.add_job(JobDefinition::read(&entry.node, position, file.implied.clone())?),
            "project" => {
                let resolve = |name: &str| self.layout.project(name).map(|project| project.name.clone());
                let stanza = ProjectStanza::read(&entry.node, position, file.implied.clone(), resolve)?;
                self.layout.stanzas.push(stanza);
                Ok(())
            }
            "project-template" => self.add_template(position, &entry.node, file.implied.clone()),
            later if OBJECT_KINDS.contains(&later) => {
                Err(Fault::unsupported(entry.line, format_args!("an object of the kind `{later}`")))
            }
            other => {
                let guess =
                    names::nearest(other, OBJECT_KINDS).map(|guess| format!("did you mean `{guess}`? "));
                let help =
                    format!("{}known kinds are {}", guess.unwrap_or_default(), OBJECT_KINDS[..5].join(", "));
                Err(Fault::at(entry.line, format!("`{other}` is no kind of object"), help))
            }
        }
    }

    fn add_pipeline(&mut self, position: Position, entry: &Entry) -> Result<(), Fault> {
        if !position.origin.is_trusted {
            let message = format!(
                "project `{}` may not define pipelines, as it is not trusted",
                position.origin.project
            );
            return Err(Fault::at(position.line, message, "move the pipeline to a config project"));
        }
        let (pipeline, notes) = match pipeline_reader::read_pipeline(&entry.node, self.hosts) {
            Ok(read) => read,
            Err(fault) => {
                let name = Fields::new("", &entry.node)
                    .ok()
                    .and_then(|mut fields| fields.text("name").ok().flatten());
                self.layout.broken_pipelines.extend(name);
                return Err(fault);
            }
        };
        if self.layout.pipeline(&pipeline.name).is_some() {
            let message =
                format!("pipeline `{}` is defined twice; the first definition counts", pipeline.name);
            return Err(Fault::at(position.line, message, "remove or rename one of them"));
        }
        self.layout.problems.extend(notes.into_iter().map(|note| position.origin.problem(note)));
        self.layout.pipelines.push(pipeline);
        Ok(())
    }

    fn add_queue(&mut self, position: Position, node: &Node) -> Result<(), Fault> {
        let mut fields = Fields::new("a queue", node)?;
        let name = fields.name("queue")?;
        fields.text("description")?;
        let is_per_branch = fields.boolean("per-branch")?.unwrap_or(false);
        fields.only("allow-circular-dependencies", false)?;
        fields.only("dependencies-by-topic", false)?;
        fields.finish(&["type"])?;
        let queue = SharedQueue { name: name.clone(), is_per_branch };
        match self.layout.queues.get(&name) {
            // A branched project has the same definition on each of its branches.
            Some(first) if *first == queue => Ok(()),
            Some(_) => {
                let message =
                    format!("queue `{name}` is defined twice, differently; the first definition counts");
                Err(Fault::at(position.line, message, "remove or rename one of them"))
            }
            None => {
                self.layout.queues.insert(name, queue);
                Ok(())
            }
        }
    }

    fn add_job(&mut self, job: JobDefinition) -> Result<(), Fault> {
        self.check_base(&job)?;
        let first = self.layout.jobs.get(&job.name).and_then(|definitions| definitions.first());
        let first = first.map(|first| first.position.clone());
        self.check_owner("job", &job.name, first, &job.position)?;
        self.layout.jobs.entry(job.name.clone()).or_default().push(job);
        Ok(())
    }

    /// Whether a job leaves the base job to config projects: it decides what jobs of others inherit, so an untrusted
    /// project may neither define it nor do without it. Without a trusted one there is nothing to evade.
    fn check_base(&self, job: &JobDefinition) -> Result<(), Fault> {
        let (project, line) = (&job.position.origin.project, job.position.line);
        if job.position.origin.is_trusted {
            return Ok(());
        }
        if job.name == BASE_JOB {
            let message =
                format!("project `{project}` may not define job `{BASE_JOB}`, as it is not trusted");
            return Err(Fault::at(line, message, "choose another name, or move the job to a config project"));
        }
        // Config projects are read first.
        if job.parent == Parent::Nothing && self.layout.jobs.contains_key(BASE_JOB) {
            let message = format!(
                "job `{}` may not have `parent: null`, as project `{project}` is not trusted",
                job.name
            );
            return Err(Fault::at(line, message, "remove `parent`, or move the job to a config project"));
        }
        Ok(())
    }

    fn add_template(&mut self, position: Position, node: &Node, implied: BranchMatcher) -> Result<(), Fault> {
        let (name, body) = project::read_template(node, position, implied)?;
        let first = self.layout.template(&name).first().map(|first| first.position.clone());
        self.check_owner("project-template", &name, first, &body.position)?;
        self.layout.templates.entry(name).or_default().push(body);
        Ok(())
    }

    /// Whether a further definition comes from the project that has the first one. If it does not, both projects are
    /// told, unless the first is a config project: nobody knows which of them had the name before, and whichever
    /// change brings the second definition has to be refused.
    fn check_owner(
        &mut self,
        kind: &'static str,
        name: &str,
        first: Option<Position>,
        new: &Position,
    ) -> Result<(), Fault> {
        let Some(first) = first.filter(|first| first.origin.project != new.origin.project) else {
            return Ok(());
        };
        let help = "choose another name; to adapt a job, let a new one inherit from it";
        let other = new.origin.project.clone();
        if first.origin.is_trusted == new.origin.is_trusted
            && self.contested.insert((kind, name.to_owned(), other.clone()))
        {
            // Without the line there: that changes with every edit, and would make this a new problem.
            let message =
                format!("{kind} `{name}` is defined by project `{other}`, too; this definition counts");
            self.layout.problems.push(first.problem(message, help));
        }
        Err(Fault::at(new.line, format!("{kind} `{name}` belongs to another project: {first}"), help))
    }

    /// Lists references to pipelines and queues that do not exist. The stanzas stay, as the rest of them is sound.
    fn check_references(&mut self) {
        let bodies: Vec<_> = self.layout.stanzas.iter().map(|stanza| &stanza.body).collect();
        let bodies = bodies.into_iter().chain(self.layout.templates.values().flatten());
        let mut problems = Vec::new();
        for body in bodies {
            for section in &body.sections {
                let name = &section.pipeline;
                if self.layout.pipeline(name).is_none() && !self.layout.broken_pipelines.contains(name) {
                    let known = self.layout.pipelines.iter().map(|pipeline| pipeline.name.as_str());
                    let help = match names::nearest(name, known.clone()) {
                        Some(guess) => format!("did you mean `{guess}`?"),
                        None => format!("known pipelines are {}", known.collect::<Vec<_>>().join(", ")),
                    };
                    let message = format!("there is no pipeline `{name}`; the rest of the stanza counts");
                    problems.push(body.position.origin.problem(Fault::at(section.line, message, help)));
                }
            }
            let queues =
                body.queue.iter().chain(body.sections.iter().filter_map(|section| section.queue.as_ref()));
            for name in queues.filter(|name| !self.layout.queues.contains_key(*name)) {
                let message = format!("there is no queue `{name}`; the project has a queue of its own");
                problems.push(body.position.problem(message, format!("add `- queue: {{name: {name}}}`")));
            }
        }
        self.layout.problems.extend(problems);
    }
}
