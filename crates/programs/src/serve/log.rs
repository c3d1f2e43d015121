//! What a program that is fed lines prints besides replies: standard error, which is forwarded, and stray lines. The end
//! of it is kept to explain failures.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::output::{self, CHUNK_BYTES, OutputStream, push_tail};

/// Reads that drain everything a pipe holds at one moment: 64 KiB on Linux.
const CHUNKS_IN_A_PIPE: usize = (64 << 10) / CHUNK_BYTES;

/// The end of a program's output.
pub(super) struct Log {
    kept: Arc<Mutex<Kept>>,
    /// Requests to read everything printed so far; answered by dropping them.
    waiting: mpsc::Sender<oneshot::Sender<()>>,
    reader: AbortHandle,
}

#[derive(Default)]
struct Kept {
    tail: VecDeque<u8>,
    /// Bytes printed since the start.
    total: u64,
}

/// A position in a program's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark(u64);

impl Kept {
    fn push(&mut self, bytes: &[u8]) {
        push_tail(&mut self.tail, bytes);
        self.total += bytes.len() as u64;
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Log {
    /// Reads it from here on.
    pub(super) fn follow(mut from: pipe::Receiver) -> Self {
        let (waiting, mut asked) = mpsc::channel::<oneshot::Sender<()>>(1);
        let kept = Arc::new(Mutex::new(Kept::default()));
        let printed = kept.clone();
        // The task ends with the program or with us.
        let reader = tokio::spawn(async move {
            let mut chunk = vec![0; CHUNK_BYTES];
            let take = async |bytes: &[u8]| {
                lock(&printed).push(bytes);
                output::write(OutputStream::Stderr, bytes).await;
            };
            loop {
                tokio::select! {
                    read = from.read(&mut chunk) => match read {
                        Ok(read @ 1..) => take(&chunk[..read]).await,
                        Ok(_) | Err(_) => return,
                    },
                    // Dropping it answers it.
                    Some(_answer) = asked.recv() => {
                        for _ in 0..CHUNKS_IN_A_PIPE {
                            let Ok(read @ 1..) = from.try_read(&mut chunk) else { break };
                            take(&chunk[..read]).await;
                        }
                    }
                }
            }
        });
        Self { kept, waiting, reader: reader.abort_handle() }
    }

    /// Adds a line of standard output.
    pub(super) fn push_line(&self, line: &[u8]) {
        let mut kept = lock(&self.kept);
        kept.push(line);
        kept.push(b"\n");
    }

    /// The end of what is known of the output now.
    pub(super) fn mark(&self) -> Mark {
        Mark(lock(&self.kept).total)
    }

    /// The output since the mark, or the end of it. Drains the pipe first: output printed before an answer may be read
    /// after it.
    pub(super) async fn since(&self, Mark(mark): Mark) -> Vec<u8> {
        let (answer, answered) = oneshot::channel();
        if self.waiting.send(answer).await.is_ok() {
            let _ = answered.await;
        }
        let kept = lock(&self.kept);
        let new = usize::try_from(kept.total - mark).unwrap_or(usize::MAX);
        kept.tail.iter().skip(kept.tail.len().saturating_sub(new)).copied().collect()
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
