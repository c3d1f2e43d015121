//! What operators do while changes are on their way: they vote, look, wait, stop and start. Jobs wait for a file here, so that
//! tests can look at what runs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use menagerie_testkit::{Process, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::site::{Fleet, Site, wait_for_pipelines};
use crate::cli::User;

const APP: &str = "org/app";

/// A pipeline for whoever asks for it, and a stanza of the config project about another project.
const RECHECK: &str = "
- pipeline:
    name: again
    manager: independent
    trigger:
      local:
        - event: comment-added
          comment: ^recheck$
- project:
    name: org/app
    again:
      jobs: [org-app-show]
";

/// A site whose only job waits until it is let go, and a fleet.
struct Stage {
    site: Site,
    _fleet: Fleet,
}

impl Stage {
    fn new(name: &str) -> Self {
        let site = Site::without_repositories(User::new(name), &[APP]);
        site.poll("200ms");
        let folder = site.folder().display().to_string();
        // The second process is one that leaves the first one's session, as daemons do.
        let program = format!(
            "#!/bin/sh\nsetsid sleep 1000 &\necho $$ $! >{folder}/$ZUUL_UUID.pids\necho waiting for $ZUUL_PATCHSET\n\
             until [ -e {folder}/go ]; do sleep 0.02; done\necho let go\n"
        );
        let config = "- job:\n    name: hold\n    run: ci/hold.sh\n    timeout: 100\n\
                      - job:\n    name: other\n    run: ci/other.sh\n    voting: false\n    dependencies: [hold]\n\
                      - project:\n    check:\n      jobs: [hold]\n    gate:\n      jobs: [hold, other]\n";
        site.make(
            APP,
            &[(".zuul.yaml", config), ("ci/hold.sh", &program), ("ci/other.sh", "#!/bin/sh\nexit 3\n")],
        );
        let fleet = site.fleet();
        Self { site, _fleet: fleet }
    }

    fn propose(&self, topic: &str, text: &str) -> String {
        self.site.propose(APP, topic, &[(topic, text)], "A change")
    }

    /// Waits until the held job of a change runs in a pipeline; returns the item.
    fn wait_until_held(&self, change: &str, pipeline: &str) -> Value {
        let item = self.site.wait_for_status("a running job", |status| {
            let item = items(status, pipeline).into_iter().find(|item| item["id"] == change)?;
            (item["jobs"][0]["waiting_status"] == "running").then_some(item)
        });
        let build = item["jobs"][0]["uuid"].as_str().expect("an id").to_owned();
        eventually("its program runs", || (self.pids(&build).len() == 2).then_some(()));
        item
    }

    /// The processes of a held build.
    fn pids(&self, build: &str) -> Vec<String> {
        let file = self.site.folder().join(format!("{build}.pids"));
        fs::read_to_string(file).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    }

    /// Waits until all processes of a build are gone.
    #[track_caller]
    fn wait_until_gone(&self, build: &Value) {
        let pids = self.pids(build.as_str().expect("an id"));
        assert_eq!(pids.len(), 2);
        let is_gone = |pid: &String| !Path::new("/proc").join(pid).exists();
        eventually("its processes are gone", || pids.iter().all(is_gone).then_some(()));
    }

    fn let_go(&self) {
        self.site.write("go", "");
    }
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().expect("a list").clone()
}

/// The items of a pipeline.
fn items(status: &Value, pipeline: &str) -> Vec<Value> {
    let found = list(&status["pipelines"]).into_iter().find(|found| found["name"] == pipeline);
    let queues = list(&found.expect("the pipeline")["change_queues"]);
    queues.iter().flat_map(|queue| list(&queue["heads"])).flat_map(|head| list(&head)).collect()
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[track_caller]
fn assert_has(value: &Value, words: &str) {
    let missing: Vec<&str> = words.split(' ').filter(|word| !keys(value).contains(word)).collect();
    assert!(missing.is_empty(), "{missing:?} are missing in {value}");
}

#[test]
fn status_has_the_shape_that_scripts_count_on() {
    let stage = Stage::new("pipeline-status");
    let site = &stage.site;
    let [first, second] = ["first", "second"].map(|topic| stage.propose(topic, "x\n"));
    for change in [&first, &second] {
        site.ok(&["pipeline", "approve", change]);
        stage.wait_until_held(change, "gate");
    }
    let status = site.json(&["pipeline", "status"]);
    assert_has(&status, "pipelines trigger_event_queue");
    assert_eq!(status["trigger_event_queue"]["length"], 0);
    let gate =
        list(&status["pipelines"]).into_iter().find(|found| found["name"] == "gate").expect("the gate");
    assert_eq!(gate["manager"], "dependent");
    let queue = &gate["change_queues"][0];
    assert_has(queue, "name branch window heads");
    assert_eq!((&queue["name"], &queue["branch"], &queue["window"]), (&json!(APP), &Value::Null, &json!(20)));
    let head = &queue["heads"][0];
    assert_eq!(list(head).len(), 2, "one list begins with the head of the queue");
    assert_eq!((&head[0]["id"], &head[0]["items_behind"]), (&json!(first), &json!([second])));
    assert_eq!((&head[1]["id"], &head[1]["item_ahead"]), (&json!(second), &json!(first)));
    let patchset = site.reference(APP, "refs/heads/propose/main/first");
    for (item, patchset) in [(&head[0], &patchset)] {
        assert_has(item, "id live active refs item_ahead items_behind failing_reasons enqueue_time jobs");
        assert_eq!((&item["live"], &item["active"]), (&json!(true), &json!(true)));
        assert_eq!((&item["item_ahead"], &item["failing_reasons"]), (&Value::Null, &json!([])));
        assert!(item["enqueue_time"].as_i64().is_some_and(|at| at > 1_500_000_000_000), "milliseconds");
        let expected = json!([{ "project": APP, "ref": "refs/heads/propose/main/first", "id": patchset }]);
        assert_eq!(item["refs"], expected);
        let [hold, other] = [&item["jobs"][0], &item["jobs"][1]];
        for job in [hold, other] {
            assert_has(job, "name uuid result voting tries waiting_status");
        }
        assert_eq!(
            (&hold["name"], &hold["voting"], &hold["tries"]),
            (&json!("hold"), &json!(true), &json!(1))
        );
        assert_eq!((&hold["result"], &hold["waiting_status"]), (&Value::Null, &json!("running")));
        assert_eq!(
            (&other["uuid"], &other["voting"], &other["tries"]),
            (&Value::Null, &json!(false), &json!(0))
        );
        assert_eq!(other["waiting_status"], "waiting for dependencies: hold");
    }
    let text = site.ok(&["pipeline", "status"]);
    assert!(text.contains("PIPELINE") && text.contains(&first) && text.contains("hold running"), "{text}");

    stage.let_go();
    for change in [&first, &second] {
        assert_eq!(site.wait(change, "gate").code, Some(0), "a job without a vote fails, and nobody minds");
    }
    site.ok(&["pipeline", "wait"]);
    let ended = site.newest(&first, "gate");
    let results: Vec<&Value> =
        ended["builds"].as_array().expect("builds").iter().map(|build| &build["result"]).collect();
    assert_eq!(results, ["SUCCESS", "FAILURE"]);
    assert_has(&ended, "uuid tenant pipeline queue result message ltime refs state builds");
    assert_has(&ended["refs"][0], "project branch change patchset ref oldrev newrev parent commit merged");
    assert_has(&ended["builds"][0], "uuid job_name result voting final attempt start_time end_time executor");
}

#[test]
fn build_is_followed_and_stopped_with_all_its_processes() {
    let stage = Stage::new("pipeline-running");
    let site = &stage.site;
    let change = stage.propose("x", "x\n");
    let item = stage.wait_until_held(&change, "check");
    let build = &item["jobs"][0]["uuid"];
    let waiting = format!("waiting for {}\n", site.reference(APP, "refs/heads/propose/main/x"));
    assert_eq!(
        site.ok(&["pipeline", "logs", build.as_str().expect("an id")]),
        waiting,
        "what there is so far"
    );
    let wait = ["pipeline", "wait", &change, "--pipeline", "check", "--timeout", "1s"];
    site.fails(&wait, 75, &["has no result in check", "still queued"]);
    site.fails(&["pipeline", "wait", "--timeout", "1s"], 75, &["pipeline check has items"]);

    site.ok(&["pipeline", "dequeue", &change, "--pipeline", "check"]);
    stage.wait_until_gone(build);
    site.fails(&wait[..5], 1, &["DEQUEUED", "an operator dequeued it"]);
    let ended = site.newest(&change, "check");
    assert_eq!((&ended["result"], &ended["builds"][0]["result"]), (&json!("DEQUEUED"), &json!("CANCELED")));
    site.ok(&["pipeline", "wait"]);

    site.ok(&["pipeline", "enqueue", &change, "--pipeline", "check"]);
    let item = stage.wait_until_held(&change, "check");
    let build = item["jobs"][0]["uuid"].as_str().expect("an id");
    let mut follower = site.spawn(&["pipeline", "logs", build, "-f"]);
    follower.wait_for_line("what it waits for", |line| line.starts_with("waiting for").then_some(()));
    stage.let_go();
    let end = follower.wait_for_end();
    assert_eq!((end.status.code(), end.stdout), (Some(0), vec!["let go".to_owned()]), "{}", end.stderr);
    let done = site.run(&wait[..5]);
    assert_eq!((done.code, done.stderr), (Some(0), format!("{change}: SUCCESS\n")));
    stage.wait_until_gone(&item["jobs"][0]["uuid"]);
}

#[test]
fn new_patchset_and_abandoning_stop_what_runs() {
    let stage = Stage::new("pipeline-patchsets");
    let site = &stage.site;
    let change = stage.propose("x", "one\n");
    let first = stage.wait_until_held(&change, "check");
    let second = {
        stage.propose("x", "two\n");
        stage.wait_until_gone(&first["jobs"][0]["uuid"]);
        stage.wait_until_held(&change, "check")
    };
    assert_ne!(first["refs"][0]["id"], second["refs"][0]["id"]);
    let ended = site.newest(&change, "check");
    assert_eq!(
        (&ended["result"], &ended["refs"][0]["patchset"]),
        (&json!("DEQUEUED"), &first["refs"][0]["id"])
    );
    assert_eq!(ended["message"], "a new patchset was proposed");

    site.ok(&["pipeline", "approve", &change]);
    let gated = stage.wait_until_held(&change, "gate");
    site.git_in_work(APP, &["push", "-q", "origin", "--delete", "propose/main/x"]);
    for (item, pipeline) in [(second, "check"), (gated, "gate")] {
        stage.wait_until_gone(&item["jobs"][0]["uuid"]);
        eventually("that it was abandoned", || {
            let ended = site.newest(&change, pipeline);
            (ended["result"] == "DEQUEUED" && ended["message"] == "it was abandoned").then_some(())
        });
    }
    site.ok(&["pipeline", "wait"]);
    assert!(!site.has(APP, "x"));

    let again = stage.propose("x", "three\n");
    stage.wait_until_held(&again, "check");
    assert!(items(&site.json(&["pipeline", "status"]), "gate").is_empty(), "a vote belongs to its patchset");
}

#[test]
fn votes_count_once_until_they_are_withdrawn() {
    let stage = Stage::new("pipeline-votes");
    let site = &stage.site;
    let [kept, withdrawn] = ["kept", "withdrawn"].map(|topic| stage.propose(topic, "x\n"));
    for change in [&kept, &withdrawn] {
        let said = site.json(&["pipeline", "approve", change, "--as", "ann", "--comment", "Fine."]);
        assert_eq!((&said["votes"], &said["by"]), (&json!({ "Approved": 1 }), &json!("ann")));
        stage.wait_until_held(change, "gate");
    }
    site.ok(&["pipeline", "approve", &kept, "--as", "ann"]);
    site.ok(&["pipeline", "approve", &kept, "--as", "bob"]);
    site.ok(&["pipeline", "approve", &kept, "--as", "bob", "--label", "Approved=0"]);
    site.ok(&[
        "pipeline",
        "approve",
        &withdrawn,
        "--as",
        "ann",
        "--label",
        "Approved=0",
        "--label",
        "Code-Review=-1",
    ]);
    let notes = site.notes(APP, &site.reference(APP, "refs/heads/propose/main/withdrawn"));
    let lines: Vec<Value> = notes.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let mine: Vec<&Value> = lines.iter().filter(|line| line["by"] == "ann").collect();
    assert_eq!((&mine[0]["comment"], &mine[0]["votes"]), (&json!("Fine."), &json!({ "Approved": 1 })));
    assert_eq!(mine[1]["votes"], json!({ "Approved": 0, "Code-Review": -1 }));
    // Whoever has seen this proposal has seen the votes before it.
    let later = stage.propose("later", "x\n");
    stage.wait_until_held(&later, "check");
    stage.let_go();
    assert_eq!(site.wait(&kept, "gate").code, Some(0));
    site.fails(
        &["pipeline", "wait", &withdrawn, "--pipeline", "gate"],
        1,
        &["FAILURE", "lacks the vote Approved=1"],
    );
    assert!(site.has(APP, "kept") && !site.has(APP, "withdrawn"));
    let gated = site.history(&["--pipeline", "gate", "--change", &kept]);
    assert_eq!(gated.len(), 1, "approved thrice, merged once: {gated:?}");
    site.fails(&["pipeline", "approve", &kept], 2, &["there is no open change"]);
}

#[test]
fn comments_trigger_and_history_is_filtered() {
    let site = Site::new(User::new("pipeline-comments"), &[APP, "org/lib"]);
    site.poll("200ms");
    site.add_pipelines(RECHECK);
    let _fleet = site.fleet();
    let [good, bad] = [("good", "files/a"), ("bad", "fail/a")]
        .map(|(topic, file)| site.propose(APP, topic, &[(file, "x\n")], "A change"));
    let lib = site.propose("org/lib", "lib", &[("lib", "x\n")], "A change");
    assert_eq!(site.wait(&bad, "check").code, Some(1));
    let said = ["pipeline", "approve", &good, "--label", "Code-Review=2", "--comment"];
    site.ok(&[&said[..], &["please recheck this"]].concat());
    site.ok(&[&said[..], &["recheck"]].concat());
    assert_eq!(site.wait(&good, "again").code, Some(0));
    site.ok(&["pipeline", "wait"]);
    assert_eq!(site.history(&["--pipeline", "again"]).len(), 1, "only the whole comment counts");
    assert!(site.history(&["--pipeline", "gate"]).is_empty(), "another label is no approval");
    site.merge(&good);
    site.merge(&lib);
    site.ok(&["pipeline", "wait"]);

    let names = |args: &[&str]| -> Vec<String> {
        let found = site.history(args);
        let name = |one: &Value| {
            let change =
                one["refs"][0]["change"].as_str().expect("a change").rsplit('/').next().expect("a topic");
            format!(
                "{} {change} {}",
                one["pipeline"].as_str().expect("a name"),
                one["result"].as_str().expect("a result")
            )
        };
        found.iter().map(name).collect()
    };
    assert_eq!(names(&["--pipeline", "gate"]), ["gate lib SUCCESS", "gate good SUCCESS"], "the newest first");
    assert_eq!(names(&["--result", "FAILURE"]), ["check bad FAILURE"]);
    assert_eq!(names(&["--change", &bad]), ["check bad FAILURE"]);
    assert_eq!(names(&["--change", "propose/main/lib"]), ["gate lib SUCCESS", "check lib SUCCESS"]);
    assert_eq!(names(&["--project", "org/lib"]), ["gate lib SUCCESS", "check lib SUCCESS"]);
    assert_eq!(names(&["--job", "org-app-show"]), ["gate good SUCCESS", "again good SUCCESS"]);
    assert_eq!(names(&["--tenant", "other"]), [""; 0]);
    let limited = site.json(&["pipeline", "history", "--limit", "2"]);
    assert_eq!(limited.as_array().map(Vec::len), Some(2));
    assert_eq!(names(&[]).len(), 6);
    let text = site.ok(&["pipeline", "history", "--change", &bad]);
    let build = site.newest(&bad, "check")["builds"][0]["uuid"].as_str().expect("an id").to_owned();
    assert!(text.contains(&format!("org-app-test FAILURE {build}")), "{text}");
}

#[test]
fn up_runs_one_of_every_role() {
    let site = Site::new(User::nowhere(), &[APP]);
    let mut up: Process = site.spawn(&crate::up::up(&[]));
    up.wait_for_line("how to stop it", |line| line.contains("Ctrl-C").then_some(()));
    let status = site.json(&["status"]);
    let kinds: BTreeSet<&str> = status["components"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|role| role["kind"].as_str())
        .collect();
    assert!(["scheduler", "merger", "executor"].iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
    wait_for_pipelines(&site);
    let change = site.propose(APP, "x", &[("x", "x\n")], "A change");
    site.merge(&change);
    assert!(site.has(APP, "x"));
    let build = site.newest(&change, "gate")["builds"][0]["uuid"].as_str().expect("an id").to_owned();
    assert!(site.ok(&["pipeline", "logs", &build]).starts_with("commit "));
    up.signal(Signal::INT);
    let end = up.wait_for_end();
    assert_eq!(end.status.code(), Some(0), "{}", end.stderr);
}
