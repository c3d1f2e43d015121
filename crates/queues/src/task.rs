//! What is done with a message. A program, or a Rust type: the worker does not care.

use std::fmt;
use std::pin::Pin;

use menagerie_journal::Message;
use menagerie_kernel::Fence;
use menagerie_znodes::queues::PartitionName;

pub use menagerie_programs::Lease;

/// Messages that are to be handled together: one, unless the worker works in batches.
#[derive(Debug, Clone)]
pub struct Work {
    /// Where they are from.
    pub partition: PartitionName,
    /// In order.
    pub messages: Vec<Message>,
    /// Which attempt it is for the first of them, counted from 1; for the others see [`attempt_of`](Self::attempt_of).
    pub attempt: u32,
    /// So many of them, from the first on, may have been run before.
    pub repeats: usize,
    /// Give it along to whatever the task changes: the far side can then refuse who is late.
    pub fence: Fence,
    /// How long it may go on.
    pub lease: Lease,
}

impl Work {
    /// Which attempt it is for the message at this place: 2 or more if it may have been run before.
    pub fn attempt_of(&self, place: usize) -> u32 {
        match place {
            0 => self.attempt,
            place if place < self.repeats => 2,
            _ => 1,
        }
    }
}

/// What came of one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// It is not.
    Failed(Failed),
    /// The task was stopped; nothing is known about the message.
    Stopped,
}

/// Why a message is not done.
#[derive(Clone, PartialEq, Eq)]
pub struct Failed {
    /// What the task says.
    pub error: String,
    /// The end of what it has printed.
    pub output: Vec<u8>,
    /// Whether another attempt may succeed.
    pub retry: bool,
}

/// In logs output is text.
impl fmt::Debug for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failed")
            .field("error", &self.error)
            .field("output", &String::from_utf8_lossy(&self.output))
            .field("retry", &self.retry)
            .finish()
    }
}

impl Outcome {
    /// It failed, and may succeed another time.
    pub fn retry(error: impl fmt::Display) -> Self {
        Self::Failed(Failed { error: error.to_string(), output: Vec::new(), retry: true })
    }

    /// It failed for good.
    pub fn failed(error: impl fmt::Display) -> Self {
        Self::Failed(Failed { error: error.to_string(), output: Vec::new(), retry: false })
    }
}

/// What a task gives, later: an outcome for each message, in order. Those that are missing are taken for stopped.
pub type Outcomes<'a> = Pin<Box<dyn Future<Output = Vec<Outcome>> + Send + 'a>>;

/// Something that handles messages.
pub trait Task: Send + Sync + 'static {
    /// Handles them. When the future is dropped, nothing of it may go on.
    fn run(&self, work: Work) -> Outcomes<'_>;

    /// Whether it ends by itself when it is told to stop, however long that takes, and must not be dropped before: what it
    /// has started would go on for a moment, beside the next owner's. Only the end of the lease ends it earlier.
    fn ends_itself(&self) -> bool {
        false
    }
}

impl<F, R> Task for F
where
    F: Fn(Work) -> R + Send + Sync + 'static,
    R: Future<Output = Vec<Outcome>> + Send + 'static,
{
    fn run(&self, work: Work) -> Outcomes<'_> {
        Box::pin(self(work))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_text_on_one_line() {
        let failed = Failed { error: "no".into(), output: b"a\nWARN b\x1b[1m\xff".to_vec(), retry: true };
        let expected = "Failed { error: \"no\", output: \"a\\nWARN b\\u{1b}[1m\u{fffd}\", retry: true }";
        assert_eq!(format!("{failed:?}"), expected);
    }
}
