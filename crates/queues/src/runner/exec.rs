//! One process per message: it reads the body from standard input, and its exit code is the outcome.
//!
//! 0: done. 65: failed for good. Anything else: failed, to be tried again.

use menagerie_journal::Message;
use menagerie_programs::exec::{Run, RunOutcome};
use menagerie_programs::{Failure, Program};

use super::on_delay;
use crate::message_uuid::MessageUuid;
use crate::task::{Failed, Outcome, Outcomes, Task, Work};

/// Exit code of a program that will never be able to handle its message (`EX_DATAERR`).
pub const EXIT_FAILED: i32 = 65;

/// Runs a program for each message.
#[derive(Debug)]
pub struct Exec(menagerie_programs::Exec);

impl Exec {
    /// A task that runs this program.
    pub fn new(program: Program) -> Self {
        Self(menagerie_programs::Exec::new(program))
    }

    async fn run_one(&self, work: &Work, message: &Message, attempt: u32) -> Outcome {
        let environment = [
            ("MENAGERIE_QUEUE", work.partition.queue().to_string()),
            ("MENAGERIE_PARTITION", work.partition.number().to_string()),
            ("MENAGERIE_MESSAGE_ID", MessageUuid::of(&work.partition, message).to_string()),
            ("MENAGERIE_ATTEMPT", attempt.to_string()),
            ("MENAGERIE_FENCE", work.fence.to_string()),
        ];
        let on_delay = on_delay(&work.partition);
        let run = Run {
            input: &message.body,
            environment: &environment,
            lease: &work.lease,
            time_limit: work.time_limit,
            on_delay: &on_delay,
        };
        let (error, output, retry) = match self.0.run(run).await {
            RunOutcome::Stopped => return Outcome::Stopped,
            RunOutcome::Exited { code: 0, .. } => return Outcome::Done,
            RunOutcome::Exited { code: EXIT_FAILED, output } => {
                ("it exited with code 65: failed for good".to_owned(), output, false)
            }
            RunOutcome::Exited { code, output } => (format!("it exited with code {code}"), output, true),
            RunOutcome::Failed(Failure { error, output }) => (error, output, true),
        };
        Outcome::Failed(Failed { error, output, retry })
    }
}

impl Task for Exec {
    fn run(&self, work: Work) -> Outcomes<'_> {
        Box::pin(async move {
            let mut outcomes = Vec::with_capacity(work.messages.len());
            for (index, message) in work.messages.iter().enumerate() {
                let outcome = self.run_one(&work, message, work.attempt_of(index)).await;
                let done = outcome == Outcome::Done;
                outcomes.push(outcome);
                if !done {
                    break;
                }
            }
            outcomes
        })
    }

    /// The guard kills the program after its grace, and answers when nothing of it is left.
    fn ends_itself(&self) -> bool {
        true
    }
}
