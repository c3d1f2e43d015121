//! `flow run`: everything that a job needs, in one process.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use super::{counted, words};
use crate::cli::User;

#[test]
fn a_job_runs_with_nothing_else_running() {
    let user = User::nowhere();
    let expected = words(&user, 20_000);
    let done = user.run(&["flow", "run", "job.toml"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(done.text().trim(), user.folder().join("out").to_str().expect("it is text"));
    assert!(done.stderr.contains("0 of 4 tasks complete"), "{}", done.stderr);
    assert_eq!(counted(&user), expected);
    let left: Vec<_> = fs::read_dir(user.folder()).expect("it can be listed").flatten().collect();
    assert_eq!(left.len(), 3, "job.toml, words and out: {left:?}");
    user.fails(
        &["flow", "run", "job.toml"],
        2,
        &["job.toml:20: ", "is not empty", "name a new or an empty folder"],
    );
}

#[test]
fn a_job_may_be_json_and_its_data_may_be_kept() {
    let user = User::nowhere();
    let expected = words(&user, 500);
    let job = json!({
        "name": "wordcount",
        "workflow": [["read", "by-word"], ["by-word", "count"], ["count", "write"]],
        "catalog": [
            {"name": "read", "type": "input", "plugin": "jsonl", "path": "words/*.jsonl"},
            {"name": "by-word", "type": "grouper", "key": ".word", "partitions": 3, "batch_size": 7},
            {"name": "count", "type": "aggregator", "builtin": "count", "consumption": "sequential"},
            {"name": "write", "type": "output", "plugin": "jsonl", "path": "out"},
        ],
    });
    user.write("job.json", &job.to_string());
    user.ok(&["flow", "check", "job.json"]);
    user.ok(&["flow", "run", "job.json", "--data", "data", "--peers", "1"]);
    assert_eq!(counted(&user), expected);
    assert!(user.folder().join("data/journal").is_dir());
}

/// From the first moment on, a signal ends it as a signal does, and nothing looks done.
#[test]
fn a_run_that_is_stopped_while_it_starts_does_not_look_done() {
    for signal in [Signal::INT, Signal::TERM] {
        let user = User::nowhere().with("TMPDIR", "tmp");
        words(&user, 10);
        fs::create_dir(user.folder().join("tmp")).expect("a folder can be made");
        let mut run = user.spawn(&["flow", "run", "job.toml"]);
        run.wait_until("it has begun to start", menagerie_testkit::DEADLINE, || {
            fs::read_dir(user.folder().join("tmp")).is_ok_and(|mut entries| entries.next().is_some())
        });
        run.signal(signal);
        let end = run.wait_for_end();
        if end.status.code() == Some(0) {
            // It was quicker than the signal.
            assert!(user.folder().join("out/_SUCCESS").exists());
            continue;
        }
        let by_default = end.status.code().is_none();
        assert!(by_default || end.status.code() == Some(128 + signal.as_raw()), "{:?}", end.status);
        assert_eq!(end.stdout, Vec::<String>::new());
        assert!(!user.folder().join("out").exists());
    }
}

#[test]
fn an_interrupted_run_ends_and_gives_its_folder_back() {
    let user = User::nowhere();
    // Far more than can be counted before it is interrupted.
    words(&user, 3_000_000);
    let mut run = user.spawn(&["flow", "run", "job.toml"]);
    run.wait_until("the job runs", menagerie_testkit::DEADLINE, || user.folder().join("out/.job").exists());
    run.signal(Signal::TERM);
    assert_eq!(run.wait_for_end().status.code(), Some(143));
    assert!(!user.folder().join("out").exists());
}
