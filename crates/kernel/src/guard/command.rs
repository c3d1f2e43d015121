//! What a guard runs.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;

/// Where one of the command's standard streams leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// To the wrapper's own.
    Inherit,
    /// To nowhere.
    Null,
    /// To the wrapper, which finds the other end in [`Guarded`](super::Guarded).
    Piped,
}

/// A change to the environment that the command inherits from the wrapper.
#[derive(Debug, Clone)]
pub(super) enum EnvChange {
    Clear,
    Set(OsString, OsString),
    Remove(OsString),
}

/// A program, its arguments, its surroundings, and how long it may run.
#[derive(Debug, Clone)]
pub struct Command {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<EnvChange>,
    pub(super) directory: Option<PathBuf>,
    pub(super) streams: [Stream; 3],
    /// A file that replaces standard input.
    pub(super) input: Option<Arc<OwnedFd>>,
    /// A file that replaces standard output and standard error.
    pub(super) output: Option<Arc<OwnedFd>>,
    pub(super) deadline: Moment,
    pub(super) grace: Duration,
    pub(super) takes_terminal: bool,
    pub(super) user: Option<(u32, u32)>,
}

impl Command {
    /// A program: a path, or a name that is looked up in the `PATH` of the command. When the guard ends it, `grace` is
    /// the time between SIGTERM and SIGKILL.
    pub fn new(program: impl AsRef<OsStr>, grace: Duration) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            directory: None,
            streams: [Stream::Inherit; 3],
            input: None,
            output: None,
            deadline: Moment::NEVER,
            grace,
            takes_terminal: false,
            user: None,
        }
    }

    /// Appends an argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Appends several arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable of the environment.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push(EnvChange::Set(name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Removes a variable from the environment.
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.env.push(EnvChange::Remove(name.as_ref().to_owned()));
        self
    }

    /// Removes all variables inherited or set so far.
    pub fn env_clear(mut self) -> Self {
        self.env.push(EnvChange::Clear);
        self
    }

    /// The working directory. A program given as a relative path is resolved from there, too.
    pub fn directory(mut self, directory: impl AsRef<Path>) -> Self {
        self.directory = Some(directory.as_ref().to_owned());
        self
    }

    /// Where its standard input comes from.
    pub fn stdin(mut self, stream: Stream) -> Self {
        self.streams[0] = stream;
        self
    }

    /// Reads standard input from this file, from its current offset on.
    pub fn stdin_from(mut self, file: impl Into<OwnedFd>) -> Self {
        self.input = Some(Arc::new(file.into()));
        self
    }

    /// Where its standard output goes.
    pub fn stdout(mut self, stream: Stream) -> Self {
        self.streams[1] = stream;
        self
    }

    /// Where its standard error goes.
    pub fn stderr(mut self, stream: Stream) -> Self {
        self.streams[2] = stream;
        self
    }

    /// Writes both standard output and standard error to this file, whatever [`stdout`](Self::stdout) and
    /// [`stderr`](Self::stderr) say. Both are the same open file, so the file has all that the command and its descendants
    /// write, each `write` whole and in the order of the calls. The command writes it itself: nothing passes through the
    /// wrapper, so a slow or stopped wrapper holds nothing up and loses nothing.
    ///
    /// Open it for appending (`O_APPEND`): then other writers of the file overwrite nothing, and after a truncation the
    /// output goes on at the new end. The command inherits it open, so a [`user`](Self::user) needs no right to open it.
    /// There is no limit on its length.
    pub fn output_to(mut self, file: impl Into<OwnedFd>) -> Self {
        self.output = Some(Arc::new(file.into()));
        self
    }

    /// When the command and all its descendants must be gone. Given before the start, and not only later through
    /// [`Control`](super::Control), so that the command never runs without a deadline.
    pub fn deadline(mut self, deadline: Moment) -> Self {
        self.deadline = deadline;
        self
    }

    /// Runs the command and its guard as this user and group, without supplementary groups. Only root can.
    pub fn user(mut self, user: u32, group: u32) -> Self {
        self.user = Some((user, group));
        self
    }

    /// If the wrapper is in the foreground of a terminal, the command takes its place until it ends: it may read the
    /// terminal, and Ctrl-C goes to it alone.
    pub fn take_terminal(mut self) -> Self {
        self.takes_terminal = true;
        self
    }
}
