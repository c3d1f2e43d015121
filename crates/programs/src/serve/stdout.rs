//! Standard output of a program that is fed lines.

use rustix::io::ioctl_fionread;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::unix::pipe;

/// Bytes per read: all that a pipe holds on Linux, so that a burst of replies costs one system call.
const BUFFER_BYTES: usize = 64 << 10;

/// Reads lines, however they arrive.
pub(super) struct Stdout {
    from: BufReader<pipe::Receiver>,
    /// The start of a line whose end has not arrived.
    partial: Vec<u8>,
    /// Longest line, with its newline.
    line_bytes_max: usize,
}

impl Stdout {
    pub(super) fn new(from: pipe::Receiver, line_bytes_max: usize) -> Self {
        Self { from: BufReader::with_capacity(BUFFER_BYTES, from), partial: Vec::new(), line_bytes_max }
    }

    /// The next line, without its newline. Cancel-safe. After an error there are no more lines; the error is a sentence
    /// about the program.
    pub(super) async fn line(&mut self) -> Result<Vec<u8>, String> {
        loop {
            if let Some(line) = self.buffered_line()? {
                return Ok(line);
            }
            self.fill().await?;
        }
    }

    /// The next line if all of it has been read already.
    pub(super) fn buffered_line(&mut self) -> Result<Option<Vec<u8>>, String> {
        let buffer = self.from.buffer();
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(buffer.len(), |at| at + 1);
        if self.partial.len() + taken > self.line_bytes_max {
            return Err(format!("it printed a line of more than {} bytes", self.line_bytes_max));
        }
        self.partial.extend_from_slice(&buffer[..taken]);
        self.from.consume(taken);
        Ok(end.map(|_| {
            self.partial.pop();
            std::mem::take(&mut self.partial)
        }))
    }

    /// Reads what was printed before this moment. What is printed later may follow it, too.
    pub(super) async fn printed_lines(&mut self, mut each: impl FnMut(&[u8])) -> Result<(), String> {
        let in_pipe = ioctl_fionread(self.from.get_ref()).unwrap_or(0);
        let mut left = self.from.buffer().len() + usize::try_from(in_pipe).unwrap_or(0);
        while left > 0 {
            if self.from.buffer().is_empty() {
                self.fill().await?;
            }
            let before = self.from.buffer().len();
            if let Some(line) = self.buffered_line()? {
                each(&line);
            }
            left = left.saturating_sub(before - self.from.buffer().len());
        }
        Ok(())
    }

    async fn fill(&mut self) -> Result<(), String> {
        match self.from.fill_buf().await {
            Ok([]) if self.partial.is_empty() => Err("it ended without an answer".to_owned()),
            Ok([]) => Err("it ended in the middle of a line".to_owned()),
            Ok(_) => Ok(()),
            Err(error) => Err(format!("its output cannot be read: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn pipe(line_bytes_max: usize) -> (std::io::PipeWriter, Stdout) {
        let (reader, writer) = std::io::pipe().unwrap();
        (writer, Stdout::new(pipe::Receiver::from_owned_fd(reader.into()).unwrap(), line_bytes_max))
    }

    #[tokio::test]
    async fn half_a_line_is_kept_until_the_rest_arrives() {
        let (mut writer, mut stdout) = pipe(100);
        writer.write_all(b"one\ntw").unwrap();
        let mut printed = Vec::new();
        stdout.printed_lines(|line| printed.push(line.to_vec())).await.unwrap();
        assert_eq!(printed, [b"one"]);
        assert!(futures_util::FutureExt::now_or_never(stdout.line()).is_none(), "the line is not complete");
        writer.write_all(b"o\n\nthree\nfo").unwrap();
        for line in ["two", "", "three"] {
            assert_eq!(stdout.line().await.unwrap(), line.as_bytes());
        }
        assert_eq!(stdout.buffered_line(), Ok(None));
        drop(writer);
        assert_eq!(stdout.line().await, Err("it ended in the middle of a line".to_owned()));
    }

    #[tokio::test]
    async fn long_lines_are_refused_before_they_take_memory() {
        let (mut writer, mut stdout) = pipe(4);
        writer.write_all(b"abc\nabcd\n").unwrap();
        assert_eq!(stdout.line().await.unwrap(), b"abc");
        assert_eq!(stdout.line().await, Err("it printed a line of more than 4 bytes".to_owned()));
        let (mut writer, mut stdout) = pipe(4);
        writer.write_all(b"endless").unwrap();
        assert!(stdout.line().await.is_err());
    }
}
