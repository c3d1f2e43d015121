//! The tenant file: which projects a tenant has, and which of them are trusted.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::fields::{self, Fields};
use super::names;
use super::problem::{Fault, Problem};
use super::yaml::{self, Node, Value};

/// The kinds of objects a project's files may hold, including those that are not supported yet.
pub(super) const OBJECT_KINDS: [&str; 14] = [
    "pipeline",
    "queue",
    "job",
    "project",
    "project-template",
    "semaphore",
    "nodeset",
    "secret",
    "pragma",
    "image",
    "flavor",
    "label",
    "section",
    "provider",
];

const LATER_IN_FILE: [&str; 6] =
    ["global-semaphore", "admin-rule", "authorization-rule", "role", "api-root", "role-mapping"];

const LATER_IN_TENANT: [&str; 24] = [
    "max-dependencies",
    "max-changes-per-pipeline",
    "max-nodes-per-job",
    "max-job-timeout",
    "max-oidc-ttl",
    "default-oidc-ttl",
    "allowed-oidc-issuers",
    "exclude-unprotected-branches",
    "exclude-locked-branches",
    "default-parent",
    "default-ansible-version",
    "allowed-triggers",
    "allowed-reporters",
    "allowed-labels",
    "disallowed-labels",
    "report-build-page",
    "web-root",
    "admin-rules",
    "access-rules",
    "anonymous-read-access",
    "role-mappings",
    "authentication-realm",
    "semaphores",
    "use-nodepool",
];

const LATER_IN_PROJECT: [&str; 14] = [
    "load-branch",
    "allow-base-jobs",
    "include-provider-config",
    "shadow",
    "exclude-unprotected-branches",
    "exclude-locked-branches",
    "include-branches",
    "exclude-branches",
    "always-dynamic-branches",
    "implied-branch-matchers",
    "extra-config-paths",
    "allow-reporter-jobs",
    "configure-projects",
    "allow-circular-dependencies",
];

/// A tenant: a set of projects that are gated together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tenant {
    /// Letters, digits, `.`, `_` and `-`; never `.` or `..`.
    pub name: String,
    /// In the order of the file. No two have the same name.
    pub projects: Vec<TenantProject>,
}

/// A project of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TenantProject {
    /// The connection that serves the repository.
    pub connection: String,
    /// The plain name, without the host.
    pub name: String,
    /// Whether it is a config project: its configuration may define pipelines and configure other projects, and
    /// proposed changes to it take effect only after they have merged.
    pub is_trusted: bool,
    /// The kinds of objects that are read from its files; `None`: all that are allowed.
    pub loads: Option<BTreeSet<String>>,
}

/// Reads the tenant file. One mistake refuses the whole file: a tenant that silently misses a project would merge
/// changes untested.
pub fn tenants(text: &str) -> Result<Vec<Tenant>, Problem> {
    read_tenants(text).map_err(Fault::without_file)
}

fn read_tenants(text: &str) -> Result<Vec<Tenant>, Fault> {
    let root = yaml::parse(text)?;
    let objects: &[Node] = match &root.value {
        Value::Null => &[],
        Value::List(objects) => objects,
        _ => return Err(fields::expected("the tenant file", "a list of `- tenant: ...`", &root)),
    };
    let mut tenants: Vec<Tenant> = Vec::new();
    for object in objects {
        let mut fields = Fields::new("an object of the tenant file", object)?;
        let node = fields.entry("tenant").map(|entry| &entry.node);
        fields.finish(&LATER_IN_FILE)?;
        let Some(node) = node else {
            return Err(Fault::at(
                object.line,
                "an object of the tenant file is empty",
                "write `- tenant: ...`",
            ));
        };
        let tenant = read_tenant(node)?;
        if tenants.iter().any(|other| other.name == tenant.name) {
            let message = format!("tenant `{}` is defined twice", tenant.name);
            return Err(Fault::at(object.line, message, "merge the two, or rename one"));
        }
        tenants.push(tenant);
    }
    Ok(tenants)
}

fn read_tenant(node: &Node) -> Result<Tenant, Fault> {
    let mut fields = Fields::new("a tenant", node)?;
    let Some(name) = fields.text("name")? else {
        return Err(Fault::at(node.line, "a tenant has no `name`", "add `name: ...` to the tenant"));
    };
    names::check_tenant(&name, node.line)?;
    fields.what = format!("tenant `{name}`");
    let source = fields.node("source");
    let what = fields.what.clone();
    fields.finish(&LATER_IN_TENANT)?;
    let Some(source) = source else {
        let help = "add `source: {CONNECTION: {untrusted-projects: [...]}}`";
        return Err(Fault::at(node.line, format!("{what} has no `source`"), help));
    };
    let mut projects = ProjectList::default();
    for entry in Fields::new(format!("`source` of {what}"), source)?.rest() {
        let what = format!("connection `{}` of {what}", entry.key);
        let mut fields = Fields::new(what, &entry.node)?;
        for (key, is_trusted) in [("config-projects", true), ("untrusted-projects", false)] {
            let Some(list) = fields.node(key) else { continue };
            for item in fields::items(list) {
                projects.add_entry(&entry.key, is_trusted, item)?;
            }
        }
        fields.finish(&[])?;
    }
    Ok(Tenant { name, projects: projects.projects })
}

/// The projects read so far, and the line of each.
#[derive(Default)]
struct ProjectList {
    projects: Vec<TenantProject>,
    lines: BTreeMap<String, u32>,
}

impl ProjectList {
    /// Adds a name, a name with attributes, or a group of projects with common attributes.
    fn add_entry(&mut self, connection: &str, is_trusted: bool, item: &Node) -> Result<(), Fault> {
        let Some(group) = group_of(item) else {
            let (name, attributes) = fields::named("a project of the tenant", item)?;
            let loads = attributes.map(|node| read_project_attributes(&name, node)).transpose()?.flatten();
            return self.add(connection, is_trusted, name, loads, item.line);
        };
        let mut fields = Fields::new("a group of projects", item)?;
        fields.node("projects");
        let common = read_loads(&mut fields)?;
        fields.finish(&LATER_IN_PROJECT)?;
        for member in fields::items(group) {
            let (name, attributes) = fields::named("a project of a group", member)?;
            let own = attributes.map(|node| read_project_attributes(&name, node)).transpose()?.flatten();
            self.add(connection, is_trusted, name, own.or_else(|| common.clone()), member.line)?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        connection: &str,
        is_trusted: bool,
        name: String,
        loads: Option<BTreeSet<String>>,
        line: u32,
    ) -> Result<(), Fault> {
        names::check_project(&name, line)?;
        if let Some(first) = self.lines.insert(name.clone(), line) {
            let message = format!("project `{name}` is listed twice, first on line {first}");
            let help = "list it once; two connections of a tenant cannot have projects of the same name";
            return Err(Fault::at(line, message, help));
        }
        self.projects.push(TenantProject { connection: connection.to_owned(), name, is_trusted, loads });
        Ok(())
    }
}

/// The members of a group. A project named `projects` would have a mapping or nothing there, not a list.
fn group_of(item: &Node) -> Option<&Node> {
    let Value::Map(entries) = &item.value else { return None };
    let entry = entries.iter().find(|entry| entry.key == "projects")?;
    matches!(entry.node.value, Value::List(_)).then_some(&entry.node)
}

fn read_project_attributes(name: &str, node: &Node) -> Result<Option<BTreeSet<String>>, Fault> {
    let mut fields = Fields::new(format!("project `{name}`"), node)?;
    let loads = read_loads(&mut fields)?;
    fields.finish(&LATER_IN_PROJECT)?;
    Ok(loads)
}

/// Reads `include` and `exclude`.
fn read_loads(fields: &mut Fields<'_>) -> Result<Option<BTreeSet<String>>, Fault> {
    let include = fields.texts("include")?;
    let exclude = fields.texts("exclude")?;
    for kind in include.iter().chain(&exclude).flatten() {
        if !OBJECT_KINDS.contains(&kind.as_str()) {
            let message =
                format!("{} includes or excludes `{kind}`, which is no kind of object", fields.what);
            return Err(Fault::at(
                fields.line,
                message,
                format!("known kinds are {}", OBJECT_KINDS.join(", ")),
            ));
        }
    }
    if include.is_none() && exclude.is_none() {
        return Ok(None);
    }
    let mut loads: BTreeSet<String> = match include {
        Some(include) => include.into_iter().collect(),
        None => OBJECT_KINDS.map(str::to_owned).into(),
    };
    for kind in exclude.into_iter().flatten() {
        loads.remove(&kind);
    }
    Ok(Some(loads))
}
