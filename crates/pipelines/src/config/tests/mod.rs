//! Tests of the whole module through its public face.

mod freezing;
mod pipelines;
mod reading;
mod tenancy;

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use menagerie_znodes::pipelines::FrozenJob;

/// A tenant with the config project `config` and the untrusted projects `org/app` and `org/lib`.
const TENANT: &str = "
- tenant:
    name: acme
    source:
      gerrit:
        config-projects: [config]
        untrusted-projects: [org/app, org/lib]
";

/// Zuul's usual three pipelines.
const PIPELINES: &str = "
- pipeline:
    name: check
    manager: independent
    trigger:
      gerrit:
        - event: patchset-created
        - event: comment-added
          comment: (?i)^(Patch Set [0-9]+:)?( [\\w\\\\+-]*)*(\\n\\n)?\\s*recheck
    success: {gerrit: {Verified: 1}}
    failure: {gerrit: {Verified: -1}}
- pipeline:
    name: gate
    manager: dependent
    precedence: high
    require:
      gerrit:
        open: true
        current-patchset: true
        approval:
          - Workflow: 1
          - Code-Review: 2
            username: ^ann$
    reject: {gerrit: {approval: [{Code-Review: -2}]}}
    trigger:
      gerrit:
        - event: comment-added
          approval:
            - Workflow: 1
    start: {gerrit: {Verified: 0}}
    success: {gerrit: {Verified: 2, submit: true}}
    failure: {gerrit: {Verified: -2, comment: false}}
    merge-failure: {gerrit: {Verified: -1}}
    window: 10
    window-floor: 2
    window-increase-type: exponential
    window-increase-factor: 2
- pipeline:
    name: post
    manager: independent
    precedence: low
    post-review: true
    trigger:
      gerrit:
        - event: ref-updated
          ref: ^refs/heads/.*$
";

fn file(project: &str, branch: &str, text: &str) -> SourceFile {
    SourceFile {
        project: project.to_owned(),
        branch: branch.to_owned(),
        path: "zuul.yaml".to_owned(),
        text: text.to_owned(),
    }
}

/// The layout of [`TENANT`] with [`PIPELINES`]. `org/app` has the branches `main` and `stable`, the others only `main`.
fn layout_of(files: &[SourceFile]) -> Layout {
    let tenant = tenants(TENANT).unwrap().remove(0);
    let hosts = BTreeMap::from([("gerrit".to_owned(), "review.example.org".to_owned())]);
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let branches = BTreeMap::from([
        ("config".to_owned(), set(&["main"])),
        ("org/app".to_owned(), set(&["main", "stable"])),
        ("org/lib".to_owned(), set(&["main"])),
    ]);
    let mut all =
        vec![SourceFile { path: "zuul.d/pipelines.yaml".to_owned(), ..file("config", "main", PIPELINES) }];
    // The config project keeps its pipelines beside what a test adds.
    all.extend(files.iter().cloned().map(|mut file| {
        if file.project == "config" && file.path == "zuul.yaml" {
            file.path = "zuul.d/test.yaml".to_owned();
        }
        file
    }));
    Layout::new(&tenant, &hosts, &branches, &all)
}

fn on_branch<'a>(project: &'a str, branch: &'a str) -> Subject<'a> {
    Subject { project, branch: Some(branch), reference: "refs/heads/x", files: None }
}

/// Freezes the check pipeline of `org/app` on `main`.
fn check(layout: &Layout) -> Result<Vec<FrozenJob>, Problem> {
    layout.freeze("check", &on_branch("org/app", "main"))
}

fn names(jobs: &[FrozenJob]) -> Vec<&str> {
    jobs.iter().map(|job| job.name.as_str()).collect()
}

/// The messages of all problems.
fn messages(layout: &Layout) -> Vec<String> {
    layout.problems().iter().map(ToString::to_string).collect()
}
