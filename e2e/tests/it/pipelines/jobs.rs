//! What the program of a job finds: its environment, the repositories at their speculative state, and what it may count on.

use std::collections::BTreeMap;

use menagerie_testkit::eventually;
use serde_json::{Value, json};

use super::site::Site;
use crate::cli::User;

/// Prints everything that a job is told. Lines of both outputs must stay in order.
const SHOW: &str = r#"#!/bin/sh
env | grep -E '^(ZUUL|MENAGERIE)_'
echo pwd=$(pwd)
echo error >&2
echo checked_out=$(git symbolic-ref --short HEAD)
echo head=$(git rev-parse HEAD)
echo origin=$(git rev-parse origin/main)
echo url=$(git remote get-url origin)
lib="$MENAGERIE_WORK/src/localhost/org/lib"
echo lib_head=$(git -C "$lib" rev-parse main)
echo lib_origin=$(git -C "$lib" rev-parse origin/main)
echo feature=$(cat "$lib/feature")
echo vars=$(cat "$MENAGERIE_VARS")
"#;

const APP_JOBS: &str = "
- job:
    name: show
    run: ci/show.sh
    required-projects: [org/lib]
    vars:
      colour: green
- project:
    queue: integrated
    check:
      jobs: [show]
    gate:
      jobs: [show]
";

/// What the only build of a buildset has printed.
fn printed(site: &Site, buildset: &Value) -> BTreeMap<String, String> {
    let build = buildset["builds"][0]["uuid"].as_str().expect("an id");
    let log = site.ok(&["pipeline", "logs", build]);
    assert!(log.contains("work/src/localhost/org/app\nerror\nchecked_out="), "both outputs, in order: {log}");
    let pairs = log.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn text<'a>(value: &'a Value, place: &str) -> &'a str {
    value.pointer(place).and_then(Value::as_str).unwrap_or_else(|| panic!("{place} of {value} is a text"))
}

#[test]
fn jobs_see_dependencies_merged_speculatively() {
    let site = Site::without_repositories(User::new("pipeline-jobs"), &["org/app", "org/lib"]);
    site.poll("200ms");
    site.make("org/app", &[(".zuul.yaml", APP_JOBS), ("ci/show.sh", SHOW)]);
    site.make_usual("org/lib");
    let _fleet = site.fleet();
    let [app_base, lib_base] = ["org/app", "org/lib"].map(|project| site.reference(project, "main"));
    let lib = site.propose("org/lib", "feature", &[("feature", "new\n")], "A feature");
    let app = site.propose("org/app", "use", &[("use", "x\n")], &format!("Uses it\n\nDepends-On: {lib}\n"));
    let done = site.wait(&app, "check");
    assert_eq!(done.code, Some(0), "{}", done.stderr);

    let checked = site.newest(&app, "check");
    let seen = printed(&site, &checked);
    assert_surroundings(&seen, &checked);
    assert_eq!((&seen["origin"], &seen["lib_origin"]), (&app_base, &lib_base), "what is merged");
    assert_eq!((seen["url"].as_str(), seen["checked_out"].as_str()), ("file:///dev/null", "main"));
    assert_eq!(seen["feature"], "new", "the dependency is there, though it is not merged");
    assert_ne!(seen["lib_head"], lib_base);
    assert_eq!(checked["builds"].as_array().map(Vec::len), Some(1));

    site.ok(&["pipeline", "approve", &app]);
    assert_eq!(site.wait(&app, "gate").code, Some(1), "its dependency is not approved");
    site.merge(&lib);
    eventually("its dependency pulls it in", || (site.result(&app)? == "SUCCESS").then_some(()));
    let (of_lib, of_app) = (site.newest(&lib, "gate"), site.newest(&app, "gate"));
    let merged = site.reference("org/lib", "main");
    assert_eq!(text(&of_lib, "/refs/0/commit"), merged);
    assert_eq!(of_app["state"]["org/lib"]["main"], json!(merged), "it was tested with the very commit");
    assert!(of_lib["ltime"].as_i64() < of_app["ltime"].as_i64(), "merged in order");
    let seen = printed(&site, &of_app);
    assert_eq!((&seen["lib_head"], seen["feature"].as_str()), (&merged, "new"));
    assert_eq!(seen["head"], site.reference("org/app", "main"));
}

fn assert_surroundings(seen: &BTreeMap<String, String>, buildset: &Value) {
    let work = &seen["MENAGERIE_WORK"];
    assert_eq!(seen["pwd"], format!("{work}/src/localhost/org/app"));
    let build = text(buildset, "/builds/0/uuid");
    let (patchset, commit) = (text(buildset, "/refs/0/patchset"), text(buildset, "/refs/0/commit"));
    let parent = text(buildset, "/refs/0/parent");
    for (name, value) in [
        ("ZUUL_TENANT", "main"),
        ("ZUUL_PIPELINE", "check"),
        ("ZUUL_JOB", "show"),
        ("ZUUL_UUID", build),
        ("ZUUL_BUILDSET", text(buildset, "/uuid")),
        ("ZUUL_PROJECT", "org/app"),
        ("ZUUL_BRANCH", "main"),
        ("ZUUL_CHANGE", "propose/main/use"),
        ("ZUUL_PATCHSET", patchset),
        ("ZUUL_COMMIT", commit),
        ("ZUUL_PARENT", parent),
        ("head", commit),
        ("origin", parent),
    ] {
        assert_eq!(seen.get(name).map(String::as_str), Some(value), "{name}");
    }
    let is_number = |part: &str| part.parse::<u64>().is_ok();
    assert!(seen["MENAGERIE_FENCE"].split('-').all(is_number), "{}", seen["MENAGERIE_FENCE"]);
    let vars: Value = serde_json::from_str(&seen["vars"]).expect("it is JSON");
    assert_eq!(vars["colour"], "green");
    for (place, value) in [
        ("/zuul/build", build),
        ("/zuul/change", "propose/main/use"),
        ("/zuul/project/name", "org/app"),
        ("/zuul/project/src_dir", "src/localhost/org/app"),
        ("/zuul/projects/localhost~1org~1lib/checkout", "main"),
        ("/zuul/projects/localhost~1org~1lib/commit", &seen["lib_head"]),
        ("/zuul/executor/work_root", work),
    ] {
        assert_eq!(text(&vars, place), value, "{place}");
    }
}

/// A pipeline that runs after branches and tags have moved.
const POST: &str = "
- pipeline:
    name: post
    manager: independent
    trigger:
      local:
        - event: ref-updated
          ref: ^main$
        - event: ref-updated
          ref: ^refs/tags/v
- project:
    name: org/app
    post:
      jobs: [org-app-publish]
- job:
    name: org-app-publish
    run: ci/publish.sh
";

#[test]
fn branches_and_tags_that_move_trigger_jobs() {
    let site = Site::new(User::new("pipeline-post"), &["org/app"]);
    site.poll("200ms");
    site.add_pipelines(POST);
    let publish = "#!/bin/sh\necho $ZUUL_PROJECT $ZUUL_BRANCH $ZUUL_COMMIT $(git rev-parse HEAD)\n";
    site.push_by_hand("org/config", &[("ci/publish.sh", publish)]);
    let _fleet = site.fleet();
    let before = site.reference("org/app", "main");
    let change = site.propose("org/app", "x", &[("x", "x\n")], "A change");
    site.merge(&change);
    site.ok(&["pipeline", "wait"]);
    let commit = site.reference("org/app", "main");
    let posted = site.history(&["--pipeline", "post"]);
    assert_eq!(posted.len(), 1, "proposals are no branches: {posted:?}");
    let about = &posted[0]["refs"][0];
    assert_eq!((text(about, "/ref"), text(about, "/branch")), ("refs/heads/main", "main"));
    assert_eq!((text(about, "/oldrev"), text(about, "/newrev")), (before.as_str(), commit.as_str()));
    assert_eq!((&about["change"], text(&posted[0], "/result")), (&Value::Null, "SUCCESS"));
    let log = site.ok(&["pipeline", "logs", text(&posted[0], "/builds/0/uuid")]);
    assert_eq!(log, format!("org/app main {commit} {commit}\n"));

    site.git_in_work("org/app", &["push", "-q", "origin", "main:refs/tags/v1", "main:refs/tags/w1"]);
    let tagged = eventually("the tag", || {
        let posted = site.history(&["--pipeline", "post"]);
        posted.first().filter(|newest| newest["refs"][0]["ref"] != "refs/heads/main").cloned()
    });
    assert_eq!(text(&tagged, "/refs/0/ref"), "refs/tags/v1");
    assert_eq!(text(&tagged, "/result"), "SUCCESS");
}
