//! Lanes of inputs: files, line by line. A control partition has one message, the list of its files; the position beyond
//! it counts batches, and a record says how far they go.

use std::path::Path;

use menagerie_journal::{Commit, MessageId, PartitionId, Read, Ticks};
use serde::{Deserialize, Serialize};

use super::commits::Commits;
use super::writing::Writing;
use super::{Lane, LaneError, on_thread, stored_mark};
use crate::files::input::{LineReader, Lines};
use crate::links::partition;
use crate::segments::segment;

/// The record's key.
const MARK: &[u8] = b"read";
/// Bytes of batches in one commit.
const COMMIT_BYTES: usize = 1 << 20;

/// How far the files are read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    /// Files that are done.
    files: usize,
    /// Bytes of the next one that are done.
    offset: u64,
    /// Lines of it that are done.
    line: u64,
}

pub async fn run(lane: &Lane) -> Result<(), LaneError> {
    let control = partition(&lane.task.topics.control(lane.task.number), lane.partition);
    let opened = lane.open(&control).await?;
    let files = files(lane, &control).await?;
    let mark = stored_mark(&opened, MARK)?;
    let mut input = Input {
        lane,
        control,
        position: opened.position,
        writing: Writing::new(lane),
        commits: Commits::new(lane.task.journal.clone()),
        mark,
    };
    while let Some(file) = files.get(input.mark.files) {
        input.read_file(Path::new(file)).await?;
        input.mark = Mark { files: input.mark.files + 1, offset: 0, line: 0 };
        input.commit().await?;
    }
    input.commits.settle().await
}

/// The files of this partition, as they were when the job was planned.
async fn files(lane: &Lane, control: &PartitionId) -> Result<Vec<String>, LaneError> {
    let batch = lane.task.journal.read(Read::after(control.clone(), MessageId::ZERO).limit(1)).await?;
    let list = batch.messages.first().map(|message| serde_json::from_slice(&message.body));
    match list {
        Some(Ok(files)) => Ok(files),
        Some(Err(error)) => Err(LaneError::Failed(format!("the list of files is damaged: {error}"))),
        None => Err(LaneError::Failed("there is no list of files".to_owned())),
    }
}

struct Input<'a> {
    lane: &'a Lane,
    control: PartitionId,
    position: MessageId,
    writing: Writing,
    commits: Commits,
    /// How far what was given to `writing` goes.
    mark: Mark,
}

impl Input<'_> {
    async fn read_file(&mut self, path: &Path) -> Result<(), LaneError> {
        let (owned, offset) = (path.to_owned(), self.mark.offset);
        let mut reader = on_thread(move || LineReader::open(&owned, offset)).await?;
        loop {
            let (lines, back) = on_thread(move || {
                let lines = reader.next_lines()?;
                Ok((lines, reader))
            })
            .await?;
            reader = back;
            let Lines { bytes, is_last } = lines;
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                self.mark.line += 1;
                if !line.iter().all(u8::is_ascii_whitespace) {
                    let refuse =
                        |why| LaneError::Failed(format!("{}:{}: {why}", path.display(), self.mark.line));
                    // Some editors write a byte order mark.
                    let is_first = self.mark.line == 1;
                    let marked = line.strip_prefix(b"\xef\xbb\xbf").filter(|_| is_first);
                    let text = segment(marked.unwrap_or(line)).map_err(refuse)?;
                    self.writing.push(text);
                }
                self.mark.offset += line.len() as u64;
                if self.writing.ready_bytes() >= COMMIT_BYTES {
                    self.commit().await?;
                }
            }
            if is_last {
                return Ok(());
            }
            tokio::task::yield_now().await;
        }
    }

    /// Commits all that was read so far.
    async fn commit(&mut self) -> Result<(), LaneError> {
        let appends = self.writing.take_all();
        // Batches count as ticks of the position; one, if only the mark moves.
        let from = self.position;
        self.position = MessageId(Ticks(from.0.0 + (appends.len() as u64).max(1)));
        let mark = serde_json::to_vec(&self.mark).expect("it is three numbers");
        let commit = Commit {
            appends,
            moves: vec![self.lane.moved(&self.control, from, self.position)],
            states: vec![self.lane.state(&self.control, MARK, mark)],
            ..Commit::default()
        };
        self.commits.send(commit).await?;
        Ok(self.writing.wait_for_readers(self.lane).await?)
    }
}
