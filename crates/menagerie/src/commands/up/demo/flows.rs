//! Virtual peers count the words of a text.

use std::fmt::Display;
use std::fs;
use std::path::Path;

use menagerie_flows::client::{Ended, Jobs, new_id};
use menagerie_flows::files::output;
use menagerie_flows::job::read;
use menagerie_kernel::{Config, Session};
use menagerie_znodes::Name;
use menagerie_znodes::flows::Deployment;
use serde_json::{Value, json};

use super::{Stopping, stop_requested};

const TEXT: &str = include_str!("text.txt");
const JOB: &str = "wordcount";
/// Words that are shown.
const SHOWN: usize = 10;

/// Runs the demo. Its files are in a folder of their own below `root`, and go with it.
pub async fn run(config: Config, root: &Path, menagerie: &str, stopping: Stopping) -> Result<(), String> {
    let folder = root.join("demo");
    let shown = tokio::select! {
        shown = show(config, &folder, menagerie) => shown,
        () = stop_requested(stopping) => Ok(()),
    };
    // What is left of it is in the way of the next demo only, which begins by removing it.
    let _ = fs::remove_dir_all(&folder);
    shown
}

async fn show(config: Config, folder: &Path, menagerie: &str) -> Result<(), String> {
    let session = Session::connect(config).await.map_err(to_text)?;
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(to_text)?;
    fs::write(folder.join("text.jsonl"), words()).map_err(to_text)?;
    let job = read::job(&job(), folder).map_err(to_text)?;
    let (id, out) = (new_id(), folder.join("out"));
    output::claim(&out, id.as_str()).map_err(|unusable| unusable.why)?;
    let deployment = Deployment::new(Name::new("default").map_err(to_text)?);
    let jobs = Jobs { session: session.clone(), deployment };
    jobs.submit(&id, &job).await.map_err(to_text)?;
    println!("demo: job {JOB} counts the words of a text; see it with `{menagerie} flow show {id}`");
    match jobs.wait(&id, |_| {}).await.map_err(to_text)? {
        Ended::Complete => {}
        ended => return Err(format!("job {JOB} is not complete: {ended:?}")),
    }
    let frequent: Vec<String> =
        most_frequent(&out)?.into_iter().map(|(count, word)| format!("{word} {count}")).collect();
    println!("demo: the {SHOWN} most frequent words: {}", frequent.join(", "));
    session.close().await;
    Ok(())
}

/// The words of the text, as segments.
fn words() -> String {
    let words = TEXT.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
    words.map(|word| format!("{}\n", json!({ "word": word.to_lowercase() }))).collect()
}

fn job() -> Value {
    json!({
        "name": JOB,
        "workflow": [["read", "by-word"], ["by-word", "count"], ["count", "write"]],
        "catalog": [
            { "name": "read", "type": "input", "plugin": "jsonl", "path": "text.jsonl" },
            { "name": "by-word", "type": "grouper", "key": ".word" },
            { "name": "count", "type": "aggregator", "builtin": "count" },
            { "name": "write", "type": "output", "plugin": "jsonl", "path": "out" },
        ],
    })
}

/// The most frequent words; equal counts in alphabetical order.
fn most_frequent(out: &Path) -> Result<Vec<(u64, String)>, String> {
    let mut counts = Vec::new();
    for entry in fs::read_dir(out).map_err(to_text)? {
        let path = entry.map_err(to_text)?.path();
        if path.ends_with(output::SUCCESS) {
            continue;
        }
        for line in fs::read_to_string(path).map_err(to_text)?.lines() {
            let count: Value = serde_json::from_str(line).map_err(to_text)?;
            let word = count["key"].as_str().unwrap_or_default().to_owned();
            counts.push((count["value"].as_u64().unwrap_or_default(), word));
        }
    }
    counts.sort_by(|a, b| (b.0, &a.1).cmp(&(a.0, &b.1)));
    counts.truncate(SHOWN);
    Ok(counts)
}

fn to_text(error: impl Display) -> String {
    error.to_string()
}
