//! What handles a message: a program or a Rust type, the worker does not care.

use std::fmt;
use std::pin::Pin;
use std::time::{Duration, Instant};

use menagerie_journal::Message;
use menagerie_kernel::Fence;
use menagerie_znodes::queues::PartitionName;
use tokio::sync::watch;

pub use menagerie_programs::Lease;
pub use menagerie_programs::serve::{SILENT_AFTER, Unanswered};

/// Messages to handle together: one, unless the worker works in batches.
#[derive(Debug, Clone)]
pub struct Work {
    /// The partition they come from.
    pub partition: PartitionName,
    /// Oldest first.
    pub messages: Vec<Message>,
    /// Attempt of each message, counted from 1; see [`attempt_of`](Self::attempt_of).
    pub attempts: Vec<u32>,
    /// Longest run, if the worker's operator or the queue says; else the task's own default.
    pub time_limit: Option<Duration>,
    /// Pass it to whatever the task changes, so that the far side can refuse a stale owner.
    pub fence: Fence,
    /// Until when the task may run.
    pub lease: Lease,
    /// For tasks of workers with [`Begins::WhenToldSo`](crate::core::options::Begins): say here when it begins.
    pub begun: Begun,
}

/// Where a task says that it has begun. The default is for tasks that begin at once: nobody listens.
#[derive(Debug, Clone, Default)]
pub struct Begun(Option<watch::Sender<Option<Instant>>>);

impl Begun {
    /// And a future that waits until it has begun; false if it has ended before.
    pub(crate) fn listen() -> (Self, impl Future<Output = bool> + Send + 'static) {
        let (begun, mut listener) = watch::channel(None);
        (Self(Some(begun)), async move { listener.wait_for(Option::is_some).await.is_ok() })
    }

    /// It begins now.
    pub fn say(&self) {
        if let Some(begun) = &self.0 {
            begun.send_replace(Some(Instant::now()));
        }
    }

    /// When it began, if it has. `given`: when the task got it.
    pub(crate) fn since(&self, given: Instant) -> Option<Instant> {
        self.0.as_ref().map_or(Some(given), |begun| *begun.borrow())
    }
}

impl Work {
    /// Attempt of the message at this index: 2 or more if it may have run before.
    pub fn attempt_of(&self, index: usize) -> u32 {
        self.attempts.get(index).copied().unwrap_or(1)
    }
}

/// The outcome of one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Handled.
    Done,
    /// Not handled.
    Failed(Failed),
    /// The task was stopped; the message may or may not be handled.
    Stopped,
}

/// Why a task failed.
#[derive(Clone, PartialEq, Eq)]
pub struct Failed {
    /// The task's error text.
    pub error: String,
    /// The end of its output.
    pub output: Vec<u8>,
    /// Whether another attempt may succeed.
    pub retry: bool,
}

/// Shows the output as text.
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
    /// A failure that another attempt may cure.
    pub fn retry(error: impl fmt::Display) -> Self {
        Self::Failed(Failed { error: error.to_string(), output: Vec::new(), retry: true })
    }

    /// A permanent failure.
    pub fn failed(error: impl fmt::Display) -> Self {
        Self::Failed(Failed { error: error.to_string(), output: Vec::new(), retry: false })
    }
}

/// The future of a task: an outcome per message, in order. Missing ones count as [`Outcome::Stopped`].
pub type Outcomes<'a> = Pin<Box<dyn Future<Output = Vec<Outcome>> + Send + 'a>>;

/// Handles messages.
pub trait Task: Send + Sync + 'static {
    /// Handles the messages. Once the future is dropped, nothing of the task may continue.
    fn run(&self, work: Work) -> Outcomes<'_>;

    /// Whether the task ends by itself once its lease says stop, however long that takes. The worker then does not drop
    /// it: what it started would run on for a moment, beside the next owner's task. Only the end of the lease ends it
    /// earlier.
    fn ends_itself(&self) -> bool {
        false
    }

    /// Messages that a program has been given and has not answered, oldest first; for batches, the first of each. One
    /// that has waited for [`SILENT_AFTER`] is worth showing: the program may not flush its output.
    fn unanswered(&self) -> Vec<Unanswered> {
        Vec::new()
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
