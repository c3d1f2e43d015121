//! Lanes of outputs: lines of hidden files, and their recorded lengths.

use std::path::Path;

use menagerie_journal::{Commit, JournalError, Opened};
use menagerie_kernel::unique;

use super::commits::Commits;
use super::reading::Reading;
use super::{Lane, LaneError, Task, on_thread};
use crate::files::output::{HiddenFile, Part, Recorded, hidden_name};
use crate::links::{consumer, partition};
use crate::segments::Packed;

pub async fn run(lane: &Lane, folder: &Path) -> Result<(), LaneError> {
    let (mut reading, opened) = Reading::open(lane).await?;
    let order = opened.state.len() as u64;
    // A file of its own for each time that the partition is opened: whoever had it before may still write to theirs.
    let name = hidden_name(lane.task.job.as_str(), lane.partition, &unique::hex());
    let mut file = None;
    let mut commits = Commits::new(lane.task.journal.clone());
    while let Some(messages) = reading.next(lane).await? {
        let mut lines = Vec::new();
        for message in &messages {
            for segment in Packed::new(&message.body)? {
                lines.extend_from_slice(segment?.1);
                lines.push(b'\n');
            }
        }
        let (taken, folder, name, job) =
            (file.take(), folder.to_owned(), name.clone(), lane.task.job.clone());
        let write = move || {
            let mut file = match taken {
                Some(file) => file,
                None => HiddenFile::create(&folder, job.as_str(), name)?,
            };
            let length = file.append(&lines)?;
            Ok((file, length))
        };
        let write =
            move || write().map_err(|error: std::io::Error| format!("cannot write the output: {error}"));
        let (written, length) = on_thread(write).await?;
        let recorded = serde_json::to_vec(&Recorded { order, length }).expect("it is two numbers");
        let commit = Commit {
            moves: reading.moves(lane),
            states: vec![lane.state(reading.first(), written.name.as_bytes(), recorded)],
            ..Commit::default()
        };
        file = Some(written);
        commits.send(commit).await?;
        reading.trim(lane, commits.reached()).await?;
    }
    commits.settle().await
}

/// What is recorded of all partitions of an output.
pub async fn parts(task: &Task) -> Result<Vec<Part>, JournalError> {
    let Some(first) = task.record.before.first() else { return Ok(Vec::new()) };
    let topic = task.topics.link(*first, task.number);
    let mut parts = Vec::new();
    for number in 1..=task.record.partitions {
        let opened = task.journal.consumer(&partition(&topic, number), &consumer()).await?;
        parts.push(Part { number, files: opened.map_or(Ok(Vec::new()), |opened| recorded(&opened))? });
    }
    Ok(parts)
}

fn recorded(opened: &Opened) -> Result<Vec<(String, u64)>, JournalError> {
    let damaged = |why: &str| JournalError::Damaged(format!("a record of an output file: {why}"));
    let mut files = Vec::new();
    for (name, stored) in &opened.state {
        let name = std::str::from_utf8(name).map_err(|error| damaged(&error.to_string()))?;
        let Recorded { order, length } =
            serde_json::from_slice(stored).map_err(|error| damaged(&error.to_string()))?;
        files.push((order, name.to_owned(), length));
    }
    files.sort_unstable();
    Ok(files.into_iter().map(|(_, name, length)| (name, length)).collect())
}
