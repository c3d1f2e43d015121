//! Questions that programs have been asked and have not answered, so that a view can tell what a silent one is busy with.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::warn;

/// A program that has had a question for this long may have forgotten to flush its answer.
pub const SILENT_AFTER: Duration = Duration::from_secs(30);

/// A question in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unanswered {
    /// The question's id.
    pub id: String,
    /// When the program was asked.
    pub since: Instant,
}

/// The questions in flight of all programs of one task.
#[derive(Debug, Default)]
pub(super) struct Registry(Mutex<Questions>);

#[derive(Debug, Default)]
struct Questions {
    next: u64,
    /// By number, so oldest first.
    open: BTreeMap<u64, Unanswered>,
}

/// An entry; dropped with its question.
pub(super) struct Registered {
    registry: Arc<Registry>,
    number: u64,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, Questions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a question that a program gets now.
    pub(super) fn register(self: &Arc<Self>, id: &str) -> Registered {
        let asked = Unanswered { id: id.to_owned(), since: Instant::now() };
        let mut questions = self.lock();
        let number = questions.next;
        questions.next += 1;
        questions.open.insert(number, asked);
        Registered { registry: self.clone(), number }
    }

    /// All of them, oldest first.
    pub(super) fn list(&self) -> Vec<Unanswered> {
        self.lock().open.values().cloned().collect()
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.registry.lock().open.remove(&self.number);
    }
}

/// Logs that a program is silent; once per question.
pub(super) fn warn_of_silence(program: &str, pid: u32, id: &str) {
    let seconds = SILENT_AFTER.as_secs();
    warn!(program, pid, id, "the program has not answered for {seconds}s: does it flush its output?");
}
