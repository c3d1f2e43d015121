//! What is known about changes and configuration. Pure.

use std::collections::{BTreeMap, BTreeSet};

use menagerie_znodes::pipelines::{Change, ChangeRecord, ConnectionRefs, ProjectRefs};

use crate::config::{Layout, Problem, SourceFile, Tenant};

/// The configuration of a tenant: its layout, and what it was made of.
#[derive(Debug, Clone)]
pub struct TenantConfig {
    id: String,
    tenant: Tenant,
    hosts: BTreeMap<String, String>,
    branches: BTreeMap<String, BTreeSet<String>>,
    files: Vec<SourceFile>,
    layout: Layout,
}

/// The configuration files of a branch, as a proposed change would have them.
#[derive(Debug, Clone)]
pub struct Overlay<'a> {
    /// The project.
    pub project: &'a str,
    /// The branch.
    pub branch: &'a str,
    /// All its files.
    pub files: &'a BTreeMap<String, String>,
}

impl TenantConfig {
    /// The configuration that these files mean.
    pub fn new(
        id: String,
        tenant: Tenant,
        hosts: BTreeMap<String, String>,
        branches: BTreeMap<String, BTreeSet<String>>,
        files: Vec<SourceFile>,
    ) -> Self {
        let layout = Layout::new(&tenant, &hosts, &branches, &files);
        Self { id, tenant, hosts, branches, files, layout }
    }

    /// Changes with the configuration.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The tenant, as the tenant file has it.
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// The layout as it is, without proposed changes.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The connection of a project, and the host in its canonical name.
    pub fn source(&self, project: &str) -> Option<(&str, &str)> {
        let connection = self.layout.project(project)?.connection.as_str();
        Some((connection, self.hosts.get(connection).map_or("", String::as_str)))
    }

    /// The layout with proposed changes. What a config project proposes holds only once it is merged.
    pub fn with(&self, overlays: &[Overlay<'_>]) -> Layout {
        let is_trusted = |overlay: &Overlay<'_>| {
            self.layout.project(overlay.project).is_some_and(|project| project.is_trusted)
        };
        let effective: Vec<Overlay<'_>> =
            overlays.iter().filter(|overlay| !is_trusted(overlay)).cloned().collect();
        self.layout_with(&effective)
    }

    /// What would be wrong if the last of these changes were merged, and is not because of those before it.
    pub fn problems_of_last(&self, overlays: &[Overlay<'_>]) -> Vec<Problem> {
        let Some((_, before)) = overlays.split_last() else { return Vec::new() };
        let before = self.layout_with(before);
        // Without the line: what was wrong before may have moved.
        let what = |problem: &Problem| {
            (problem.project.clone(), problem.branch.clone(), problem.path.clone(), problem.message.clone())
        };
        let known: BTreeSet<_> = before.problems().iter().map(what).collect();
        let after = self.layout_with(overlays);
        after.problems().iter().filter(|problem| !known.contains(&what(problem))).cloned().collect()
    }

    fn layout_with(&self, overlays: &[Overlay<'_>]) -> Layout {
        let is_read = |overlay: &&Overlay<'_>| {
            self.branches.get(overlay.project).is_some_and(|branches| branches.contains(overlay.branch))
        };
        // Of several for one branch, the last has them all.
        let last: BTreeMap<_, _> = overlays
            .iter()
            .filter(is_read)
            .map(|overlay| ((overlay.project, overlay.branch), overlay.files))
            .collect();
        let is_kept = |file: &&SourceFile| !last.contains_key(&(file.project.as_str(), file.branch.as_str()));
        let mut files: Vec<SourceFile> = self.files.iter().filter(is_kept).cloned().collect();
        for ((project, branch), texts) in &last {
            files.extend(texts.iter().map(|(path, text)| SourceFile {
                project: (*project).to_owned(),
                branch: (*branch).to_owned(),
                path: path.clone(),
                text: text.clone(),
            }));
        }
        Layout::new(&self.tenant, &self.hosts, &self.branches, &files)
    }
}

/// The refs and open changes of all connections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refs(pub BTreeMap<String, ConnectionRefs>);

impl Refs {
    /// What is known of a project.
    pub fn project(&self, connection: &str, project: &str) -> Option<&ProjectRefs> {
        self.0.get(connection)?.projects.get(project)
    }

    /// An open change.
    pub fn change(&self, connection: &str, change: &Change) -> Option<&ChangeRecord> {
        self.project(connection, &change.project)?.changes.get(&change.branch())
    }

    /// Whether a change was merged, and not proposed again since.
    pub fn is_merged(&self, connection: &str, change: &Change) -> bool {
        let project = self.project(connection, &change.project);
        project.is_some_and(|project| {
            project.refs.contains_key(&change.merged_ref()) && !project.changes.contains_key(&change.branch())
        })
    }

    /// Whether a project has this branch.
    pub fn has_branch(&self, connection: &str, project: &str, branch: &str) -> bool {
        let project = self.project(connection, project);
        project.is_some_and(|project| project.refs.contains_key(&format!("refs/heads/{branch}")))
    }

    /// The branches of a project that are no proposals.
    pub fn branches(&self, connection: &str, project: &str) -> BTreeSet<String> {
        let refs = self.project(connection, project).map(|project| &project.refs);
        refs.into_iter().flatten().filter_map(|(name, _)| branch_of(name)).map(str::to_owned).collect()
    }

    /// All open changes of a connection.
    pub fn open(&self, connection: &str) -> impl Iterator<Item = &ChangeRecord> {
        self.0
            .get(connection)
            .into_iter()
            .flat_map(|refs| refs.projects.values())
            .flat_map(|p| p.changes.values())
    }
}

/// The branch that a ref is, unless it is a proposal.
pub fn branch_of(reference: &str) -> Option<&str> {
    reference.strip_prefix("refs/heads/").filter(|branch| !branch.starts_with("propose/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tenants;

    const PIPELINES: &str = "- pipeline: {name: check, manager: independent}\n";
    const JOBS: &str = "- job: {name: unit, run: unit.sh}\n- project: {check: {jobs: [unit]}}\n";

    fn config() -> TenantConfig {
        let text =
            "- tenant: {name: main, source: {local: {config-projects: [config], untrusted-projects: [app]}}}";
        let file = |project: &str, text: &str| SourceFile {
            project: project.to_owned(),
            branch: "main".to_owned(),
            path: "zuul.yaml".to_owned(),
            text: text.to_owned(),
        };
        let main = || BTreeSet::from(["main".to_owned()]);
        TenantConfig::new(
            "1".to_owned(),
            tenants(text).unwrap().remove(0),
            BTreeMap::from([("local".to_owned(), "localhost".to_owned())]),
            BTreeMap::from([("config".to_owned(), main()), ("app".to_owned(), main())]),
            vec![file("config", PIPELINES), file("app", JOBS)],
        )
    }

    #[test]
    fn what_a_config_project_proposes_is_checked_and_has_no_effect_before_it_is_merged() {
        let config = config();
        assert!(config.layout().problems().is_empty(), "{:?}", config.layout().problems());
        let broken =
            BTreeMap::from([("zuul.yaml".to_owned(), "- pipeline: {name: check, manger: x}\n".to_owned())]);
        let overlays = [Overlay { project: "config", branch: "main", files: &broken }];
        assert_eq!(config.problems_of_last(&overlays).len(), 1);
        assert!(config.with(&overlays).pipeline("check").is_some());
    }

    #[test]
    fn a_change_answers_for_its_own_mistakes_and_not_for_those_ahead_of_it() {
        let config = config();
        let broken =
            BTreeMap::from([("zuul.yaml".to_owned(), format!("{JOBS}- job: {{name: x, rum: y}}\n"))]);
        let moved =
            BTreeMap::from([("zuul.yaml".to_owned(), format!("\n{JOBS}- job: {{name: x, rum: y}}\n"))]);
        let overlay = |files| Overlay { project: "app", branch: "main", files };
        assert_eq!(config.problems_of_last(&[overlay(&broken)]).len(), 1);
        assert_eq!(config.problems_of_last(&[overlay(&broken), overlay(&moved)]), []);
        // A branch that is not read has no say.
        let elsewhere = Overlay { branch: "old", ..overlay(&broken) };
        assert_eq!(config.problems_of_last(&[elsewhere]), []);
    }
}
