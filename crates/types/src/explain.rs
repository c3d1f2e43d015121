//! Errors that may end a command: each knows its help text and its exit code.

use std::borrow::Cow;
use std::error::Error;

/// Exit codes that scripts rely on, besides those of programs that we run.
pub mod exit_code {
    /// A failure without a specific code.
    pub const FAILED: u8 = 1;
    /// A usage error.
    pub const USAGE: u8 = 2;
    /// A server cannot be reached.
    pub const UNAVAILABLE: u8 = 69;
    /// What was held while a command ran was lost.
    pub const LOST: u8 = 73;
    /// The disk or the data failed.
    pub const DATA: u8 = 74;
    /// A temporary failure: it may work later.
    pub const NOT_NOW: u8 = 75;
}

/// An error that knows what its user may do about it. A new engine brings its own texts; the command line adds none.
pub trait Explain: Error + Send + Sync + 'static {
    /// What to try. Empty if the error is self-explanatory.
    fn help(&self) -> Cow<'static, str>;

    /// The exit code: one of [`exit_code`].
    fn exit_code(&self) -> u8;
}

/// What to try when the operating system refuses; empty if its error is self-explanatory.
pub fn io_help(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::NotFound => "check the path: a part of it does not exist",
        ErrorKind::PermissionDenied => "check who may read and write there, or run as a user who may",
        ErrorKind::IsADirectory => "name a file, not a folder",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room there, or choose another place",
        ErrorKind::ReadOnlyFilesystem => "choose a place that can be written to",
        _ => "",
    }
}
