//! How a worker handles a message.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use menagerie_kernel::{Session, guard};
use menagerie_queues::core::ledger::Ack;
use menagerie_queues::runner::exec::Exec;
use menagerie_queues::runner::multiplex::Multiplex;
use menagerie_queues::runner::python::Python;
use menagerie_queues::runner::serve::{Greeting, Serve, ServeError};
use menagerie_queues::runner::{Limits, Program, Shape, lease_grace};
use menagerie_queues::task::Task;
use menagerie_queues::worker::Options;

use super::{program, user};
use crate::durations;
use crate::exit::CliError;

/// Time limit of programs that reply, unless another is given. One that has not replied for so long never will: it hangs,
/// or keeps its reply in a buffer. A command that runs for long shows by running that it is not done.
const REPLY_TIME_LIMIT: Duration = Duration::from_secs(10 * 60);

/// What is run, and within which limits.
#[derive(Debug, Args)]
pub struct TaskArgs {
    /// Keep COMMAND running and feed it JSON lines.
    #[arg(long, conflicts_with = "python")]
    serve: bool,
    /// With --serve: feed one program up to --concurrency lines at a time; it replies to each when it is done, in any
    /// order.
    #[arg(long = "async")]
    is_async: bool,
    /// Call this Python function for each message: `f(message, context)`.
    #[arg(long, value_name = "MODULE:FUNCTION", value_parser = function, conflicts_with = "command")]
    python: Option<String>,
    /// Python interpreter to use [default: python3 from the PATH].
    #[arg(long, value_name = "PROGRAM")]
    interpreter: Option<OsString>,
    /// Run before the first message: a shell command, which must succeed; with --python, a function that returns the
    /// context.
    #[arg(long, value_name = "CMD|MODULE:FUNCTION")]
    on_startup: Option<OsString>,
    /// Call this Python function with the context in each fork, before it handles its message.
    #[arg(long, value_name = "MODULE:FUNCTION", value_parser = function)]
    after_fork: Option<String>,
    /// Maximum time per message; then the task gets SIGTERM, SIGKILL after --grace, and has failed [default: the queue's,
    /// else 10m with --serve and --python, none for a command].
    #[arg(long, value_name = "DURATION", value_parser = limit)]
    time_limit: Option<Duration>,
    /// Limit on each process's address space: bytes, or 512M, 2G.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory_limit: Option<u64>,
    /// Run tasks as this user (requires root).
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Time between SIGTERM and SIGKILL when a task must end; at most a quarter of the session time-out when the
    /// partition is lost.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse_fine, default_value = "10s")]
    grace: Duration,
    /// Command and its arguments, after `--`.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn limit(text: &str) -> Result<Duration, String> {
    match durations::parse_fine(text)? {
        Duration::ZERO => Err("no message can be handled in no time".to_owned()),
        limit => Ok(limit),
    }
}

/// Parses the argument of `--python` and its like.
fn function(text: &str) -> Result<String, String> {
    match text.split_once(':') {
        Some((module, function)) if !module.is_empty() && !function.is_empty() => Ok(text.to_owned()),
        _ => Err(format!("{text:?} names no function: write MODULE:FUNCTION, as in tasks:handle")),
    }
}

/// Parses `1048576`, `512K`, `64M`, `2G`.
fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no size: write bytes, or 512K, 64M, 2G");
    let (number, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(unit).filter(|bytes| *bytes > 0).ok_or_else(wrong)
}

impl TaskArgs {
    /// Refuses contradictory options.
    pub fn check(&self, options: &Options) -> Result<(), CliError> {
        if self.python.is_none() && self.command.is_empty() {
            return Err(CliError::Usage {
                what: "nothing is said about what to do with messages".to_owned(),
                help: "name a command behind `--`, or a Python function with --python".to_owned(),
            });
        }
        // clap's `requires` has no effect on an option that conflicts with the given command.
        for (flag, given) in
            [("--after-fork", self.after_fork.is_some()), ("--interpreter", self.interpreter.is_some())]
        {
            if given && self.python.is_none() {
                return Err(CliError::Usage {
                    what: format!("{flag} means nothing without --python"),
                    help: format!("leave out {flag}, or name a function with --python MODULE:FUNCTION"),
                });
            }
        }
        if let Some(startup) = self.on_startup.as_ref().filter(|_| self.python.is_some()) {
            function(&startup.to_string_lossy()).map_err(|what| CliError::Usage {
                what: format!("--on-startup: {what}"),
                help: "with --python it is a function, too, and what it returns is the context".to_owned(),
            })?;
        }
        if self.is_async {
            self.check_async(options)?;
        }
        if options.batch > 1 && self.python.is_none() && !self.serve {
            return Err(CliError::Usage {
                what: "a command gets one message at a time, so --batch means nothing to it".to_owned(),
                help: "feed a program with --serve, or use --python".to_owned(),
            });
        }
        self.command.first().map_or(Ok(()), |program| program::find(program))
    }

    /// Refuses what makes no sense with `--async`.
    fn check_async(&self, options: &Options) -> Result<(), CliError> {
        let refused =
            |what: &str, help: &str| Err(CliError::Usage { what: what.to_owned(), help: help.to_owned() });
        if self.python.is_some() {
            return refused(
                "--async does not go with --python: a function has a fork of its own for each message",
                "leave out --async, and set --concurrency; or feed an asyncio program with --serve --async",
            );
        }
        if !self.serve {
            return refused(
                "--async means nothing to a command that is run for each message",
                "leave out --async, or feed a long-lived program with --serve --async",
            );
        }
        if options.batch > 1 {
            return refused(
                "--async does not go with --batch: the program gets each message as soon as there is one",
                "leave out --batch (or say --batch 1 if the configuration sets it), and set --concurrency",
            );
        }
        // When a program dies or is ended, so do all messages that it has; recorded before, they would be lost.
        if options.ack == Ack::Before {
            return refused(
                "--async does not go with --ack before: messages in flight would be lost together with their program",
                "leave out --ack before, or leave out --async and set --concurrency: a program for each message",
            );
        }
        Ok(())
    }

    /// The time limit that the operator wants for this worker, whatever the queue says.
    pub fn chosen_time_limit(&self) -> Option<Duration> {
        self.time_limit
    }

    /// The time limit per message: the flag's, else the default for this kind of task.
    fn time_limit(&self) -> Option<Duration> {
        let replies = self.serve || self.python.is_some();
        self.time_limit.or(replies.then_some(REPLY_TIME_LIMIT))
    }

    fn program(&self, command: Vec<OsString>, session: &Session) -> Result<Program, CliError> {
        Ok(Program {
            command,
            guard: guard::this_program().to_owned(),
            grace: self.grace,
            lease_grace: lease_grace(self.grace, session.term().timeout()),
            limits: Limits { time: self.time_limit(), memory_bytes: self.memory_limit },
            user: self.user.as_deref().map(user::named).transpose()?,
        })
    }

    /// Prepares the task before the first message: finds the program, or starts the interpreter.
    pub async fn start(&self, options: &Options, session: &Session) -> Result<Arc<dyn Task>, CliError> {
        let shape = if options.batch > 1 { Shape::List } else { Shape::One };
        if let Some(function) = &self.python {
            let python = Python {
                interpreter: self.interpreter.clone().unwrap_or_else(|| "python3".into()),
                function: function.clone(),
                on_startup: self.on_startup.as_ref().map(|name| name.to_string_lossy().into_owned()),
                after_fork: self.after_fork.clone(),
            };
            let serve = Serve::new(self.program(python.command(shape), session)?, shape, Greeting::Ready);
            serve.warm_up().await.map_err(|error| not_ready(function, error))?;
            return Ok(Arc::new(serve));
        }
        if let Some(script) = &self.on_startup {
            let shell = self.program(vec!["/bin/sh".into(), "-c".into(), script.clone()], session)?;
            shell.run_once().await.map_err(|why| CliError::Refused {
                what: format!("--on-startup failed: {why}"),
                help: "no message was touched; see to it, and start the worker again".to_owned(),
            })?;
        }
        let program = self.program(self.command.clone(), session)?;
        if !self.serve {
            return Ok(Arc::new(Exec::new(program)));
        }
        let name = self.command.first().map_or(String::new(), |name| name.to_string_lossy().into_owned());
        if self.is_async {
            let task = Multiplex::start(program).await.map_err(|error| not_ready(&name, error))?;
            return Ok(Arc::new(task));
        }
        let serve = Serve::new(program, shape, Greeting::None);
        serve.warm_up().await.map_err(|error| not_ready(&name, error))?;
        Ok(Arc::new(serve))
    }
}

fn not_ready(name: &str, error: ServeError) -> CliError {
    match error {
        ServeError::Guard(source) => CliError::not_started(source),
        ServeError::NotReady(why) => CliError::Refused {
            what: format!("{name} cannot handle messages: {why}"),
            help: "no message was touched; see to it, and start the worker again".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_named_with_their_module() {
        for text in ["tasks:handle", "a.b:C.d"] {
            assert_eq!(function(text).as_deref(), Ok(text));
        }
        for text in ["", "tasks", "tasks:", ":handle"] {
            assert!(function(text).is_err_and(|why| why.contains("MODULE:FUNCTION")), "{text}");
        }
    }

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        task: TaskArgs,
    }

    #[test]
    fn many_lines_at_a_time_need_a_program_that_is_fed_one_by_one() {
        use clap::Parser as _;
        let refused = |line: &str, batch: usize| {
            let name = menagerie_znodes::Name::new("w1").unwrap();
            let options = Options { batch, ..Options::new(name, Vec::new()) };
            match Line::parse_from(line.split(' ')).task.check(&options) {
                Ok(()) => String::new(),
                Err(CliError::Usage { what, .. }) => what,
                Err(other) => panic!("{other:?}"),
            }
        };
        assert_eq!(refused("worker --serve --async -- sh", 1), "");
        assert!(refused("worker --async -- sh", 1).contains("a command that is run for each message"));
        assert!(refused("worker --serve --async -- sh", 2).contains("does not go with --batch"));
        assert!(refused("worker --async --python a:b", 1).contains("does not go with --python"));
    }

    #[test]
    fn programs_that_reply_have_ten_minutes_by_default() {
        use clap::Parser as _;
        let limit = |line: &str| Line::parse_from(line.split(' ')).task.time_limit();
        assert_eq!(limit("worker -- sh"), None);
        assert_eq!(limit("worker --time-limit 5s -- sh"), Some(Duration::from_secs(5)));
        for line in ["worker --serve -- sh", "worker --serve --async -- sh", "worker --python a:b"] {
            assert_eq!(limit(line), Some(Duration::from_secs(600)));
        }
        assert_eq!(limit("worker --serve --time-limit 1h -- sh"), Some(Duration::from_secs(3600)));
    }

    #[test]
    fn sizes_have_units() {
        for (text, size) in [("100", 100), ("4k", 4096), ("64M", 64 << 20), ("2G", 2 << 30)] {
            assert_eq!(bytes(text), Ok(size));
        }
        for text in ["", "M", "0", "1T", "-1", "99999999999G"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
