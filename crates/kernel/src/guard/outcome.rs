//! How a command ended.

use super::protocol::End;

/// A shell's convention: the exit code after a signal is this plus the signal's number.
const SIGNAL_CODE_BASE: i32 = 128;
/// The exit code when the lease that the command ran under was lost.
const EXIT_LOST: u8 = 73;
/// The exit code of a killed command, as a shell gives it (128 + 9).
const EXIT_KILLED: u8 = 137;

/// How a command ended. In every case, nothing that it started is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal, whoever sent it.
    Signaled(i32),
    /// Because of its deadline: the guard asked it to end and, if that did not help, killed it.
    Expired,
    /// The guard was killed, and the wrapper killed all that it found of the command.
    GuardDied,
}

impl Outcome {
    /// The exit code for a wrapper that passes on how its command ended: its own, 128+n for a signal, 73 for a deadline.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Exited(code) => code as u8,
            Self::Signaled(signal) => (SIGNAL_CODE_BASE + signal) as u8,
            Self::Expired => EXIT_LOST,
            Self::GuardDied => EXIT_KILLED,
        }
    }
}

impl From<End> for Outcome {
    fn from(end: End) -> Self {
        match end {
            End::Exited(code) => Self::Exited(code),
            End::Signaled(signal) => Self::Signaled(signal),
        }
    }
}
