//! Lanes of transformers and groupers: what comes in goes out, perhaps by key.

use menagerie_journal::Commit;

use super::commits::Commits;
use super::reading::Reading;
use super::writing::Writing;
use super::{Lane, LaneError};
use crate::job::Function;
use crate::segments::{KEY_BYTES_MAX, KeyPath, Packed, without_line};

pub async fn run(lane: &Lane) -> Result<(), LaneError> {
    let (mut reading, _) = Reading::open(lane).await?;
    let mut writing = Writing::new(lane);
    let mut commits = Commits::new(lane.task.journal.clone());
    let mut key = Vec::new();
    let key_path = match &lane.task.entry.function {
        Function::Group { key } => Some(key),
        Function::Identity | Function::JsonlInput { .. } | Function::JsonlOutput { .. } | Function::Count => {
            None
        }
    };
    while let Some(messages) = reading.next(lane).await? {
        for message in &messages {
            for segment in Packed::new(&message.body)? {
                let (_, text) = segment?;
                match key_path {
                    Some(path) => {
                        path.key_of(text, &mut key).map_err(|error| no_key(path, text, &error))?;
                        check_key(&key)?;
                        writing.push_keyed(&key, text);
                    }
                    None => writing.push(text),
                }
            }
        }
        let (appends, moves) = (writing.take_all(), reading.moves(lane));
        commits.send(Commit { appends, moves, ..Commit::default() }).await?;
        reading.trim(lane, commits.reached()).await?;
        writing.wait_for_readers(lane).await?;
    }
    commits.settle().await
}

fn no_key(path: &KeyPath, text: &[u8], error: &serde_json::Error) -> LaneError {
    let begins: String = String::from_utf8_lossy(text).chars().take(80).collect();
    let why = without_line(error);
    LaneError::Failed(format!("cannot read the key {path} of the segment that begins with {begins}: {why}"))
}

fn check_key(key: &[u8]) -> Result<(), LaneError> {
    if key.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    let begins = String::from_utf8_lossy(&key[..40]).into_owned();
    Err(LaneError::Failed(format!(
        "the key that begins with {begins} is longer than {} KiB",
        KEY_BYTES_MAX >> 10
    )))
}
