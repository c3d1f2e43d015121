//! A guard that runs one command after the other, for callers with many short commands.

use std::ffi::OsString;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::net::{SendFlags, send};
use tokio::io::Interest;

use super::channel::send_head;
use super::command::EnvChange;
use super::guarded::{GuardProcess, Guarded, read_report};
use super::protocol::{Order, Start};
use super::spawn::{Streams, prepare_with, start_message, started};
use super::{Command, GuardError};

/// An idle guard. Dropping it ends it.
#[derive(Debug)]
pub struct ReusableGuard {
    process: GuardProcess,
}

impl ReusableGuard {
    /// Starts a command under a new guard; [`Self::after`] gets the guard back.
    ///
    /// # Errors
    /// If it was not started.
    pub async fn first(command: &Command, guard_program: &Path) -> Result<Guarded, GuardError> {
        let start = Start { stays: true, ..start_message(command) };
        prepare_with(command, start, guard_program)?.start().await
    }

    /// The guard of a command that was started here and has ended. `None` if the guard was killed.
    pub fn after(guarded: Guarded) -> Option<Self> {
        guarded.into_process().map(|process| Self { process })
    }

    /// Whether it is still there: somebody may have killed it.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.process.child.try_wait(), Ok(None))
    }

    /// Starts another command under the same guard, with the environment and the user of the first one. Variables that
    /// the command sets are added; removals have no effect.
    ///
    /// # Errors
    /// If it was not started. The guard is gone then.
    pub async fn start(self, command: &Command) -> Result<Guarded, GuardError> {
        let program = command.program.to_string_lossy().into_owned();
        let start = Start { stays: true, environment: variables(command), ..start_message(command) };
        if !start.has_no_zero_bytes() {
            let source = rustix::io::Errno::INVAL.into();
            return Err(GuardError::NoProgram { program, source });
        }
        let no_guard = |source| GuardError::NoGuard { program: program.clone(), source };
        let streams = Streams::open(command).map_err(no_guard)?;
        let channel = self.process.control.channel.clone();
        let (head, body) = start.encode();
        // One frame always fits: the guard has read all that was sent before.
        let told = send(&channel, &Order::Next.encode(), SendFlags::NOSIGNAL)
            .map_err(std::io::Error::from)
            .and_then(|_| send_head(&*channel, &head, streams.theirs.each_ref().map(OwnedFd::as_fd)));
        if told.is_err() {
            return Err(GuardError::GuardDied { program });
        }
        drop(streams.theirs);
        let mut rest = body.as_slice();
        while !rest.is_empty() {
            let sent = channel.async_io(Interest::WRITABLE, || {
                let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                send(&channel, rest, flags).map_err(std::io::Error::from)
            });
            match sent.await {
                Ok(sent) => rest = &rest[sent..],
                Err(_) => return Err(GuardError::GuardDied { program }),
            }
        }
        let command = started(read_report(&channel).await, program, &start)?;
        Ok(Guarded::new(self.process, command, true, streams.ours))
    }
}

/// The variables that a command sets.
fn variables(command: &Command) -> Vec<OsString> {
    let set = |change: &EnvChange| match change {
        EnvChange::Set(name, value) => {
            let mut variable = name.clone();
            variable.push("=");
            variable.push(value);
            Some(variable)
        }
        EnvChange::Clear | EnvChange::Remove(_) => None,
    };
    command.env.iter().filter_map(set).collect()
}
