//! Which jobs an item runs, and with which attributes.

use super::*;
use menagerie_znodes::pipelines::JobDependency;
use serde_json::json;

/// Files of `config` and of `org/app` on `main`.
fn layout(config: &str, app: &str) -> Layout {
    let layout = layout_of(&[file("config", "main", config), file("org/app", "main", app)]);
    assert_eq!(messages(&layout), [""; 0]);
    layout
}

#[test]
fn child_overrides_parent_and_merges_collections() {
    let layout = layout(
        "
- job: {name: base, parent: null, abstract: true, run: ci/base, timeout: 60, vars: {a: 1, deep: {x: 1, y: 1}}}
- job:
    name: unit
    voting: false
    attempts: 5
    required-projects: [org/lib]
    vars: {b: 2, deep: {y: 2}}
",
        "
- job:
    name: unit-app
    parent: unit
    run: [ci/unit.sh]
    required-projects: [{name: review.example.org/config}, org/lib]
    vars: {deep: {z: 3}}
- project:
    vars: {a: 0, c: project}
    check:
      jobs:
        - unit
        - unit-app: {timeout: 7, vars: {b: stanza}}
",
    );
    let jobs = check(&layout).unwrap();
    assert_eq!(names(&jobs), ["unit", "unit-app"]);
    let [unit, app] = jobs.as_slice() else { panic!("two jobs") };
    assert_eq!((unit.run.as_str(), unit.project.as_str(), unit.is_trusted), ("ci/base", "config", true));
    assert_eq!((unit.timeout_s, unit.attempts, unit.is_voting), (60, 5, false));
    assert_eq!(json!(unit.vars), json!({"a": 1, "b": 2, "c": "project", "deep": {"x": 1, "y": 2}}));
    assert_eq!((app.run.as_str(), app.project.as_str(), app.is_trusted), ("ci/unit.sh", "org/app", false));
    assert_eq!((app.branch.as_str(), app.timeout_s, app.is_voting), ("main", 7, false));
    assert_eq!(app.required_projects, ["org/lib", "config"]);
    assert_eq!(
        json!(app.vars),
        json!({"a": 1, "b": "stanza", "c": "project", "deep": {"x": 1, "y": 2, "z": 3}})
    );
}

#[test]
fn defaults_are_those_of_the_manual() {
    let layout = layout("", "- job: {name: x, run: a}\n- project: {check: {jobs: [x]}}");
    let job = check(&layout).unwrap().remove(0);
    assert_eq!((job.timeout_s, job.attempts, job.is_voting), (1800, 3, true));
}

#[test]
fn without_a_trusted_base_job_there_is_no_parent() {
    let evil = file("org/lib", "main", "- job: {name: base, run: evil, vars: {evil: true}}");
    let own = file("org/app", "main", "- job: {name: x, run: a}\n- project: {check: {jobs: [x]}}");
    let job = check(&layout_of(&[evil, own])).unwrap().remove(0);
    assert_eq!((job.run.as_str(), job.vars.is_empty()), ("a", true));
}

#[test]
fn branched_projects_imply_their_branch() {
    let text = |n: u32| {
        format!(
            "- job: {{name: x, run: run{n}, timeout: {n}}}\n- project: {{check: {{jobs: [x]}}, gate: {{jobs: [x]}}}}"
        )
    };
    let stable = text(2).replace(", gate: {jobs: [x]}", "");
    let layout = layout_of(&[file("org/app", "stable", &stable), file("org/app", "main", &text(1))]);
    let run = |branch| {
        let jobs = layout.freeze("check", &on_branch("org/app", branch)).unwrap();
        jobs.into_iter().map(|job| (job.run, job.branch, job.timeout_s)).collect::<Vec<_>>()
    };
    assert_eq!(run("main"), [("run1".to_owned(), "main".to_owned(), 1)]);
    assert_eq!(run("stable"), [("run2".to_owned(), "stable".to_owned(), 2)]);
    assert_eq!(run("other"), []);
    assert_eq!(layout.freeze("gate", &on_branch("org/app", "stable")), Ok(vec![]));
    assert!(layout.is_in_pipeline("org/app", "gate") && !layout.is_in_pipeline("org/app", "post"));
    // Tags get the definitions of the default branch.
    let tag = Subject { project: "org/app", branch: None, reference: "refs/tags/1", files: None };
    assert_eq!(layout.freeze("check", &tag).unwrap()[0].run, "run1");
}

#[test]
fn projects_with_one_branch_imply_none() {
    let layout =
        layout_of(&[file("org/lib", "main", "- job: {name: x, run: a}\n- project: {check: {jobs: [x]}}")]);
    assert_eq!(layout.freeze("check", &on_branch("org/lib", "new")).unwrap().len(), 1);
}

#[test]
fn variants_apply_to_the_branches_they_name() {
    let layout = layout(
        "
- job: {name: x, run: a, timeout: 1}
- job: {name: x, branches: ^stable, timeout: 2}
- job: {name: x, branches: {regex: ^stable, negate: true}, attempts: 9}
- job: {name: only-stable, run: a, branches: [stable]}
- project:
    name: ^org/.*
    check: {jobs: [x, only-stable, y: {branches: main}]}
- job: {name: y, parent: x, voting: false}
",
        "",
    );
    let run = |branch| {
        let jobs = layout.freeze("check", &on_branch("org/lib", branch)).unwrap();
        jobs.into_iter().map(|job| (job.name, job.timeout_s, job.attempts)).collect::<Vec<_>>()
    };
    assert_eq!(run("main"), [("x".to_owned(), 1, 9), ("y".to_owned(), 1, 9)]);
    assert_eq!(run("stable/1"), [("x".to_owned(), 2, 3), ("only-stable".to_owned(), 1800, 3)]);
    assert!(layout.is_in_pipeline("org/app", "check") && !layout.is_in_pipeline("config", "check"));
}

#[test]
fn file_matchers_choose_jobs_by_changed_files() {
    let layout = layout(
        "",
        "
- job: {name: docs, run: a, files: ['docs/', '.*\\.md$']}
- job: {name: code, run: a, irrelevant-files: ^docs/}
- job: {name: inherits, parent: docs}
- job: {name: overrides, parent: docs, files: src/}
- project: {check: {jobs: [docs, code, inherits, overrides]}}
",
    );
    let all = ["docs", "code", "inherits", "overrides"];
    let cases: [(Option<&[&str]>, &[&str]); 7] = [
        (None, &all),
        (Some(&[]), &all),
        (Some(&["/COMMIT_MSG"]), &all),
        (Some(&["docs/a", "/COMMIT_MSG"]), &["docs", "inherits"]),
        (Some(&["src/docs/a"]), &["code", "overrides"]),
        (Some(&["docs/a", "src/a"]), &all),
        (Some(&["x/README.md"]), &["docs", "code", "inherits"]),
    ];
    for (files, expected) in cases {
        let files: Option<Vec<String>> =
            files.map(|files| files.iter().map(|file| (*file).to_owned()).collect());
        let subject = Subject { files: files.as_deref(), ..on_branch("org/app", "main") };
        assert_eq!(names(&layout.freeze("check", &subject).unwrap()), expected, "{files:?}");
    }
}

#[test]
fn dependencies_are_replaced_and_soft_ones_may_be_missing() {
    let layout = layout(
        "",
        "
- job: {name: a, run: x}
- job: {name: b, run: x, dependencies: a}
- job: {name: c, parent: b, dependencies: [{name: nowhere, soft: true}, {name: b, soft: true}]}
- project: {check: {jobs: [c, b, a]}}
",
    );
    let jobs = check(&layout).unwrap();
    assert_eq!(names(&jobs), ["c", "b", "a"]);
    assert_eq!(jobs[0].dependencies, [JobDependency { name: "b".to_owned(), is_soft: true }]);
    assert_eq!(jobs[1].dependencies, [JobDependency { name: "a".to_owned(), is_soft: false }]);
}

#[test]
fn what_cannot_run_is_a_configuration_error() {
    let cases = [
        ("", "- nowhere", "there is no job `nowhere`"),
        ("- job: {name: x, parent: nowhere}", "- x", "there is no job `nowhere`"),
        ("- job: {name: x, abstract: true, run: a}", "- x", "job `x` is abstract"),
        ("- job: {name: x}", "- x", "job `x` has nothing to run"),
        (
            "- job: {name: x, parent: y}\n- job: {name: y, parent: x}",
            "- x",
            "job `x` inherits from itself: x -> y -> x",
        ),
        ("- job: {name: x, run: a, dependencies: x}", "- x", "jobs depend on each other in a loop: `x`"),
        (
            "- job: {name: x, run: a, dependencies: y}\n- job: {name: y, run: a, dependencies: x}\n- job: {name: z, run: a}",
            "- x\n        - y\n        - z",
            "jobs depend on each other in a loop: `x`, `y`",
        ),
        ("- job: {name: x, run: a, dependencies: y}", "- x", "job `x` depends on `y`, which was not run"),
        (
            "- job: {name: x, run: a, dependencies: y}\n- job: {name: y, run: a, branches: stable}",
            "- x\n        - y",
            "job `x` depends on `y`, which was not run",
        ),
        (
            "- job: {name: x, run: a, required-projects: [org/gone]}",
            "- x",
            "job `x` requires the project `org/gone`",
        ),
        (
            "- job: {name: y, run: a, final: true}\n- job: {name: x, parent: y}",
            "- x",
            "inherits from `y`, which is final",
        ),
        ("- job: {name: x, run: a, final: true}", "- x: {vars: {a: 1}}", "job `x` is final"),
        (
            "- job: {name: x, run: a, final: true}\n- job: {name: x, final: false}",
            "- x: {run: b}",
            "job `x` is final",
        ),
        (
            "- job: {name: x, run: a, final: true}",
            "- x: {final: false}\n        - x: {run: b}",
            "job `x` is final",
        ),
        (
            "- job: {name: y, run: a, final: true}\n- job: {name: y, final: false}\n- job: {name: x, parent: y}",
            "- x",
            "inherits from `y`, which is final",
        ),
    ];
    for (objects, jobs, message) in cases {
        let text = format!("{objects}\n- project:\n    check:\n      jobs:\n        {jobs}\n");
        let problem = check(&layout("", &text)).unwrap_err();
        assert!(problem.message.contains(message), "{problem}");
        assert_eq!(problem.project.as_deref(), Some("org/app"));
        assert!(problem.line.is_some() && !problem.help.is_empty());
    }
    let problem = check(&layout("", "- project: {templates: [t]}")).unwrap_err();
    assert_eq!(problem.to_string(), "org/app@main zuul.yaml:1: there is no project-template `t`");
}

#[test]
fn parents_that_do_not_exist_on_a_branch_leave_the_job_out() {
    let layout = layout(
        "- job: {name: old, run: a, branches: stable}\n- job: {name: x, parent: old}",
        "- project: {check: {jobs: [x]}}",
    );
    assert_eq!(check(&layout), Ok(vec![]));
}

#[test]
fn templates_come_before_the_stanza() {
    let layout = layout(
        "
- project-template: {name: t, vars: {a: template, b: template}, check: {jobs: [x: {timeout: 1, attempts: 1}]}}
- job: {name: x, run: a}
- job: {name: y, run: a}
",
        "- project: {templates: [t], vars: {b: project}, check: {jobs: [y, x: {timeout: 2}]}}",
    );
    let jobs = check(&layout).unwrap();
    assert_eq!(names(&jobs), ["x", "y"]);
    assert_eq!((jobs[0].timeout_s, jobs[0].attempts), (2, 1));
    assert_eq!(json!(jobs[1].vars), json!({"a": "template", "b": "project"}));
    assert!(layout.is_in_pipeline("org/app", "check") && !layout.is_in_pipeline("org/lib", "check"));
}

#[test]
fn queues_are_shared_by_name() {
    let layout = layout(
        "
- queue: {name: all, description: everything}
- queue: {name: each, per-branch: true}
- project: {name: org/lib, queue: each}
",
        "- project: {gate: {queue: all, jobs: []}}",
    );
    let queue = |name: &str, is_per_branch| Some(SharedQueue { name: name.to_owned(), is_per_branch });
    assert_eq!(layout.shared_queue("org/app", "main"), queue("all", false));
    assert_eq!(layout.shared_queue("org/app", "stable"), None);
    assert_eq!(layout.shared_queue("org/lib", "any"), queue("each", true));
    assert_eq!(layout.shared_queue("config", "main"), None);
}
