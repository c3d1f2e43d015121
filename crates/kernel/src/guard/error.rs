//! Why a command was not started.

use std::io;

use rustix::io::Errno;
use thiserror::Error;

/// Why a command was not started. It never was: nothing of it runs.
#[derive(Debug, Error)]
pub enum GuardError {
    /// The program cannot be executed.
    #[error("cannot run {program}")]
    NoProgram {
        /// As it was given.
        program: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// The directory to run it in cannot be entered.
    #[error("cannot run {program} in {directory}")]
    NoDirectory {
        /// As it was given.
        program: String,
        /// As it was given.
        directory: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// What it is to read cannot be given to it.
    #[error("cannot give {program} its input")]
    NoInput {
        /// As it was given.
        program: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// Its deadline came first.
    #[error("the deadline for {program} had passed before it was started")]
    TooLate {
        /// As it was given.
        program: String,
    },
    /// There is no guard to start it.
    #[error("cannot start the guard of {program}")]
    NoGuard {
        /// As it was given.
        program: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// The guard was killed before it had started it.
    #[error("the guard of {program} died before it had started it")]
    GuardDied {
        /// As it was given.
        program: String,
    },
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
