//! Why a command was not started.

#![allow(missing_docs, reason = "the fields of errors name themselves")]

use std::io;

use rustix::io::Errno;
use thiserror::Error;

/// Why a command was not started. Nothing of it runs.
#[derive(Debug, Error)]
pub enum GuardError {
    /// The program cannot be executed.
    #[error("cannot run {program}")]
    NoProgram { program: String, source: io::Error },
    /// The directory to run it in cannot be entered.
    #[error("cannot run {program} in {directory}")]
    NoDirectory { program: String, directory: String, source: io::Error },
    /// The file for its standard input cannot be handed over.
    #[error("cannot give {program} its input")]
    NoInput { program: String, source: io::Error },
    /// The deadline passed before the start.
    #[error("the deadline for {program} had passed before it was started")]
    TooLate { program: String },
    /// The guard process cannot be started.
    #[error("cannot start the guard of {program}")]
    NoGuard { program: String, source: io::Error },
    /// The guard was killed before it started the command.
    #[error("the guard of {program} died before it had started it")]
    GuardDied { program: String },
}

impl GuardError {
    /// The exit code for a wrapper that passes on how its command ended: a shell's 127 for a program that is not there and
    /// 126 for one that cannot be executed, 73 for a deadline, 1 for a guard or an input that failed.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NoProgram { source, .. } => match Errno::from_io_error(source) {
                Some(Errno::NOENT | Errno::NOTDIR) => 127,
                Some(_) | None => 126,
            },
            Self::NoDirectory { .. } => 126,
            Self::TooLate { .. } => 73,
            Self::NoInput { .. } | Self::NoGuard { .. } | Self::GuardDied { .. } => 1,
        }
    }
}
