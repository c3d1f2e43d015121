use std::collections::BTreeMap;

use menagerie_testkit::assert_described;
use menagerie_znodes::Name;
use menagerie_znodes::pipelines::{
    BuildRecord, BuildsetRecord, Change, FrozenJob, HistoryBuild, HistoryRecord, HistoryRef, Id, ItemRecord,
    JobDependency, JobRecord, JobsStep, MergeStep, PipelineRecord, QueueRecord, RequestState, Sha, Subject,
};
use serde_json::json;

use super::*;
use crate::core::{Build, Buildset, Item, Job, State};

fn fleet() -> Fleet {
    let crew = Crew { running: 1, idle: 0 };
    Fleet { schedulers: crew, mergers: crew, executors: crew, places: 4 }
}

fn id(text: &str) -> Id {
    Name::new(text).unwrap()
}

fn sha(digit: &str) -> Sha {
    Sha::new(digit.repeat(40)).unwrap()
}

fn job(name: &str, dependencies: &[&str], builds: Vec<Build>) -> Job {
    let dependency = |name: &&str| JobDependency { name: (*name).to_owned(), is_soft: false };
    let job = FrozenJob {
        name: name.to_owned(),
        run: "run".to_owned(),
        project: "org/app".to_owned(),
        branch: "main".to_owned(),
        is_trusted: false,
        is_voting: name != "lint",
        timeout_s: 60,
        attempts: 3,
        dependencies: dependencies.iter().map(dependency).collect(),
        required_projects: Vec::new(),
        vars: Default::default(),
    };
    Job { record: JobRecord { job, is_skipped: false }, builds }
}

fn build(name: &str, attempt: u32, result: Option<&str>) -> Build {
    let record = BuildRecord {
        attempt,
        result: result.map(str::to_owned),
        is_final: result.is_some_and(|result| result != "ABORTED"),
        requested_ms: 1,
        start_ms: result.map(|_| 2),
        end_ms: result.map(|_| 3),
        executor: result.map(|_| "e1".to_owned()),
        detail: None,
    };
    Build { id: id(name), record }
}

fn item(topic: &str, ahead: Option<&str>, jobs: Vec<Job>) -> Item {
    let change = Change { project: "org/app".to_owned(), target: "main".to_owned(), topic: topic.to_owned() };
    let names = jobs.iter().map(|job| job.record.job.name.clone()).collect();
    let merge = MergeStep::Done { commit: sha("c"), parent: sha("b"), files: None };
    let record = ItemRecord {
        subject: Subject::Change { change, patchset: sha("a") },
        item_ahead: ahead.map(id),
        is_live: true,
        is_active: true,
        enqueued_ms: 7,
        buildset: id("s1"),
        is_start_reported: true,
        failing: Vec::new(),
        is_pushing: false,
        push_failure: None,
    };
    let buildset = BuildsetRecord { merge, jobs: JobsStep::Ready { names }, config: None };
    Item { record, buildset: Buildset { record: buildset, state: None, jobs } }
}

fn state(items: Vec<(&str, Item)>) -> State {
    let order = items.iter().map(|(name, _)| id(name)).collect();
    let queue = QueueRecord { name: "org/app".to_owned(), branch: None, items: order, window: 20 };
    State {
        record: PipelineRecord {
            manager: "dependent".to_owned(),
            queues: vec![id("q1")],
            ..PipelineRecord::default()
        },
        queues: BTreeMap::from([(id("q1"), queue)]),
        items: items.into_iter().map(|(name, item)| (id(name), item)).collect(),
        reports: BTreeMap::new(),
    }
}

fn record(builds: Vec<HistoryBuild>) -> HistoryRecord {
    let reference = HistoryRef {
        project: "org/app".to_owned(),
        branch: Some("main".to_owned()),
        change: None,
        patchset: Some(sha("a")),
        reference: "refs/heads/main".to_owned(),
        oldrev: None,
        newrev: Some(sha("b")),
        parent: None,
        commit: Some(sha("c")),
        merged: true,
    };
    HistoryRecord {
        uuid: id("s1"),
        tenant: id("acme"),
        pipeline: id("gate"),
        queue: "org/app".to_owned(),
        result: "SUCCESS".to_owned(),
        message: None,
        ltime: 1,
        end_ms: 2,
        refs: vec![reference],
        state: BTreeMap::from([("org/app".to_owned(), BTreeMap::from([("main".to_owned(), sha("c"))]))]),
        builds,
    }
}

#[test]
fn shape_is_that_of_zuul() {
    let running = vec![build("b1", 1, Some("ABORTED")), build("b2", 2, None)];
    let jobs = vec![job("unit", &[], running), job("deploy", &["unit"], vec![])];
    let state = state(vec![("i1", item("one", None, jobs)), ("i2", item("two", Some("i1"), vec![]))]);
    let request =
        RequestView { state: RequestState::Running, worker: Some("e2".to_owned()), since_ms: Some(5) };
    let view = pipeline_view("gate", &state, &Requests::from([(id("b2"), request)]), &fleet());
    assert_described(&view);
    let view = serde_json::to_value(view).unwrap();
    assert_eq!((&view["name"], &view["manager"]), (&json!("gate"), &json!("dependent")));
    let queue = &view["change_queues"][0];
    assert_eq!(
        (&queue["name"], &queue["branch"], &queue["window"]),
        (&json!("org/app"), &json!(null), &json!(20))
    );
    let head = &queue["heads"][0][0];
    assert_eq!(head["id"], "org/app:propose/main/one");
    assert_eq!((&head["live"], &head["active"]), (&json!(true), &json!(true)));
    let reference =
        json!([{ "project": "org/app", "ref": "refs/heads/propose/main/one", "id": "a".repeat(40) }]);
    assert_eq!(head["refs"], reference);
    assert_eq!(
        (&head["item_ahead"], &head["items_behind"]),
        (&json!(null), &json!(["org/app:propose/main/two"]))
    );
    assert_eq!((&head["failing_reasons"], &head["enqueue_time"]), (&json!([]), &json!(7)));
    let unit = &head["jobs"][0];
    assert_eq!((&unit["name"], &unit["uuid"], &unit["result"]), (&json!("unit"), &json!("b2"), &json!(null)));
    assert_eq!((&unit["voting"], &unit["tries"]), (&json!(true), &json!(2)));
    assert_eq!((&unit["waiting_status"], &unit["executor"]), (&json!("running"), &json!("e2")));
    let deploy = &head["jobs"][1];
    assert_eq!((&deploy["uuid"], &deploy["tries"]), (&json!(null), &json!(0)));
    assert_eq!(deploy["waiting_status"], "waiting for dependencies: unit");
    assert_eq!(queue["heads"][0][1]["item_ahead"], "org/app:propose/main/one");
}

#[test]
fn each_item_without_one_ahead_begins_a_chain() {
    let mut alone = item("three", None, vec![]);
    alone.record.failing = vec!["a job failed".to_owned()];
    alone.record.push_failure = Some("the push was refused".to_owned());
    let mut dependency = item("one", None, vec![]);
    dependency.record.is_live = false;
    let state = state(vec![("i1", dependency), ("i2", item("two", Some("i1"), vec![])), ("i3", alone)]);
    let heads = pipeline_view("check", &state, &Requests::new(), &fleet()).change_queues.remove(0).heads;
    assert_eq!(heads.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
    assert!(!heads[0][0].live && heads[0][1].live);
    assert_eq!(heads[1][0].failing_reasons, ["a job failed", "the push was refused"]);
}

#[test]
fn jobs_say_what_they_wait_for() {
    let jobs = vec![
        job("done", &[], vec![build("b1", 1, Some("SUCCESS"))]),
        job("lint", &[], vec![build("b2", 1, None)]),
        job("lost", &[], vec![build("b3", 1, None)]),
        job("next", &["done"], vec![]),
    ];
    let state = state(vec![("i1", item("one", None, jobs))]);
    let request = RequestView { state: RequestState::Requested, worker: None, since_ms: None };
    let requests = Requests::from([(id("b2"), request)]);
    let jobs = pipeline_view("gate", &state, &requests, &fleet())
        .change_queues
        .remove(0)
        .heads
        .remove(0)
        .remove(0)
        .jobs;
    let waits: Vec<Option<&str>> = jobs.iter().map(|job| job.waiting_status.as_deref()).collect();
    let scheduler = Some("waiting for scheduler");
    assert_eq!(waits, [None, Some("waiting for executor"), scheduler, scheduler]);
    assert_eq!(jobs[0].result.as_deref(), Some("SUCCESS"));
    assert!(!jobs[1].voting);
}

#[test]
fn what_a_queue_names_and_is_gone_is_left_out() {
    let mut state = state(vec![("i1", item("one", None, vec![]))]);
    state.record.queues.push(id("gone"));
    state.queues.get_mut(&id("q1")).unwrap().items.push(id("gone"));
    let view = pipeline_view("gate", &state, &Requests::new(), &fleet());
    assert_eq!(view.change_queues.len(), 1);
    assert_eq!(view.change_queues[0].heads.concat().len(), 1);
}

#[test]
fn views_and_history_are_as_their_schemas_say() {
    let error = ConnectionErrorView {
        connection: "main".to_owned(),
        project: "org/app".to_owned(),
        error: "no route".to_owned(),
    };
    assert_described(&StatusView {
        tenant: "acme".to_owned(),
        pipelines: vec![PipelineView::default()],
        connection_event_queues: BTreeMap::from([("main".to_owned(), EventQueueView { length: 1 })]),
        config_errors: vec!["line 1: what is this".to_owned()],
        connection_errors: vec![error],
        ..StatusView::default()
    });
    let build = HistoryBuild {
        uuid: id("b1"),
        job_name: "unit".to_owned(),
        result: None,
        voting: true,
        is_final: false,
        attempt: 1,
        start_time: Some(1),
        end_time: None,
        executor: None,
    };
    assert_described(&record(vec![build]));
    assert_described(&crate::client::Approved {
        change: "org/app:propose/main/one".to_owned(),
        patchset: sha("a"),
        votes: BTreeMap::from([("Code-Review".to_owned(), -2)]),
        comment: None,
        by: "ann".to_owned(),
    });
}

#[test]
fn whatever_waits_says_why_and_what_runs_does_not() {
    let running = job("unit", &[], vec![build("b1", 1, None)]);
    let mut outside = item("three", None, vec![]);
    outside.record.is_active = false;
    let done = item("two", Some("i1"), vec![job("unit", &[], vec![build("b2", 1, Some("SUCCESS"))])]);
    let mut state = state(vec![("i1", item("one", None, vec![running])), ("i2", done), ("i3", outside)]);
    state.queues.get_mut(&id("q1")).unwrap().window = 2;
    let request = RequestView { state: RequestState::Running, worker: None, since_ms: Some(5) };
    let view = pipeline_view("gate", &state, &Requests::from([(id("b1"), request)]), &fleet());
    let items = view.change_queues[0].heads.concat();
    assert_eq!((&items[0].why, &items[0].jobs[0].why), (&None, &None));
    let why = |at: usize| items[at].why.as_deref().unwrap();
    assert_eq!(why(1), "Its jobs have ended; 1 item ahead must end first.");
    assert!(why(2).starts_with("It is number 3 of its queue, and 2 are tested at a time"), "{}", why(2));
}

#[test]
fn estimates_are_for_jobs_that_have_not_ended() {
    let jobs = vec![
        job("unit", &[], vec![build("b1", 1, None)]),
        job("lint", &[], vec![build("b2", 1, Some("SUCCESS"))]),
    ];
    let state = state(vec![("i1", item("one", None, jobs))]);
    let pipeline = pipeline_view("gate", &state, &Requests::new(), &fleet());
    let mut view = StatusView { pipelines: vec![pipeline], ..StatusView::default() };
    let took = |name: &str, job: &str| HistoryBuild {
        uuid: id(name),
        job_name: job.to_owned(),
        result: Some("SUCCESS".to_owned()),
        voting: true,
        is_final: true,
        attempt: 1,
        start_time: Some(1),
        end_time: Some(41),
        executor: Some("e1".to_owned()),
    };
    let record = record(vec![took("b8", "unit"), took("b9", "lint")]);
    Estimates::of([&record]).fill_in(&mut view);
    let jobs = &view.pipelines[0].change_queues[0].heads[0][0].jobs;
    assert_eq!((jobs[0].estimated_ms, jobs[1].estimated_ms), (Some(40), None));
    assert_eq!(ended_build(&record, &id("b1")), None);
    let build = ended_build(&record, &id("b9")).unwrap();
    assert_described(&build);
    assert_eq!((build.item.as_str(), build.state), ("org/app:refs/heads/main", BuildState::Ended));
}
