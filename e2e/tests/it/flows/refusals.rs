//! Bad jobs are refused with the line, the reason and what to try; bad data fails the job, and names the line.

use super::{JOB, counted, words};
use crate::cli::User;

#[test]
fn bad_jobs_are_refused_where_the_fault_is() {
    let user = User::nowhere();
    words(&user, 10);
    user.write("full/file", "");
    for (instead_of, write, words) in [
        ("[\"count\", \"write\"]", "[\"count\", \"wrote\"]", "job.toml:2: there is no task \"wrote\""),
        ("name = \"by-word\"", "name = \"read\"", "job.toml:9: there are two tasks with the name \"read\""),
        ("key = \".word\"", "kye = \".word\"", "job.toml:11: there is no key \"kye\" here"),
        ("[\"count\", \"write\"]", "[\"count\", \"by-word\"]", "job.toml:2: the workflow has a cycle"),
        ("[[\"read\", \"by-word\"], ", "[", "job.toml:4: task \"read\" is in no edge"),
        (
            "type = \"input\"\nplugin = \"jsonl\"\npath = \"words/*.jsonl\"",
            "type = \"transformer\"\nbuiltin = \"identity\"",
            "job.toml:5: nothing flows into task \"read\", and it is no input",
        ),
        (
            "type = \"output\"\nplugin = \"jsonl\"\npath = \"out\"",
            "type = \"transformer\"\nbuiltin = \"identity\"",
            "job.toml:18: nothing flows out of task \"write\", and it is no output",
        ),
        (
            "type = \"grouper\"\nkey = \".word\"",
            "type = \"transformer\"\nbuiltin = \"identity\"",
            "job.toml:2: only a grouper may be before aggregator \"count\"",
        ),
        (
            "key = \".word\"",
            "key = \".word\"\nbatch_size = 0",
            "job.toml:12: batch_size must be a number from 1",
        ),
        ("words/*.jsonl", "nothing/*.jsonl", "job.toml:7: no file matches"),
        ("path = \"out\"", "path = \"full\"", "is not empty"),
        ("path = \"out\"", "path = \"job.toml/out\"", "job.toml:20: cannot "),
        ("type = \"grouper\"", "type = ", "job.toml:10: "),
    ] {
        let text = JOB.replacen(instead_of, write, 1);
        assert_ne!(text, JOB);
        user.write("job.toml", &text);
        user.fails(&["flow", "check", "job.toml"], 2, &[words, "help: "]);
    }
    for verb in ["run", "submit"] {
        user.fails(&["flow", verb, "job.toml"], 2, &["job.toml:10: ", "help: "]);
    }
    user.write("job.json", r#"{"name": "a", "workflow": [["a", "b"]], "catalog": [{"name": 7}]}"#);
    user.fails(
        &["flow", "check", "job.json"],
        2,
        &["job.json: catalog[0].name: name must be a text", "help: "],
    );
    user.fails(&["flow", "check", "missing.toml"], 2, &["cannot read missing.toml"]);
    assert!(!user.folder().join("out").exists(), "what is refused leaves nothing behind");
}

#[test]
fn a_bad_line_fails_the_job_by_name_and_once_it_is_mended_the_same_job_runs() {
    let user = User::nowhere();
    words(&user, 10);
    user.write("words/b.jsonl", "{\"word\": \"a\"}\n\nword\n");
    let place = "words/b.jsonl:3: no JSON";
    user.fails(&["flow", "run", "job.toml"], 1, &["job wordcount failed: task \"read\"", place]);
    user.write("words/b.jsonl", "{\"word\": \"b-only\"}\n");
    user.ok(&["flow", "run", "job.toml"]);
    assert_eq!(counted(&user)["b-only"], 1);
}
