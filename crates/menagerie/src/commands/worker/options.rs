//! A worker's options: from the command line, else the file, else the default.

use std::num::NonZeroU32;
use std::time::Duration;

use clap::{Args, ValueEnum};
use menagerie_kernel::recipes::settle::Rule;
use menagerie_queues::core::failure::{self, OnFailure};
use menagerie_queues::core::ledger::{Ack, Commit};
use menagerie_queues::core::turn;
use menagerie_queues::worker::Options;
use menagerie_znodes::Name;
use menagerie_znodes::queues::QueueName;

use crate::config::{Chosen, WorkerSettings, worker};
use crate::durations;
use crate::exit::CliError;
use crate::host::full_name;

/// While changes keep coming, wait at most this many times `settle`.
pub const SETTLE_CAP: u32 = 10;

/// How it works.
#[derive(Debug, Clone, Args)]
pub struct OptionArgs {
    /// Suffix for the worker's name, which is the host's name and the process id.
    #[arg(long, value_name = "NAME")]
    name: Option<Name>,
    /// Drain each queue before taking from the next [default: one message from each queue in turn].
    #[arg(long)]
    strict: bool,
    /// Number of messages to handle at a time; of one partition as many as the queue's order allows [default: 1].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = concurrency)]
    concurrency: Option<u16>,
    /// Reassign partitions once no worker has joined or left for this long [default: 3s].
    #[arg(long, value_name = "DURATION", value_parser = durations::parse_fine)]
    settle: Option<Duration>,
    /// When to record handled messages: after `each` one, every N messages, or after a time such as 50ms [default:
    /// each].
    #[arg(long, value_name = "each|N|TIME", value_parser = worker::commit)]
    commit: Option<Commit>,
    /// Record a message `after` it is done (at least once: a crash may repeat it) or right `before` it starts, one at a
    /// time (at most once: a crash may lose it).
    #[arg(long, value_enum, default_value_t = AckArg::After)]
    ack: AckArg,
    /// Pass up to N messages to a task at once [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    batch: Option<u16>,
    /// What to do with a message that has no attempts left: log and skip it, move it to QUEUE.failed, or stop the
    /// worker [default: queue].
    #[arg(long, value_name = "log|queue|stop", value_parser = worker::on_failure)]
    on_failure: Option<OnFailure>,
    /// Maximum number of attempts per message [default: the queue's, else 5].
    #[arg(long, value_name = "N")]
    attempts: Option<NonZeroU32>,
    /// Back-off before the second attempt; it doubles with each further attempt [default: the queue's, else 1s].
    #[arg(long, value_name = "DURATION", value_parser = durations::parse_fine)]
    backoff: Option<Duration>,
    /// Longest back-off between attempts [default: the queue's, else 60s].
    #[arg(long, value_name = "DURATION", value_parser = durations::parse_fine)]
    backoff_max: Option<Duration>,
}

fn concurrency(text: &str) -> Result<u16, String> {
    let messages = text.parse().ok().filter(|messages| *messages > 0);
    messages.ok_or_else(|| {
        format!(
            "a worker handles at least one message at a time: write a whole number from 1 to {}",
            u16::MAX
        )
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AckArg {
    After,
    Before,
}

impl OptionArgs {
    /// Resolves the options.
    pub fn options(&self, queues: &[QueueName], file: &WorkerSettings) -> Result<Options, CliError> {
        let usual = Options::new(self.worker_name()?, queues.to_vec());
        let quiet = pick(self.settle, &file.settle, usual.settle.quiet);
        let options = Options {
            policy: match self.strict || pick(None, &file.strict, false) {
                true => turn::Policy::Strict,
                false => turn::Policy::InTurn,
            },
            concurrency: pick(self.concurrency.map(usize::from), &file.concurrency, usual.concurrency),
            batch: pick(self.batch.map(usize::from), &file.batch, usual.batch),
            commit: pick(self.commit, &file.commit, usual.commit),
            ack: match self.ack {
                AckArg::After => Ack::After,
                AckArg::Before => Ack::Before,
            },
            failure: self.failure(file),
            settle: Rule { quiet, cap: quiet.saturating_mul(SETTLE_CAP) },
            ..usual
        };
        if options.ack == Ack::Before
            && (options.batch > 1
                || options.commit != Commit::EACH
                || self.attempts.is_some_and(|many| many.get() > 1))
        {
            return Err(CliError::Usage {
                what: "--ack before means one attempt, and one message at a time, recorded right before it begins: what is recorded ahead is lost when the worker dies".to_owned(),
                help: "leave out --attempts, --batch and --commit, or --ack before; if the configuration sets them, say --batch 1 --commit each".to_owned(),
            });
        }
        Ok(options)
    }

    /// What the command line or the file says about failures; the rest is up to the queue.
    fn failure(&self, file: &WorkerSettings) -> failure::Choice {
        failure::Choice {
            attempts: chosen(self.attempts, &file.attempts),
            backoff: chosen(self.backoff, &file.backoff),
            backoff_max: chosen(self.backoff_max, &file.backoff_max),
            on_failure: pick(self.on_failure, &file.on_failure, OnFailure::default()),
        }
    }

    /// As in the seed: host and process, and the given name as suffix.
    fn worker_name(&self) -> Result<Name, CliError> {
        let process = format!("{}-{}", full_name(), std::process::id());
        let name = match &self.name {
            Some(name) => format!("{process}-{name}"),
            None => process,
        };
        Name::new(name).map_err(|error| CliError::Usage {
            what: format!("this worker cannot be named after its host: {error}"),
            help: "name the host with MENAGERIE_HOST".to_owned(),
        })
    }
}

/// The flag, else the file's.
fn chosen<T: Clone>(flag: Option<T>, file: &Option<Chosen<T>>) -> Option<T> {
    flag.or_else(|| file.as_ref().map(|chosen| chosen.value.clone()))
}

fn pick<T: Clone>(flag: Option<T>, file: &Option<Chosen<T>>, usual: T) -> T {
    chosen(flag, file).unwrap_or(usual)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use menagerie_znodes::queues::Handling;

    use super::*;
    use crate::config::Origin;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: OptionArgs,
    }

    fn understood(line: &str, file: &WorkerSettings) -> Result<Options, CliError> {
        Line::parse_from(line.split(' ')).args.options(&[], file)
    }

    #[test]
    fn what_is_not_said_is_left_to_the_queue() {
        let file = WorkerSettings::default();
        let choice = |line: &str| understood(line, &file).unwrap().failure;
        let silent = choice("worker");
        assert_eq!((silent.attempts, silent.backoff, silent.backoff_max), (None, None, None));
        let queue = Handling { attempts: NonZeroU32::new(7), backoff_ms: Some(5_000), ..Handling::default() };
        let usual = failure::Policy::default();
        let policy = silent.policy(&queue);
        assert_eq!((policy.attempts.get(), policy.backoff), (7, Duration::from_secs(5)));
        assert_eq!((policy.backoff_max, silent.policy(&Handling::default())), (usual.backoff_max, usual));
        let policy = choice("worker --attempts 2 --backoff 10ms").policy(&queue);
        assert_eq!((policy.attempts.get(), policy.backoff), (2, Duration::from_millis(10)));
    }

    #[test]
    fn at_least_one_message_is_handled_at_a_time() {
        assert_eq!(concurrency("4"), Ok(4));
        for text in ["0", "-1", "x", "65536"] {
            assert!(concurrency(text).is_err_and(|why| why.contains("at least one message")), "{text}");
        }
    }

    #[test]
    fn at_most_once_is_refused_with_what_would_lose_more() {
        let file = WorkerSettings::default();
        for more in ["", " --commit each", " --commit 1", " --attempts 1", " --batch 1"] {
            assert!(understood(&format!("worker --ack before{more}"), &file).is_ok(), "{more}");
        }
        for more in ["--commit 10", "--commit 50ms", "--attempts 2", "--batch 2"] {
            assert!(understood(&format!("worker --ack after {more}"), &file).is_ok(), "{more}");
            let refused = understood(&format!("worker --ack before {more}"), &file);
            assert!(matches!(refused, Err(CliError::Usage { .. })), "{more}");
        }
        let tens = Chosen { value: Commit::Count(NonZeroU32::new(10).unwrap()), origin: Origin::Default };
        let file = WorkerSettings { commit: Some(tens), ..file };
        assert!(understood("worker --ack before", &file).is_err());
        assert!(understood("worker --ack before --commit each", &file).is_ok());
    }
}
