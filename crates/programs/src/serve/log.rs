//! What a program that is fed prints to its standard error.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::output::{self, CHUNK_BYTES, To, keep};

/// So often a pipe is read until all is read that was in it when that began: Linux gives it 64 KiB.
const CHUNKS_IN_A_PIPE: usize = (64 << 10) / CHUNK_BYTES;

/// The end of what a program has printed to its standard error, which is passed on.
pub(super) struct Log {
    tail: Arc<Mutex<VecDeque<u8>>>,
    /// Whoever waits until all is read that is there by now.
    waiting: mpsc::Sender<oneshot::Sender<()>>,
    reader: AbortHandle,
}

impl Drop for Log {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Log {
    /// Begins to read it.
    pub(super) fn follow(mut from: pipe::Receiver) -> Self {
        let (waiting, mut asked) = mpsc::channel::<oneshot::Sender<()>>(1);
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let kept = tail.clone();
        // It ends with the program, or with us.
        let reader = tokio::spawn(async move {
            let mut chunk = vec![0; CHUNK_BYTES];
            let take = async |bytes: &[u8]| {
                keep(&mut kept.lock().unwrap_or_else(PoisonError::into_inner), bytes);
                output::write(To::Stderr, bytes).await;
            };
            loop {
                tokio::select! {
                    read = from.read(&mut chunk) => match read {
                        Ok(read @ 1..) => take(&chunk[..read]).await,
                        Ok(_) | Err(_) => return,
                    },
                    // Dropped, it has its answer.
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

    /// What was printed before belongs to another line.
    pub(super) fn clear(&self) {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The end of what was printed until now: what was said before an answer may be read after it.
    pub(super) async fn tail(&self) -> Vec<u8> {
        let (answer, answered) = oneshot::channel();
        if self.waiting.send(answer).await.is_ok() {
            let _ = answered.await;
        }
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }
}
