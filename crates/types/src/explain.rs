//! Errors that may end a command: each says itself what its user may try, and what scripts see.

use std::borrow::Cow;
use std::error::Error;

/// Exit codes that scripts rely on, besides those of programs that are run for somebody.
pub mod exit_code {
    /// It was not done; anything without a code of its own.
    pub const FAILED: u8 = 1;
    /// It was not understood, or makes no sense.
    pub const USAGE: u8 = 2;
    /// Nothing is there to talk to.
    pub const UNAVAILABLE: u8 = 69;
    /// What was held while a command ran is gone.
    pub const LOST: u8 = 73;
    /// The disk or the data failed.
    pub const DATA: u8 = 74;
    /// Not now; later it may work.
    pub const NOT_NOW: u8 = 75;
}

/// An error that knows what its user may do about it. The command line adds nothing: a new engine brings its own.
pub trait Explain: Error + Send + Sync + 'static {
    /// What to try. Empty where the reason says it all.
    fn help(&self) -> Cow<'static, str>;

    /// What the program exits with: one of [`exit_code`].
    fn exit_code(&self) -> u8;
}

/// What to try when the operating system refuses; nothing where its reason says it all.
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
