//! Output of programs: forwarded as it comes, with its end kept to explain failures.
//!
//! Threads write our own streams, so that a reader that stalls, such as a stopped terminal, does not block the loop
//! that extends leases and ends tasks.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};
use tracing::warn;

/// How much of the end of a program's output is kept.
pub const KEPT_BYTES_MAX: usize = 4 << 10;
/// Bytes per read.
pub(crate) const CHUNK_BYTES: usize = 8 << 10;
/// Chunks buffered for a reader that stalls, half a megabyte; more is dropped.
const CHUNKS_MAX: usize = 64;
/// How long to wait for a reader that stalls. After that, output is dropped until it reads again.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// One of our own streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A thread that writes one of our own streams.
struct Writer {
    chunks: mpsc::Sender<Chunk>,
    /// The reader stalls: do not wait for it.
    is_stuck: Arc<AtomicBool>,
}

struct Chunk {
    bytes: Vec<u8>,
    /// Dropped once it is written.
    _written: oneshot::Sender<()>,
}

impl OutputStream {
    fn writer(self) -> &'static Writer {
        static STDOUT: OnceLock<Writer> = OnceLock::new();
        static STDERR: OnceLock<Writer> = OnceLock::new();
        match self {
            Self::Stdout => STDOUT.get_or_init(|| Writer::start("stdout", io::stdout())),
            Self::Stderr => STDERR.get_or_init(|| Writer::start("stderr", io::stderr())),
        }
    }
}

impl Writer {
    fn start(name: &str, mut out: impl Write + Send + 'static) -> Self {
        let (chunks, mut waiting) = mpsc::channel::<Chunk>(CHUNKS_MAX);
        let is_stuck = Arc::new(AtomicBool::new(false));
        let stuck = is_stuck.clone();
        let run = move || {
            while let Some(chunk) = waiting.blocking_recv() {
                // If the reader has closed the stream, drop the output.
                let _ = out.write_all(&chunk.bytes).and_then(|()| out.flush());
                stuck.store(false, Ordering::Relaxed);
            }
        };
        // The thread ends with the process. If it cannot start, all output is dropped, and work continues.
        let _ = thread::Builder::new().name(name.to_owned()).spawn(run);
        Self { chunks, is_stuck }
    }

    /// Writes or buffers these bytes; `false` if they are dropped or still waiting.
    async fn write(&self, bytes: &[u8]) -> bool {
        let (_written, done) = oneshot::channel();
        let chunk = Chunk { bytes: bytes.to_vec(), _written };
        if self.is_stuck.load(Ordering::Relaxed) {
            return self.chunks.try_send(chunk).is_ok();
        }
        let passed = async {
            if self.chunks.send(chunk).await.is_ok() {
                let _ = done.await;
            }
        };
        let passed = tokio::time::timeout(WRITE_TIMEOUT, passed).await.is_ok();
        if !passed {
            self.is_stuck.store(true, Ordering::Relaxed);
        }
        passed
    }
}

/// Writes to one of our own streams. Waits for its reader, but not for long.
pub async fn write(to: OutputStream, bytes: &[u8]) {
    let writer = to.writer();
    let was_read = !writer.is_stuck.load(Ordering::Relaxed);
    if !writer.write(bytes).await && was_read {
        warn!(stream = ?to, "nobody reads what is printed; it is dropped until somebody does");
    }
}

/// Forwards until the end, and returns the last part.
pub(crate) async fn forward(from: Option<pipe::Receiver>, to: OutputStream) -> Vec<u8> {
    let mut tail = VecDeque::new();
    let Some(mut from) = from else { return Vec::new() };
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        push_tail(&mut tail, &chunk[..read]);
        write(to, &chunk[..read]).await;
    }
    tail.into()
}

/// Appends bytes, and drops the oldest beyond the limit.
pub(crate) fn push_tail(tail: &mut VecDeque<u8>, bytes: &[u8]) {
    tail.extend(bytes);
    let old = tail.len().saturating_sub(KEPT_BYTES_MAX);
    tail.drain(..old);
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use super::*;

    /// A stream whose reader stalls.
    struct Stopped {
        go_on: mpsc::Receiver<()>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Stopped {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.go_on.recv();
            self.written.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_stalled_reader_is_waited_for_once_and_written_to_when_it_reads_again() {
        let (go_on, stopped) = mpsc::channel();
        let written = Arc::new(Mutex::new(Vec::new()));
        let stream = Writer::start("test", Stopped { go_on: stopped, written: written.clone() });
        assert!(!stream.write(b"a").await, "nobody reads it");
        // If each of these waited for a second, a thousand would take a quarter of an hour.
        let mut kept = 0;
        for _ in 0..1000 {
            kept += usize::from(stream.write(b"b").await);
        }
        // The first may still be in the buffer, if its thread has not run yet.
        assert!((CHUNKS_MAX - 1..=CHUNKS_MAX).contains(&kept), "the others are dropped, not {kept}");
        drop(go_on);
        while written.lock().unwrap().len() <= kept {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        while !stream.write(b"c").await {}
        assert!(written.lock().unwrap().starts_with(b"ab"));
    }
}
