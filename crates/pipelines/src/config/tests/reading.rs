//! Which files are read, and what becomes of mistakes in them.

use super::*;

#[test]
fn configuration_has_four_places() {
    let yes = ["zuul.yaml", ".zuul.yaml", "zuul.d/a.yaml", "zuul.d/a/b.yaml", ".zuul.d/x.yaml"];
    let no = ["a/zuul.yaml", "zuul.yml", "zuul.d", "zuul.d/README", "zuul.dx/a.yaml", "x.zuul.yaml"];
    assert!(yes.iter().all(|path| is_config_path(path)));
    assert!(!no.iter().any(|path| is_config_path(path)));
}

#[test]
fn first_existing_place_is_read_on_each_branch() {
    let job = |name: &str| format!("- job: {{name: {name}, run: x}}");
    let at = |branch: &str, path: &str, name: &str| SourceFile {
        path: path.to_owned(),
        ..file("org/app", branch, &job(name))
    };
    let layout = layout_of(&[
        at("main", ".zuul.yaml", "hidden"),
        at("main", "zuul.d/b.yaml", "b"),
        at("main", "zuul.d/a.yaml", "a"),
        at("stable", ".zuul.yaml", "dotted"),
        at("stable", "README.md", "none"),
    ]);
    assert_eq!(layout.jobs.keys().collect::<Vec<_>>(), ["a", "b", "dotted"]);
    assert_eq!(messages(&layout), [""; 0]);
}

#[test]
fn mistakes_are_listed_with_their_line_and_hide_nothing_else() {
    let cases = [
        ("- job:\n    name: x\n    vting: false", "3: job `x` has the unknown key `vting`"),
        ("- job:\n    name: x\n    nodeset: big", "3: `nodeset` of job `x` is not supported yet"),
        ("- job:\n    name: x\n    run: ../evil", "3: `run` of job `x` is \"../evil\", which is no path"),
        ("- job:\n    name: x\n    run: [a, b]", "3: `run` of job `x` must name exactly one executable"),
        (
            "- job:\n    name: x\n    branches: '('",
            "3: `branches` of job `x` has the invalid regular expression `(`",
        ),
        (
            "- job:\n    name: x\n    voting: perhaps",
            "3: `voting` of job `x` must be `true` or `false`, not a text",
        ),
        ("- job: {run: x}", "1: a job has no `name`"),
        ("- job: {name: a/b}", "1: \"a/b\" cannot be the name of a job"),
        ("- secret: {name: x}", "1: an object of the kind `secret` is not supported yet"),
        ("- jobs: {name: x}", "1: `jobs` is no kind of object"),
        ("- job: {name: x}\n  queue: {name: x}", "1: an object of the file has 2 keys"),
        ("- just a text", "1: an object of the file must be a mapping of keys to values, not a text"),
        (
            "- queue: {name: q, allow-circular-dependencies: true}",
            "1: `allow-circular-dependencies: true` of queue `q`",
        ),
        (
            "- project: {name: org/app, check: {jobs: [a]}}",
            "1: project `org/lib` may not configure `org/app`",
        ),
        ("- project: {name: ^org, check: {jobs: [a]}}", "1: project `org/lib` may not configure `^org`"),
        ("- project:\n    chekc: {jobs: [a]}", "2: there is no pipeline `chekc`"),
        ("- project:\n    queue: nowhere", "1: there is no queue `nowhere`"),
        (
            "- project:\n    check: {fail-fast: true}",
            "2: `fail-fast: true` of pipeline `check` in the stanza",
        ),
        (
            "- project:\n    merge-mode: squash-merge",
            "2: `merge-mode` of the stanza of project `org/lib` is not",
        ),
    ];
    for (text, message) in cases {
        let layout =
            layout_of(&[file("org/lib", "main", &format!("{text}\n- job: {{name: sound, run: x}}"))]);
        let messages = messages(&layout);
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].starts_with(&format!("org/lib@main zuul.yaml:{message}")), "{messages:?}");
        assert!(!layout.problems()[0].help.is_empty());
        assert!(layout.jobs.contains_key("sound"));
    }
}

#[test]
fn misspelt_keys_get_a_hint() {
    let layout = layout_of(&[file("org/lib", "main", "- job: {name: x, irelevant_files: a}")]);
    assert!(
        layout.problems()[0].help.starts_with("did you mean `irrelevant-files`? known keys are name, parent")
    );
}

#[test]
fn broken_yaml_leaves_out_the_file_only() {
    let bomb: String =
        (1..12).map(|i| format!("- &a{i} [{}]\n", vec![format!("*a{}", i - 1); 10].join(", "))).collect();
    let deep = format!("- {}", "[".repeat(1000));
    let bomb = format!("- &a0 [x]\n{bomb}");
    for text in
        ["- job:\n    name: x\n  bad", "a: [", "- job: {name: a, name: b}", "- *nobody", &deep, &bomb, "x: 1"]
    {
        let other = "- job: {name: sound, run: x}";
        let layout = layout_of(&[file("org/app", "main", text), file("org/lib", "main", other)]);
        assert_eq!(layout.problems().len(), 1, "{:?}", messages(&layout));
        assert!(messages(&layout)[0].starts_with("org/app@main zuul.yaml:"), "{:?}", messages(&layout));
        assert!(layout.jobs.contains_key("sound"));
    }
    let huge = "#".repeat((1 << 20) + 1);
    let layout = layout_of(&[file("org/app", "main", &huge)]);
    assert!(messages(&layout)[0].contains("the limit is"));
}

#[test]
fn names_belong_to_the_project_that_has_them_first() {
    let job = "- job: {name: x, run: a}";
    let layout = layout_of(&[file("org/app", "main", job), file("config", "main", job)]);
    assert_eq!(
        messages(&layout),
        ["org/app@main zuul.yaml:1: job `x` belongs to another project: config@main zuul.d/test.yaml:1"]
    );
    let pipeline = "- pipeline: {name: check, manager: dependent}";
    let layout = layout_of(&[file("config", "main", pipeline)]);
    assert!(messages(&layout)[0].contains("pipeline `check` is defined twice"));
    assert_eq!(layout.pipeline("check").unwrap().manager, Manager::Independent);
}

#[test]
fn a_name_that_two_untrusted_projects_define_is_a_problem_of_both() {
    let job = "- job: {name: x, run: a}\n- job: {name: x, attempts: 2}";
    let layout = layout_of(&[file("org/lib", "main", job), file("org/app", "main", job)]);
    let taken = "job `x` belongs to another project: org/app@main zuul.yaml:1";
    assert_eq!(
        messages(&layout),
        [
            "org/app@main zuul.yaml:1: job `x` is defined by project `org/lib`, too; this definition counts",
            &format!("org/lib@main zuul.yaml:1: {taken}"),
            &format!("org/lib@main zuul.yaml:2: {taken}"),
        ]
    );
    let template = "- project-template: {name: t}";
    let layout = layout_of(&[file("org/lib", "main", template), file("org/app", "main", template)]);
    let projects: Vec<_> = layout.problems().iter().map(|problem| problem.project.as_deref()).collect();
    assert_eq!(projects, [Some("org/app"), Some("org/lib")]);
}

#[test]
fn the_base_job_is_left_to_config_projects() {
    let layout = layout_of(&[file("org/lib", "main", "- job: {name: base, run: evil}")]);
    assert_eq!(
        messages(&layout),
        ["org/lib@main zuul.yaml:1: project `org/lib` may not define job `base`, as it is not trusted"]
    );
    let rootless = "- job: {name: x, parent: null, run: a}";
    assert_eq!(messages(&layout_of(&[file("org/lib", "main", rootless)])), [""; 0]);
    let layout = layout_of(&[
        file("org/lib", "main", rootless),
        file("config", "main", "- job: {name: base, run: a}"),
    ]);
    assert_eq!(
        messages(&layout),
        [
            "org/lib@main zuul.yaml:1: job `x` may not have `parent: null`, as project `org/lib` is not trusted"
        ]
    );
    assert!(!layout.jobs.contains_key("x"));
}

#[test]
fn excluded_kinds_are_not_read() {
    let text = TENANT.replace("org/lib]", "org/lib: {include: project}]");
    let tenant = tenants(&text).unwrap().remove(0);
    let hosts = BTreeMap::from([("gerrit".to_owned(), "h".to_owned())]);
    let files = [file("org/lib", "main", "- job: {name: x}\n- nodeset: {name: y}")];
    let layout = Layout::new(&tenant, &hosts, &BTreeMap::new(), &files);
    assert!(layout.jobs.is_empty());
    assert_eq!(messages(&layout), [""; 0]);
    let layout = Layout::new(&tenant, &BTreeMap::new(), &BTreeMap::new(), &[]);
    assert_eq!(messages(&layout)[0], "config: the connection `gerrit` of this project does not exist");
}

#[test]
fn projects_have_two_names() {
    let layout = layout_of(&[]);
    assert_eq!(layout.canonical("org/app").as_deref(), Some("review.example.org/org/app"));
    assert_eq!(layout.project("review.example.org/org/app").unwrap().name, "org/app");
    assert!(layout.project("app").is_none() && layout.canonical("app").is_none());
}
