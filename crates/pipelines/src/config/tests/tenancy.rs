//! The tenant file.

use super::*;

fn project(entry: &str) -> Result<Vec<TenantProject>, Problem> {
    let text =
        format!("- tenant:\n    name: t\n    source:\n      git:\n        untrusted-projects:\n{entry}\n");
    tenants(&text).map(|mut tenants| tenants.remove(0).projects)
}

#[test]
fn projects_are_names_maps_or_groups() {
    let projects = project(
        "          - a/b\n          - c: {exclude: [secret, nodeset]}\n          - include: job\n            projects: [d, e: {include: [queue, project]}]",
    )
    .unwrap();
    let found: Vec<_> =
        projects.iter().map(|project| (project.name.as_str(), project.loads.clone())).collect();
    let kinds = |kinds: &[&str]| Some(kinds.iter().map(|kind| (*kind).to_owned()).collect::<BTreeSet<_>>());
    assert_eq!(found[0], ("a/b", None));
    assert_eq!(found[2], ("d", kinds(&["job"])));
    assert_eq!(found[3], ("e", kinds(&["queue", "project"])));
    let loads = found[1].1.as_ref().unwrap();
    assert!(loads.contains("job") && !loads.contains("secret") && !loads.contains("nodeset"));
}

#[test]
fn project_names_are_paths_git_can_serve() {
    for name in ["a", "a/b", "a+b~c/d_e.f", ".zuul", "a.gits"] {
        assert!(project(&format!("          - '{name}'")).is_ok(), "{name}");
    }
    for name in [
        "", "/a", "a/", "a//b", "..", "a/../b", "-a", "a/-b", "a.git", "a.git/b", "b.lock", "a b", "ä",
        "a\\b",
    ] {
        assert!(project(&format!("          - '{name}'")).is_err(), "{name}");
    }
}

#[test]
fn tenant_file_is_refused_with_a_line() {
    let cases = [
        ("- tenant: {name: ., source: {}}", "line 1: `.` cannot be the name of a tenant"),
        ("- tenant:\n    name: a\n    sorce: {}", "line 3: tenant `a` has the unknown key `sorce`"),
        (
            "- tenant:\n    name: a\n    max-job-timeout: 3\n    source: {}",
            "line 3: `max-job-timeout` of tenant `a` is not supported yet",
        ),
        ("- tenant:\n    name: a", "line 2: tenant `a` has no `source`"),
        (
            "- tenant: {name: a, source: {}}\n- tenant: {name: a, source: {}}",
            "line 2: tenant `a` is defined twice",
        ),
        ("- api-root: {}", "line 1: `api-root` of an object of the tenant file is not supported yet"),
        ("tenant: {}", "line 1: the tenant file must be a list of `- tenant: ...`, not a mapping"),
        (
            "- tenant:\n    name: a\n    source:\n      g: {config-projects: [x]}\n      h: {untrusted-projects: [x]}",
            "line 5: project `x` is listed twice, first on line 4",
        ),
        ("- tenant: [", "line 1: the file is not valid YAML"),
    ];
    for (text, message) in cases {
        let problem = tenants(text).unwrap_err();
        assert!(problem.to_string().starts_with(message), "{problem}");
        assert!(!problem.help.is_empty(), "{problem}");
    }
    assert_eq!(tenants("# nobody yet\n"), Ok(vec![]));
}
