//! Writes to a client that may be slow, but must not be dead.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

const BUFFER_BYTES: usize = 64 << 10;

/// Buffers small writes, and gives up when the client accepts nothing for a while.
pub(super) struct Writer<W> {
    stream: W,
    /// Time-out of each write, however few bytes it transfers.
    patience: Duration,
    gathered: Vec<u8>,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    pub(super) fn new(stream: W, patience: Duration) -> Self {
        Self { stream, patience, gathered: Vec::new() }
    }

    /// Writes the bytes, or buffers them until there are more.
    pub(super) async fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.gathered.len() + bytes.len() > BUFFER_BYTES {
            self.write_gathered().await?;
        }
        if bytes.len() > BUFFER_BYTES {
            return write(&mut self.stream, bytes, self.patience).await;
        }
        self.gathered.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes all buffered bytes.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        self.write_gathered().await?;
        timeout(self.patience, self.stream.flush()).await?
    }

    async fn write_gathered(&mut self) -> io::Result<()> {
        write(&mut self.stream, &self.gathered, self.patience).await?;
        self.gathered.clear();
        Ok(())
    }
}

async fn write(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8], patience: Duration) -> io::Result<()> {
    let mut left = bytes;
    while !left.is_empty() {
        match timeout(patience, stream.write(left)).await?? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            taken => left = &left[taken..],
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, duplex};
    use tokio::time::{Instant, sleep};

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(500);

    /// Two tasks on one thread: after a stall of the machine, the one that was due first is woken first, and that is
    /// the reader.
    #[tokio::test]
    async fn who_takes_little_by_little_is_waited_for() {
        let (ours, mut theirs) = duplex(1000);
        let reader = tokio::spawn(async move {
            let (mut found, mut buffer) = (Vec::new(), [0; 1000]);
            loop {
                sleep(PATIENCE / 5).await;
                match theirs.read(&mut buffer).await.unwrap() {
                    0 => return found,
                    len => found.extend_from_slice(&buffer[..len]),
                }
            }
        });
        let begun = Instant::now();
        let writing = tokio::spawn(async move {
            let mut writer = Writer::new(ours, PATIENCE);
            for part in [vec![1; 3000], vec![2; 3000], vec![3; BUFFER_BYTES / 8]] {
                writer.put(&part).await.unwrap();
            }
            writer.flush().await.unwrap();
        });
        writing.await.unwrap();
        assert!(begun.elapsed() > PATIENCE * 2);
        let found = reader.await.unwrap();
        assert_eq!(found, [vec![1; 3000], vec![2; 3000], vec![3; BUFFER_BYTES / 8]].concat());
    }

    #[tokio::test]
    async fn who_takes_nothing_is_given_up() {
        for size in [2000, 2 * BUFFER_BYTES] {
            let (ours, _theirs) = duplex(1000);
            let mut writer = Writer::new(ours, PATIENCE);
            let written = async {
                writer.put(&vec![1; size]).await?;
                writer.flush().await
            };
            assert_eq!(written.await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        }
    }
}
