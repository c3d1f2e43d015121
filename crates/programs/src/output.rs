//! What programs print: passed on as it comes, and its end kept for who wants to know why something failed.
//!
//! Our own streams are written by threads of their own. Whoever does not read them, a terminal that was stopped, say, must
//! not stop the loop that keeps leases up and ends tasks.

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

/// As much of the end of what a program prints is kept.
pub const KEPT_BYTES_MAX: usize = 4 << 10;
/// So much is read at once.
pub(crate) const CHUNK_BYTES: usize = 8 << 10;
/// Chunks that wait for a reader who has stopped reading: half a megabyte; more is dropped.
const CHUNKS_MAX: usize = 64;
/// So long a reader is waited for. Then what comes is dropped, until it reads again.
const READER_PATIENCE: Duration = Duration::from_secs(1);

/// Which of our own streams something is passed on to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// One of our own streams.
struct Stream {
    chunks: mpsc::Sender<Chunk>,
    /// Nobody reads it: it is not waited for.
    unread: Arc<AtomicBool>,
}

struct Chunk {
    bytes: Vec<u8>,
    /// Dropped when it is written.
    _written: oneshot::Sender<()>,
}

impl To {
    fn stream(self) -> &'static Stream {
        static STDOUT: OnceLock<Stream> = OnceLock::new();
        static STDERR: OnceLock<Stream> = OnceLock::new();
        match self {
            Self::Stdout => STDOUT.get_or_init(|| Stream::begin("stdout", io::stdout())),
            Self::Stderr => STDERR.get_or_init(|| Stream::begin("stderr", io::stderr())),
        }
    }
}

impl Stream {
    fn begin(name: &str, mut out: impl Write + Send + 'static) -> Self {
        let (chunks, mut waiting) = mpsc::channel::<Chunk>(CHUNKS_MAX);
        let unread = Arc::new(AtomicBool::new(false));
        let stuck = unread.clone();
        let run = move || {
            while let Some(chunk) = waiting.blocking_recv() {
                // Who has closed it wants none of it.
                let _ = out.write_all(&chunk.bytes).and_then(|()| out.flush());
                stuck.store(false, Ordering::Relaxed);
            }
        };
        // It ends with the process. Without it everything is dropped, and the work goes on.
        let _ = thread::Builder::new().name(name.to_owned()).spawn(run);
        Self { chunks, unread }
    }

    /// Whether it was taken: written, or kept until somebody reads.
    async fn write(&self, bytes: &[u8]) -> bool {
        let (_written, done) = oneshot::channel();
        let chunk = Chunk { bytes: bytes.to_vec(), _written };
        if self.unread.load(Ordering::Relaxed) {
            return self.chunks.try_send(chunk).is_ok();
        }
        let passed = async {
            if self.chunks.send(chunk).await.is_ok() {
                let _ = done.await;
            }
        };
        let passed = tokio::time::timeout(READER_PATIENCE, passed).await.is_ok();
        if !passed {
            self.unread.store(true, Ordering::Relaxed);
        }
        passed
    }
}

/// Writes to one of our own streams. Waits for who reads it, but not for long, and holds up nobody else.
pub async fn write(to: To, bytes: &[u8]) {
    let stream = to.stream();
    let read = !stream.unread.load(Ordering::Relaxed);
    if !stream.write(bytes).await && read {
        warn!(stream = ?to, "nobody reads what is printed; it is dropped until somebody does");
    }
}

/// Reads until the end, and gives the last part of it.
pub(crate) async fn pass_on(from: Option<pipe::Receiver>, to: To) -> Vec<u8> {
    let mut tail = VecDeque::new();
    let Some(mut from) = from else { return Vec::new() };
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        keep(&mut tail, &chunk[..read]);
        write(to, &chunk[..read]).await;
    }
    tail.into()
}

/// Adds to the end, and forgets the beginning.
pub(crate) fn keep(tail: &mut VecDeque<u8>, bytes: &[u8]) {
    tail.extend(bytes);
    let old = tail.len().saturating_sub(KEPT_BYTES_MAX);
    tail.drain(..old);
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use super::*;

    /// Writes only when it is let.
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
    async fn reader_that_has_stopped_is_waited_for_once_and_written_to_when_it_reads_again() {
        let (go_on, stopped) = mpsc::channel();
        let written = Arc::new(Mutex::new(Vec::new()));
        let stream = Stream::begin("test", Stopped { go_on: stopped, written: written.clone() });
        assert!(!stream.write(b"a").await, "nobody reads it");
        // Each of these would wait for a second, and a thousand for a quarter of an hour.
        let mut kept = 0;
        for _ in 0..1000 {
            kept += usize::from(stream.write(b"b").await);
        }
        // The first may still be among them, if its thread had no time yet.
        assert!((CHUNKS_MAX - 1..=CHUNKS_MAX).contains(&kept), "the others are dropped, not {kept}");
        drop(go_on);
        while written.lock().unwrap().len() <= kept {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        while !stream.write(b"c").await {}
        assert!(written.lock().unwrap().starts_with(b"ab"));
    }
}
