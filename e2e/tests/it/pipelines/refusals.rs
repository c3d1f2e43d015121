//! Bad input is refused with a clear message at the right place, and all else goes on.

use menagerie_testkit::eventually;
use serde_json::Value;

use super::site::Site;
use crate::cli::User;

/// A project without a mistake, for the proof that all else goes on.
const GOOD: &str = "org/good";

/// A file that is no YAML.
const BROKEN: &str = "- job:\n    name: [\n";

/// A stanza that runs one job everywhere.
fn stanza(job: &str) -> String {
    format!("- project:\n    check:\n      jobs: [{job}]\n    gate:\n      jobs: [{job}]\n")
}

/// What `pipeline status` lists as wrong with the configuration, once it lists as much.
fn wait_for_problems(site: &Site, count: usize) -> Vec<String> {
    site.wait_for_status("problems", |status| {
        let problems = status["config_errors"].as_array()?.iter();
        let problems: Vec<String> = problems.filter_map(|text| text.as_str().map(str::to_owned)).collect();
        (problems.len() == count).then_some(problems)
    })
}

#[track_caller]
fn assert_good_change_merges(site: &Site, topic: &str) {
    let change = site.propose(GOOD, topic, &[(topic, "x\n")], "Good");
    site.merge(&change);
    assert!(site.has(GOOD, topic));
}

#[track_caller]
fn assert_says(what: &Value, words: &[&str]) {
    let text = what.as_str().unwrap_or_else(|| panic!("{what} is a text"));
    for word in words {
        assert!(text.contains(word), "{word:?} is missing in {text:?}");
    }
}

#[test]
fn broken_configuration_is_listed_with_its_place_and_harms_nobody_else() {
    let projects = [GOOD, "org/yaml", "org/key", "org/loop"];
    let site = Site::without_repositories(User::new("pipeline-broken"), &projects);
    site.poll("200ms");
    site.make_usual(GOOD);
    site.make("org/yaml", &[(".zuul.yaml", BROKEN)]);
    let odd = format!("- job:\n    name: odd\n    run: ci/x\n    runs: ci/y\n{}", stanza("odd"));
    site.make("org/key", &[(".zuul.yaml", &odd)]);
    let parents = "- job:\n    name: hen\n    parent: egg\n- job:\n    name: egg\n    parent: hen\n";
    site.make("org/loop", &[(".zuul.yaml", &format!("{parents}{}", stanza("egg")))]);
    let _fleet = site.fleet();

    let problems = wait_for_problems(&site, 2);
    assert!(problems[0].starts_with("org/yaml@main .zuul.yaml:"), "{problems:?}");
    assert!(problems[0].contains("not valid YAML"), "{problems:?}");
    assert_eq!(problems[1], "org/key@main .zuul.yaml:4: job `odd` has the unknown key `runs`");
    let text = site.ok(&["pipeline", "status"]);
    assert!(problems.iter().all(|problem| text.contains(&format!("configuration: {problem}"))), "{text}");

    let change = site.propose("org/key", "x", &[("x", "x\n")], "Its job was left out");
    let ended = site.newest(&change, "check");
    assert_eq!(ended["result"], "CONFIG_ERROR");
    assert_says(&ended["message"], &["org/key@main .zuul.yaml:7: there is no job `odd`"]);

    let change = site.propose("org/loop", "x", &[("x", "x\n")], "Its job is its own ancestor");
    let ended = site.newest(&change, "check");
    assert_eq!(ended["result"], "CONFIG_ERROR");
    assert_says(&ended["message"], &["org/loop@main .zuul.yaml:", "inherits from itself: egg -> hen -> egg"]);

    let same = site.propose(GOOD, "same", &[(".zuul.yaml", BROKEN)], "The mistake of another project");
    let ended = site.newest(&same, "check");
    assert_eq!(ended["result"], "CONFIG_ERROR", "{ended}");
    assert_says(&ended["message"], &["org/good@main .zuul.yaml:", "not valid YAML"]);

    assert_good_change_merges(&site, "beside");
    site.push_by_hand("org/yaml", &[(".zuul.yaml", "- job:\n    name: sound\n    run: ci/x\n")]);
    let problems = wait_for_problems(&site, 1);
    assert!(problems[0].starts_with("org/key"), "what is repaired is not listed any more: {problems:?}");
}

#[test]
fn proposal_that_cannot_be_tested_or_merged_says_why() {
    let site = Site::new(User::new("pipeline-refused"), &[GOOD, "org/app"]);
    site.poll("200ms");
    let _fleet = site.fleet();
    let job = "- job:\n    name: new\n    run: ci/new.sh\n";
    let own = |text: String| vec![(".zuul.yaml", text)];
    let two = "- job:\n    name: one\n    run: ci/test.sh\n    dependencies: [two]\n\
               - job:\n    name: two\n    run: ci/test.sh\n    dependencies: [one]\n";
    let refused = [
        ("yaml", own("- job:\n    name: {\n".to_owned()), ".zuul.yaml:", "not valid YAML"),
        (
            "key",
            own(format!("{job}    colour: red\n{}", stanza("new"))),
            ".zuul.yaml:4:",
            "unknown key `colour`",
        ),
        ("parents", own(format!("{job}    parent: new\n{}", stanza("new"))), ".zuul.yaml:1:", "new -> new"),
        ("loop", own(format!("{two}{}", stanza("one, two"))), ".zuul.yaml:", "in a loop: `one`, `two`"),
        ("nowhere", own(stanza("gone")), ".zuul.yaml:3:", "there is no job `gone`"),
    ];
    let topics: Vec<String> = refused
        .iter()
        .map(|(topic, files, _, _)| {
            let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
            site.propose("org/app", topic, &files, "Wrong")
        })
        .collect();
    for (change, (_, _, place, word)) in topics.iter().zip(&refused) {
        let ended = site.newest(change, "check");
        assert_eq!(ended["result"], "CONFIG_ERROR", "{ended}");
        assert_says(&ended["message"], &["org/app@main", place, word]);
    }
    assert_programs_are_missed(&site, job);
    assert_good_change_merges(&site, "beside");
    assert_clash_is_told(&site);
    assert!(wait_for_problems(&site, 0).is_empty(), "what was only proposed is not listed");
}

fn assert_programs_are_missed(site: &Site, job: &str) {
    let new = format!("{job}{}", stanza("new"));
    let missing = site.propose("org/app", "missing", &[(".zuul.yaml", &new)], "A job without a file");
    let plain = new.replace("ci/new.sh", "plain.sh");
    let files = [(".zuul.yaml", plain.as_str()), ("plain.sh", "#!/bin/sh\n")];
    let plain = site.propose("org/app", "plain", &files, "A file that cannot be run");
    for (change, why) in [
        (missing, "org/app has no file ci/new.sh on main"),
        (plain, "plain.sh of org/app on main is not executable. Try: git update-index --chmod=+x plain.sh"),
    ] {
        let done = site.wait(&change, "check");
        assert_eq!(done.code, Some(1));
        let ended = site.newest(&change, "check");
        assert_eq!((&ended["result"], &ended["builds"][0]["result"]), (&"FAILURE".into(), &"ERROR".into()));
        let build = ended["builds"][0]["uuid"].as_str().expect("an id");
        assert!(done.stderr.contains(&format!("menagerie pipeline logs {build}")), "{}", done.stderr);
        assert_eq!(site.ok(&["pipeline", "logs", build]), format!("{why}\n"));
        let patchset = ended["refs"][0]["patchset"].as_str().expect("a commit");
        eventually("whoever proposed it is told", || {
            site.notes("org/app", patchset).contains(why).then_some(())
        });
    }
}

fn assert_clash_is_told(site: &Site) {
    let one = site.propose(GOOD, "one", &[("shared.txt", "two\n")], "One");
    let other = site.propose(GOOD, "other", &[("shared.txt", "three\n")], "Another");
    site.merge(&one);
    site.ok(&["pipeline", "approve", &other]);
    site.fails(
        &["pipeline", "wait", &other, "--pipeline", "gate"],
        1,
        &["MERGE_CONFLICT", "merge conflict in shared.txt"],
    );
    assert_eq!(site.result(&other).as_deref(), Some("MERGE_CONFLICT"));
}

#[test]
fn dependency_that_cannot_be_merged_is_the_reason_in_the_history() {
    let site = Site::new(User::new("pipeline-depends"), &[GOOD, "org/app"]);
    site.poll("200ms");
    let _fleet = site.fleet();
    let unapproved = site.propose(GOOD, "later", &[("later", "x\n")], "Later");
    let needs = |topic: &str, what: &str| {
        site.propose("org/app", topic, &[(topic, "x\n")], &format!("Needs\n\nDepends-On: {what}\n"))
    };
    let cases = [
        (needs("unapproved", &unapproved), "org/good:propose/main/later, which cannot be merged"),
        (
            needs("unknown", "org/good:propose/main/none"),
            "org/good:propose/main/none, which is neither open nor merged",
        ),
        (needs("stranger", "org/else:propose/main/x"), "\"org/else:propose/main/x\" is no change"),
        (needs("dots", "org/good:propose/main/a/../b"), "git takes no such name for a branch"),
    ];
    for (change, why) in &cases {
        site.ok(&["pipeline", "approve", change]);
        site.fails(&["pipeline", "wait", change, "--pipeline", "gate"], 1, &["DEQUEUED", why]);
        let ended = site.newest(change, "gate");
        assert_eq!(ended["result"], "DEQUEUED");
        assert_says(&ended["message"], &[why]);
    }
    let [hen, egg] = [("hen", "egg"), ("egg", "hen")]
        .map(|(topic, other)| needs(topic, &format!("org/app:propose/main/{other}")));
    for change in [&hen, &egg] {
        site.ok(&["pipeline", "approve", change]);
        let wait = ["pipeline", "wait", change, "--pipeline", "gate"];
        site.fails(&wait, 1, &["DEQUEUED", "the two depend on each other"]);
    }
    // It pulls in what depends on it and is approved.
    site.merge(&unapproved);
    eventually("what depends on it is merged", || site.has("org/app", "unapproved").then_some(()));
}

#[test]
fn repository_that_is_missing_is_named_and_comes_back() {
    let site = Site::without_repositories(User::new("pipeline-missing"), &[GOOD, "org/late"]);
    site.poll("200ms");
    site.make_usual(GOOD);
    let _fleet = site.fleet();
    let error_of_late = |status: &Value| {
        let errors = status["connection_errors"].as_array()?.clone();
        errors.into_iter().find(|error| error["project"] == "org/late")
    };
    let error = site.wait_for_status("that it is missing", error_of_late);
    assert_eq!(error["connection"], "local");
    let shown = site.ok(&["pipeline", "status"]);
    assert!(shown.contains("repository org/late of local: "), "{shown}");
    assert_good_change_merges(&site, "while-it-is-missing");

    site.make_usual("org/late");
    let is_there = |status: &Value| error_of_late(status).is_none().then_some(());
    site.wait_for_status("that it is there", is_there);
    let late = site.propose("org/late", "late", &[("late", "x\n")], "Late");
    site.merge(&late);

    let (there, away) = (site.bare("org/late"), site.folder().join("away"));
    std::fs::rename(&there, &away).expect("it can be moved");
    site.wait_for_status("that it is gone", error_of_late);
    assert_good_change_merges(&site, "while-it-is-gone");
    std::fs::rename(&away, &there).expect("it can be moved back");
    site.wait_for_status("that it is back", is_there);
    let again = site.propose("org/late", "again", &[("again", "x\n")], "Again");
    site.merge(&again);
}

#[test]
fn names_of_nothing_are_refused() {
    let site = Site::new(User::new("pipeline-names"), &[GOOD]);
    site.poll("200ms");
    let _fleet = site.fleet();
    let crooked = "org/good:propose/main/a/../b";
    for args in [
        &["approve", crooked][..],
        &["enqueue", crooked, "--pipeline", "check"],
        &["dequeue", crooked, "--pipeline", "check"],
        &["wait", crooked, "--pipeline", "check"],
    ] {
        let args = [&["pipeline"], args].concat();
        site.fails(&args, 2, &["org/good:propose/main/a/../b", "git takes no such name for a branch"]);
    }
    let open = site.propose(GOOD, "open", &[("open", "x\n")], "Open");
    assert_eq!(site.wait(&open, "check").code, Some(0));
    let none = "org/good:propose/main/none";
    let (no_change, all) =
        ("there is no open change org/good:propose/main/none", "org/good:propose/main/open");
    for (args, words) in [
        (&["approve", none][..], &[no_change, all][..]),
        (&["approve", "org/good:propose/nowhere/x"], &["there is no open change"]),
        (&["approve", "good"], &["PROJECT:propose/TARGET/TOPIC"]),
        (&["approve", &open, "--label", "Approved"], &["is no vote", "Approved=1"]),
        (&["approve", &open, "--connection", "far"], &["there is no connection far", "local"]),
        (&["enqueue", none, "--pipeline", "check"], &[no_change, all]),
        (&["enqueue", &open, "--pipeline", "chek"], &["no pipeline chek", "check, gate"]),
        (
            &["dequeue", &open, "--pipeline", "check"],
            &["is not in pipeline check", "nothing is queued there"],
        ),
        (&["wait", &open, "--pipeline", "chek"], &["no pipeline chek", "check, gate"]),
        (&["wait", &open], &["--pipeline"]),
        (&["status", "--tenant", "mian"], &["there is no tenant mian", "main"]),
        (&["wait", "--tenant", "mian"], &["there is no tenant mian", "main"]),
        (&["logs", "7"], &["32 hexadecimal digits"]),
        (
            &["hook", "git/org/good", "--connection", "far", "--project", GOOD],
            &["no connection far", "local"],
        ),
        (&["hook", "work", "--connection", "local", "--project", GOOD], &["no git repository"]),
    ] {
        site.fails(&[&["pipeline"], args].concat(), 2, words);
    }
    site.fails(
        &["pipeline", "approve", "org/nowhere:propose/main/x"],
        1,
        &["git/org/nowhere: the repository cannot be reached", "ls-remote"],
    );
    site.git_in_work(GOOD, &["push", "-q", "origin", "main:propose/nowhere/x"]);
    let no_target = ["pipeline", "approve", "org/good:propose/nowhere/x"];
    site.fails(&no_target, 2, &["no branch of the project is the TARGET in it"]);
    let nobody = "0123456789abcdef0123456789abcdef";
    site.fails(&["pipeline", "logs", nobody], 1, &["no executor has a log of build", nobody]);
    site.fails(&["pipeline", "enqueue", &open, "--pipeline", "gate"], 1, &["lacks the vote Approved=1"]);
    site.fails(&["pipeline", "approve", &open, "--patchset", "abc"], 2, &["--patchset"]);
    site.fails(&["pipeline", "approve", &open, "--patchset", &"a".repeat(40)], 1, &["is at", "not at"]);
    site.merge(&open);
}

#[test]
fn mistakes_in_files_of_operators_are_told_at_the_start() {
    let site = Site::new(User::new("pipeline-files"), &[GOOD]);
    let (tenants, toml) = (
        std::fs::read_to_string(site.folder().join("tenants.yaml")).expect("it is there"),
        std::fs::read_to_string(site.folder().join("menagerie.toml")).expect("it is there"),
    );
    for (text, words) in [
        (
            "- tenant:\n    name: main\n    sauce: {}\n".to_owned(),
            &["line 3", "unknown key `sauce`", "source"][..],
        ),
        ("- tenant: {\n".to_owned(), &["line ", "YAML"]),
        (tenants.replace("local", "far"), &["org/config", "far", "local"]),
        (format!("{tenants}{tenants}"), &["line 9", "`main` is defined twice"]),
    ] {
        site.write("tenants.yaml", &text);
        site.fails(&["scheduler"], 2, &[&["tenants.yaml"], words].concat());
    }
    site.write("tenants.yaml", &tenants);
    for (old, new, words) in [
        ("poll = \"1s\"", "poll = \"soon\"", &["menagerie.toml:6", "poll"][..]),
        ("driver = \"git\"", "driver = \"gerrit\"", &["menagerie.toml:4", "gerrit", "git"]),
        ("baseurl = \"git\"", "baseurl = \"ext::sh\"", &["menagerie.toml:5", "baseurl"]),
        ("baseurl = \"git\"", "base_url = \"git\"", &["menagerie.toml:5", "base_url"]),
        ("tenants.yaml", "none.yaml", &["menagerie.toml:2", "none.yaml"]),
    ] {
        site.write("menagerie.toml", &toml.replace(old, new));
        site.fails(&["scheduler"], 2, words);
    }
    for (text, what) in [("", "has no section [pipelines]"), ("[zookeeper]\n", "has no section [pipelines]")]
    {
        site.write("menagerie.toml", text);
        let approve: &[&str] = &["pipeline", "approve", "org/good:propose/main/x"];
        for command in [&["scheduler"][..], &["merger"], &["executor"], approve] {
            site.fails(command, 2, &[what, "[pipelines.connections.local]"]);
        }
    }
    site.fails(&["pipeline", "status"], 2, &["there are no tenants yet", "menagerie scheduler"]);
    site.write("menagerie.toml", &toml);
    site.poll("200ms");
    let _fleet = site.fleet();
    assert_good_change_merges(&site, "after-all");
    site.ok(&["pipeline", "wait"]);
}
