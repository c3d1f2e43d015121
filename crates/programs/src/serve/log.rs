//! Standard error of a program that is fed lines: forwarded, its end kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::output::{self, CHUNK_BYTES, OutputStream, push_tail};

/// Reads that drain everything a pipe holds at one moment: 64 KiB on Linux.
const CHUNKS_IN_A_PIPE: usize = (64 << 10) / CHUNK_BYTES;

/// The end of a program's standard error, which is forwarded.
pub(super) struct Log {
    tail: Arc<Mutex<VecDeque<u8>>>,
    /// Requests to read everything printed so far; answered by dropping them.
    waiting: mpsc::Sender<oneshot::Sender<()>>,
    reader: AbortHandle,
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
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let kept = tail.clone();
        // The task ends with the program or with us.
        let reader = tokio::spawn(async move {
            let mut chunk = vec![0; CHUNK_BYTES];
            let take = async |bytes: &[u8]| {
                push_tail(&mut kept.lock().unwrap_or_else(PoisonError::into_inner), bytes);
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
        Self { tail, waiting, reader: reader.abort_handle() }
    }

    /// Forgets what was printed for earlier lines.
    pub(super) fn clear(&self) {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The end of the output so far. Drains the pipe first: output printed before an answer may be read after it.
    pub(super) async fn tail(&self) -> Vec<u8> {
        let (answer, answered) = oneshot::channel();
        if self.waiting.send(answer).await.is_ok() {
            let _ = answered.await;
        }
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }
}
