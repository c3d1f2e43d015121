//! What programs print: passed on as it comes, and its end kept for who wants to know why something failed.

use std::collections::VecDeque;
use std::io::Write as _;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

use crate::failed::OUTPUT_BYTES_MAX;

/// Which of our own streams it is passed on to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Reads until the end, and gives the last part of it.
pub async fn pass_on(from: Option<pipe::Receiver>, to: To) -> Vec<u8> {
    let mut tail = VecDeque::new();
    let Some(mut from) = from else { return Vec::new() };
    let mut chunk = vec![0; 8 << 10];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        keep(&mut tail, &chunk[..read]);
        // Whoever does not read what we print does not stop our work.
        let _ = match to {
            To::Stdout => std::io::stdout().write_all(&chunk[..read]),
            To::Stderr => std::io::stderr().write_all(&chunk[..read]),
        };
    }
    tail.into()
}

/// Adds to the end, and forgets the beginning.
pub fn keep(tail: &mut VecDeque<u8>, bytes: &[u8]) {
    tail.extend(bytes);
    let old = tail.len().saturating_sub(OUTPUT_BYTES_MAX);
    tail.drain(..old);
}
