//! Errors that end the program, as its user sees them: what failed, why, what to try; and one exit code for each
//! kind.
//!
//! Errors of engines carry their own help and exit code ([`Explain`]): this file lists none of them.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::net::SocketAddr;
use std::process::ExitCode;

use menagerie_kernel::guard::GuardError;
use menagerie_kernel::transfer::ExportError;
use menagerie_kernel::{CallError, ConnectError};
use menagerie_types::explain::io_help;
use menagerie_types::{Explain, exit_code};
use thiserror::Error;

use crate::config::{ConfigError, Origin};

/// An error that ends a command.
#[expect(missing_docs, reason = "fields of errors name themselves")]
#[derive(Debug, Error)]
pub enum CliError {
    /// Each argument is valid, but they contradict each other.
    #[error("{what}")]
    Usage { what: String, help: String },
    /// The command refuses to do it.
    #[error("{what}")]
    Refused { what: String, help: String },
    /// An engine could not do what the command needed.
    #[error("{what}")]
    Failed { what: String, source: Cause },
    /// The command found the problem itself, and brings help and exit code.
    #[error("{what}")]
    Diagnosed {
        what: String,
        #[source]
        because: Option<Box<dyn Error + Send + Sync>>,
        help: String,
        code: u8,
    },
    /// The parent of a znode to be created does not exist.
    #[error("cannot create {path}: its parent {parent} does not exist")]
    Orphan { path: String, parent: String },
    #[error("the configuration cannot be used")]
    Config(#[from] ConfigError),
    #[error("cannot open a ZooKeeper session")]
    Connect {
        source: ConnectError,
        /// Where the server list comes from.
        origin: Origin,
    },
    /// Another process listens on the address.
    #[error("cannot listen on {address}: it is used by {owner}")]
    Taken {
        address: SocketAddr,
        owner: String,
        /// The flag that chooses another address.
        flag: &'static str,
    },
    #[error("cannot {doing}")]
    Io { doing: String, source: std::io::Error },
    /// The user's own program ended with this code and has said why.
    #[error("it ended with {code}")]
    Ended { code: u8 },
    #[error("stopped by signal {signal}")]
    Interrupted { signal: i32 },
    /// The reader of our stdout has gone.
    #[error("nobody reads the output")]
    OutputClosed,
}

/// An error with its own help and exit code.
#[derive(Debug)]
pub struct Cause(Box<dyn Explain>);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Wraps an engine's error with what was attempted: `.map_err(cannot("put messages"))`.
pub fn cannot<E: Explain>(doing: impl AsRef<str>) -> impl FnOnce(E) -> CliError {
    let what = format!("cannot {}", doing.as_ref());
    move |source| CliError::Failed { what, source: Cause(Box::new(source)) }
}

impl CliError {
    /// Wraps an IO error with what was attempted.
    pub fn io(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }

    /// Wraps an error of the disk or the data on it, with help for this case.
    pub fn data<E: Error + Send + Sync + 'static>(
        doing: impl AsRef<str>,
        help: impl Into<String>,
    ) -> impl FnOnce(E) -> Self {
        let (what, help) = (format!("cannot {}", doing.as_ref()), help.into());
        move |source| Self::Diagnosed { what, because: Some(Box::new(source)), help, code: exit_code::DATA }
    }

    /// The guard could not start the command.
    pub fn not_started(source: GuardError) -> Self {
        Self::Failed { what: "the command was not started".to_owned(), source: Cause(Box::new(source)) }
    }

    /// The lock or slot held while the command ran is gone.
    pub fn lost(what: impl AsRef<str>) -> Self {
        Self::Diagnosed {
            what: format!("lost {}", what.as_ref()),
            because: None,
            help: "check ZooKeeper with `menagerie doctor`, and try again".to_owned(),
            code: exit_code::LOST,
        }
    }

    /// No server answers on the administration socket of this folder.
    pub fn not_running(kind: &str, folder: &std::path::Path, source: std::io::Error) -> Self {
        Self::Diagnosed {
            what: format!("no {kind} runs on {}", folder.display()),
            because: Some(Box::new(source)),
            help: format!(
                "start it first, or name with --data the folder that it was given (the one above {kind}/)"
            ),
            code: exit_code::UNAVAILABLE,
        }
    }

    /// Whether a znode is missing, which a missing chroot would explain, too.
    pub fn is_no_znode(&self) -> bool {
        let source = match self {
            Self::Failed { source, .. } => source,
            Self::Orphan { .. } => return true,
            _ => return false,
        };
        let source: &(dyn Error + 'static) = &*source.0;
        if let Some(error) = source.downcast_ref::<CallError>() {
            return error.is_no_znode();
        }
        match source.downcast_ref::<ExportError>() {
            Some(ExportError::Call(error)) => error.is_no_znode(),
            Some(ExportError::NoNamespace { .. }) => true,
            _ => false,
        }
    }

    /// What the user can do about it.
    pub fn help(&self) -> String {
        match self {
            Self::Usage { help, .. } | Self::Refused { help, .. } | Self::Diagnosed { help, .. } => {
                help.clone()
            }
            Self::Failed { source, .. } => source.0.help().into_owned(),
            Self::Orphan { .. } => "create it first, or say -p to create missing parents too".to_owned(),
            Self::Config(error) => error.help(),
            Self::Connect { source, origin } => match source {
                ConnectError::Unreachable { .. } | ConnectError::Address { .. } => {
                    format!("the servers come from: {origin}. {}", capitalized(&source.help()))
                }
                _ => source.help().into_owned(),
            },
            Self::Taken { flag, .. } => {
                format!("stop it, or choose another address with {flag} (port 0 picks one)")
            }
            Self::Io { source, .. } => io_help(source).to_owned(),
            Self::Interrupted { .. } | Self::OutputClosed | Self::Ended { .. } => String::new(),
        }
    }

    /// Whether the user knows already, so that we print nothing.
    fn is_silent(&self) -> bool {
        matches!(self, Self::Interrupted { .. } | Self::OutputClosed | Self::Ended { .. })
    }

    /// One of [`exit_code`], or 128 and more for signals.
    pub fn code(&self) -> u8 {
        match self {
            Self::Usage { .. } | Self::Config(_) => exit_code::USAGE,
            Self::Failed { source, .. } => source.0.exit_code(),
            Self::Connect { source, .. } => source.exit_code(),
            Self::Diagnosed { code, .. } | Self::Ended { code } => *code,
            Self::Interrupted { signal } => u8::try_from(128 + signal).unwrap_or(exit_code::FAILED),
            Self::OutputClosed => 128 + 13,
            Self::Refused { .. } | Self::Orphan { .. } | Self::Taken { .. } | Self::Io { .. } => {
                exit_code::FAILED
            }
        }
    }
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

impl From<menagerie_keeper::Failure> for CliError {
    fn from(failure: menagerie_keeper::Failure) -> Self {
        Self::Failed { what: "the keeper cannot run".to_owned(), source: Cause(Box::new(failure)) }
    }
}

impl From<menagerie_journal::server::Failure> for CliError {
    fn from(failure: menagerie_journal::server::Failure) -> Self {
        Self::Failed { what: "the journal cannot run".to_owned(), source: Cause(Box::new(failure)) }
    }
}

/// Prints an error to stderr and returns its exit code.
pub fn report(error: &CliError) -> ExitCode {
    if error.is_silent() {
        return ExitCode::from(error.code());
    }
    let mut text = format!("error: {error}\n");
    let mut source = error.source();
    while let Some(cause) = source {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "because: {cause}");
        source = cause.source();
    }
    // Some causes are self-explanatory and have no help.
    let help = error.help();
    if !help.is_empty() {
        let _ = writeln!(text, "help: {help}");
    }
    eprint!("{text}");
    ExitCode::from(error.code())
}
