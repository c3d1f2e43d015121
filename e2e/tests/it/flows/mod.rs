//! Flows, through the binary: a word count alone and by a fleet that is killed, what is refused, and what operators see.

mod commands;
mod kills;
mod refusals;
mod run;

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::cli::User;

/// The job of the documentation.
const JOB: &str = r#"name = "wordcount"
workflow = [["read", "by-word"], ["by-word", "count"], ["count", "write"]]
[[catalog]]
name = "read"
type = "input"
plugin = "jsonl"
path = "words/*.jsonl"
[[catalog]]
name = "by-word"
type = "grouper"
key = ".word"
[[catalog]]
name = "count"
type = "aggregator"
builtin = "count"
[[catalog]]
name = "write"
type = "output"
plugin = "jsonl"
path = "out"
"#;

/// Gives a user the job and so many words in one file; returns how often each of them is there.
fn words(user: &User, count: u64) -> BTreeMap<String, u64> {
    user.write("job.toml", JOB);
    fs::create_dir_all(user.folder().join("words")).expect("a folder can be made");
    let (mut text, mut counts) = (String::new(), BTreeMap::new());
    for number in 0..count {
        let word = format!("w{}", number * number % 5_003);
        text.push_str(&format!("{{\"word\": \"{word}\"}}\n"));
        *counts.entry(word).or_default() += 1;
    }
    user.write("words/a.jsonl", &text);
    counts
}

/// The counts in the output folder: each word once, and nothing but parts and the mark that they are complete.
#[track_caller]
fn counted(user: &User) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let mut is_complete = false;
    for entry in fs::read_dir(user.folder().join("out")).expect("there is an output") {
        let path = entry.expect("it can be listed").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("it is text");
        if name == "_SUCCESS" {
            is_complete = true;
            continue;
        }
        assert!(name.starts_with("part-") && name.ends_with(".jsonl"), "{name}");
        for line in fs::read_to_string(&path).expect("it can be read").lines() {
            let value: Value = serde_json::from_str(line).expect("it is JSON");
            let key = value["key"].as_str().expect("a word").to_owned();
            let again = counts.insert(key, value["value"].as_u64().expect("a number"));
            assert_eq!(again, None, "{line} is there twice");
        }
    }
    assert!(is_complete);
    counts
}
