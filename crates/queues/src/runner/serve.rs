//! A long-running program that is fed messages as JSON lines and answers each with a line.

use menagerie_programs::serve::{Ask, AskOutcome};
use menagerie_programs::{Failure, Program};

pub use menagerie_programs::serve::{Greeting, ServeError};

use super::lines::{self, Shape};
use super::on_delay;
use crate::task::{Failed, Outcome, Outcomes, Task, Unanswered, Work};

/// Longest line. Replies carry no data, so a longer one is garbage.
pub(super) const LINE_BYTES_MAX: usize = 1 << 20;

/// Feeds programs, one per message handled concurrently.
pub struct Serve {
    programs: menagerie_programs::Serve,
    shape: Shape,
}

impl Serve {
    /// A task that feeds this program.
    pub fn new(program: Program, shape: Shape, greeting: Greeting) -> Self {
        Self { programs: menagerie_programs::Serve::new(program, greeting, LINE_BYTES_MAX), shape }
    }

    /// Starts a program before the first message, so that a broken one is noticed at once.
    pub async fn warm_up(&self) -> Result<(), ServeError> {
        self.programs.warm_up().await
    }

    /// How many lines on standard output were no replies.
    pub fn stray_lines(&self) -> u64 {
        self.programs.stray_lines()
    }

    async fn handle(&self, work: Work) -> Vec<Outcome> {
        let Some(first) = work.messages.first() else { return Vec::new() };
        let (id, line) = (lines::id(&work, first), lines::question(&work, self.shape));
        let on_delay = on_delay(&work.partition);
        let ask = Ask {
            id: &id,
            line: &line,
            lease: &work.lease,
            time_limit: work.time_limit,
            on_delay: &on_delay,
        };
        let judge = |line: &[u8]| lines::judge(&String::from_utf8_lossy(line), &work, self.shape);
        match self.programs.ask(ask, judge).await {
            AskOutcome::Answered { answer: mut outcomes, output } => {
                if let Some(failed) = outcomes.iter_mut().find_map(failure_mut) {
                    failed.output = output;
                }
                outcomes
            }
            AskOutcome::Failed(Failure { error, output }) => {
                vec![Outcome::Failed(Failed { error, output, retry: true })]
            }
            AskOutcome::Stopped => Vec::new(),
        }
    }
}

fn failure_mut(outcome: &mut Outcome) -> Option<&mut Failed> {
    match outcome {
        Outcome::Failed(failed) => Some(failed),
        Outcome::Done | Outcome::Stopped => None,
    }
}

impl Task for Serve {
    fn run(&self, work: Work) -> Outcomes<'_> {
        Box::pin(self.handle(work))
    }

    /// The guard kills the program after its grace, and answers when nothing of it is left.
    fn ends_itself(&self) -> bool {
        true
    }

    fn unanswered(&self) -> Vec<Unanswered> {
        self.programs.unanswered()
    }
}
