//! A long-running program that is fed messages as JSON lines, many at a time, and answers each when it is done.

use menagerie_programs::serve::multiplex::{Multiplexer, Question};
use menagerie_programs::serve::{AskOutcome, Judged};
use menagerie_programs::{Failure, Program};
use tracing::error;

use super::lines::{self, Shape};
use super::serve::{LINE_BYTES_MAX, ServeError};
use crate::task::{Failed, Outcome, Outcomes, Task, Unanswered, Work};

/// Feeds one program, whatever number of messages is handled concurrently.
pub struct Multiplex(Multiplexer<Outcome>);

impl Multiplex {
    /// A task that feeds this program, which is started now, so that a broken one is noticed at once.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn start(program: Program) -> Result<Self, ServeError> {
        let on_delay = |why: &str, pause: std::time::Duration| {
            error!(pause_s = pause.as_secs(), "the program cannot be started; its messages wait: {why}");
        };
        Multiplexer::start(program, LINE_BYTES_MAX, parse, on_delay).await.map(Self)
    }

    /// How many lines on standard output were no replies.
    pub fn stray_lines(&self) -> u64 {
        self.0.stray_lines()
    }

    async fn handle(&self, work: Work) -> Outcome {
        let Some(message) = work.messages.first() else { return Outcome::Stopped };
        let (id, line) = (lines::id(&work, message), lines::question(&work, Shape::One));
        let question = Question { id, line, lease: work.lease, time_limit: work.time_limit };
        match self.0.ask(&question).await {
            AskOutcome::Answered { answer: Outcome::Failed(failed), output } => {
                Outcome::Failed(Failed { output, ..failed })
            }
            AskOutcome::Answered { answer, .. } => answer,
            AskOutcome::Failed(Failure { error, output }) => {
                Outcome::Failed(Failed { error, output, retry: true })
            }
            AskOutcome::Stopped => Outcome::Stopped,
        }
    }
}

fn parse(line: &[u8]) -> Option<(String, Judged<Outcome>)> {
    let (id, outcome) = lines::one_answer(&String::from_utf8_lossy(line))?;
    let judged = match outcome {
        Ok(Outcome::Done) => Judged::Good(Outcome::Done),
        Ok(outcome) => Judged::Bad(outcome),
        Err(why) => Judged::Invalid(why),
    };
    Some((id, judged))
}

/// One message at a time per call: batches make no sense where messages are handled side by side anyway.
impl Task for Multiplex {
    fn run(&self, work: Work) -> Outcomes<'_> {
        Box::pin(async move { vec![self.handle(work).await] })
    }

    /// The guard kills the program after its grace, and answers when nothing of it is left.
    fn ends_itself(&self) -> bool {
        true
    }

    fn unanswered(&self) -> Vec<Unanswered> {
        self.0.unanswered()
    }
}
