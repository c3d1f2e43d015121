//! The messages between wrapper and guard. Both are the same executable, so no message needs a version.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

/// Every message but the first has this size: three numbers.
pub(super) const FRAME_BYTES: usize = 24;

/// A message on the channel.
pub(super) type Frame = [u8; FRAME_BYTES];

/// The size of what comes before the words of a [`Start`].
pub(super) const HEAD_BYTES: usize = 48;

/// What to run: the wrapper's first message, and again after [`Order::Next`]. The three standard streams are sent along
/// as descriptors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Start {
    pub deadline: u64,
    /// Nanoseconds.
    pub grace: u64,
    /// The wrapper's process group, if the command takes its place in the terminal; else 0.
    pub terminal_group: u32,
    /// The guard waits for another command when nothing of this one is left.
    pub stays: bool,
    /// Empty: the guard's own.
    pub directory: OsString,
    /// Changes to the guard's environment: `NAME=VALUE`.
    pub environment: Vec<OsString>,
    /// The program and its arguments.
    pub words: Vec<OsString>,
}

/// What the wrapper sends after the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Send this signal to the command's process group.
    Signal(i32),
    /// Replace the deadline, in nanoseconds of `CLOCK_BOOTTIME`.
    Deadline(u64),
    /// Send SIGTERM now, and SIGKILL after this many nanoseconds.
    Stop(u64),
    /// Nothing is left of the last one: another [`Start`] follows.
    Next,
}

/// How the command itself ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Exited(i32),
    Signaled(i32),
}

/// What the guard sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Report {
    /// The command runs.
    Started { pid: u32, start: u64 },
    /// The command does not run: its directory cannot be entered.
    NoDirectory { errno: i32 },
    /// The command does not run: its program cannot be executed.
    NoProgram { errno: i32 },
    /// The command does not run: its deadline had passed.
    TooLate,
    /// The command has ended, and nothing of it is left.
    Ended(End),
    /// The same, and it ended because of its deadline.
    Expired(End),
}

impl Start {
    /// The head and the words. Words end with a zero byte, which no argument can hold.
    pub(super) fn encode(&self) -> ([u8; HEAD_BYTES], Vec<u8>) {
        let mut body = Vec::new();
        for word in std::iter::once(&self.directory).chain(&self.environment).chain(&self.words) {
            body.extend_from_slice(word.as_bytes());
            body.push(0);
        }
        let numbers = [
            body.len() as u64,
            self.deadline,
            self.grace,
            u64::from(self.terminal_group),
            u64::from(self.stays),
            self.environment.len() as u64,
        ];
        let mut head = [0; HEAD_BYTES];
        for (bytes, number) in head.chunks_exact_mut(8).zip(numbers) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        (head, body)
    }

    /// How many bytes of words follow this head.
    pub(super) fn body_bytes(head: &[u8; HEAD_BYTES]) -> usize {
        number(head, 0) as usize
    }

    /// Decodes a head and its words.
    pub(super) fn decode(head: &[u8; HEAD_BYTES], body: &[u8]) -> Option<Self> {
        let mut words =
            body.strip_suffix(&[0])?.split(|byte| *byte == 0).map(|word| OsStr::from_bytes(word).to_owned());
        Some(Self {
            deadline: number(head, 1),
            grace: number(head, 2),
            terminal_group: u32::try_from(number(head, 3)).ok()?,
            stays: number(head, 4) != 0,
            directory: words.next()?,
            environment: words.by_ref().take(number(head, 5) as usize).collect(),
            words: words.collect(),
        })
    }

    /// Whether all words can be arguments at all.
    pub(super) fn has_no_zero_bytes(&self) -> bool {
        let clean = |word: &OsString| !word.as_bytes().contains(&0);
        clean(&self.directory) && self.environment.iter().chain(&self.words).all(clean)
    }
}

impl Order {
    pub(super) fn encode(self) -> Frame {
        match self {
            Self::Signal(signal) => frame(0, signal as u64, 0),
            Self::Deadline(deadline) => frame(1, deadline, 0),
            Self::Stop(grace) => frame(2, grace, 0),
            Self::Next => frame(3, 0, 0),
        }
    }

    pub(super) fn decode(bytes: &Frame) -> Option<Self> {
        let value = number(bytes, 1);
        match number(bytes, 0) {
            0 => Some(Self::Signal(value as i32)),
            1 => Some(Self::Deadline(value)),
            2 => Some(Self::Stop(value)),
            3 => Some(Self::Next),
            _ => None,
        }
    }
}

impl End {
    /// As two numbers; the first is 0 or 1.
    fn encode(self) -> (u64, u64) {
        match self {
            Self::Exited(code) => (0, code as u64),
            Self::Signaled(signal) => (1, signal as u64),
        }
    }

    fn decode(kind: u64, value: u64) -> Option<Self> {
        match kind {
            0 => Some(Self::Exited(value as i32)),
            1 => Some(Self::Signaled(value as i32)),
            _ => None,
        }
    }
}

impl Report {
    pub(super) fn encode(self) -> Frame {
        match self {
            Self::Started { pid, start } => frame(0, u64::from(pid), start),
            Self::NoDirectory { errno } => frame(1, errno as u64, 0),
            Self::NoProgram { errno } => frame(2, errno as u64, 0),
            Self::TooLate => frame(3, 0, 0),
            Self::Ended(end) => {
                let (kind, value) = end.encode();
                frame(4, kind, value)
            }
            Self::Expired(end) => {
                let (kind, value) = end.encode();
                frame(5, kind, value)
            }
        }
    }

    pub(super) fn decode(bytes: &Frame) -> Option<Self> {
        let (first, second) = (number(bytes, 1), number(bytes, 2));
        match number(bytes, 0) {
            0 => Some(Self::Started { pid: u32::try_from(first).ok()?, start: second }),
            1 => Some(Self::NoDirectory { errno: first as i32 }),
            2 => Some(Self::NoProgram { errno: first as i32 }),
            3 => Some(Self::TooLate),
            4 => End::decode(first, second).map(Self::Ended),
            5 => End::decode(first, second).map(Self::Expired),
            _ => None,
        }
    }
}

fn frame(kind: u64, first: u64, second: u64) -> Frame {
    let mut frame = [0; FRAME_BYTES];
    for (bytes, number) in frame.chunks_exact_mut(8).zip([kind, first, second]) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
    frame
}

/// The number at this position.
fn number(bytes: &[u8], position: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[position * 8..position * 8 + 8]);
    u64::from_le_bytes(number)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn every_message_is_read_as_it_was_written() {
        for order in [Order::Signal(15), Order::Deadline(u64::MAX), Order::Stop(7), Order::Next] {
            assert_eq!(Order::decode(&order.encode()), Some(order));
        }
        let reports = [
            Report::Started { pid: 4_194_304, start: 1 << 40 },
            Report::NoDirectory { errno: 2 },
            Report::NoProgram { errno: 13 },
            Report::TooLate,
            Report::Ended(End::Exited(255)),
            Report::Expired(End::Signaled(9)),
        ];
        for report in reports {
            assert_eq!(Report::decode(&report.encode()), Some(report));
        }
        assert_eq!(Order::decode(&frame(9, 0, 0)), None);
        assert_eq!(Report::decode(&frame(9, 0, 0)), None);
    }

    #[test]
    fn a_start_keeps_empty_words_and_bytes_that_are_no_text() {
        let odd = OsString::from_vec(vec![0xff, b'\n']);
        for words in [vec!["true".into()], vec!["sh".into(), "".into(), odd, "".into()]] {
            for directory in ["", "/some where"] {
                let start = Start {
                    deadline: u64::MAX,
                    grace: 3,
                    terminal_group: 77,
                    stays: directory.is_empty(),
                    directory: directory.into(),
                    environment: vec!["A=".into(), "B=c d".into()],
                    words: words.clone(),
                };
                let (head, body) = start.encode();
                assert_eq!(Start::body_bytes(&head), body.len());
                assert_eq!(Start::decode(&head, &body), Some(start));
            }
        }
    }
}
