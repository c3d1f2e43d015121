//! What the operator chooses for every command that talks to ZooKeeper.
//!
//! - [`gather`]: reads the world: the environment, the file that counts, the addresses of what runs here.
//! - [`resolve()`]: decides, without IO: flag, then environment, then file, then default; and remembers where each came from.
//! - [`file`]: the configuration file as it is written.
//! - [`worker`]: the part of it that is about workers; [`applications`]: about who may use queues over HTTP.
//! - [`credentials()`]: reads the files that settings name.

pub mod applications;
mod credentials;
pub mod file;
pub mod gather;
mod resolve;
mod servers;
pub mod worker;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

pub use applications::ApplicationSettings;
pub use credentials::{TlsText, credentials};
pub use resolve::resolve;
pub use servers::{Servers, path as check_path};
pub use worker::WorkerSettings;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The command line.
    Flag(&'static str),
    /// An environment variable.
    Environment(&'static str),
    /// A line of a file.
    File {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
    },
    /// What `menagerie up` on this machine wrote.
    Addresses(PathBuf),
    /// What `menagerie up` of the same user told us.
    Up,
    /// Nobody said anything.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => f.write_str(flag),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Addresses(path) => write!(f, "{}", path.display()),
            Self::Up => f.write_str("`menagerie up` of this user"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen<T> {
    /// The value.
    pub value: T,
    /// Where it comes from.
    pub origin: Origin,
}

/// Something that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// How our user is proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// `user:password`, as it was given.
    Digest(Secret),
    /// The same in a file.
    File(PathBuf),
}

/// Everything, decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The file that counts.
    pub file: Option<Chosen<PathBuf>>,
    /// Where the ensemble is.
    pub servers: Chosen<Servers>,
    /// Where we live in it.
    pub namespace: Chosen<String>,
    /// How long the server keeps a silent session.
    pub session_timeout: Chosen<Duration>,
    /// Our user.
    pub auth: Option<Chosen<Auth>>,
    /// Whom we believe; with it, connections are encrypted. PEM.
    pub tls_ca: Option<Chosen<PathBuf>>,
    /// Who we are: certificate chain. PEM.
    pub tls_cert: Option<Chosen<PathBuf>>,
    /// Who we are: private key. PEM.
    pub tls_key: Option<Chosen<PathBuf>>,
    /// Tokens of journals on other machines.
    pub journal_token_file: Option<Chosen<PathBuf>>,
    /// Whom we believe to be a journal; with it, they must speak TLS. PEM.
    pub journal_ca: Option<Chosen<PathBuf>>,
    /// What workers do.
    pub worker: WorkerSettings,
    /// Who may use queues over HTTP.
    pub applications: Vec<Chosen<ApplicationSettings>>,
}

/// Why the configuration cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A file that was named is not there, or cannot be read.
    #[error("cannot read the configuration {}, named by {named_by}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Who named it.
        named_by: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// A file is no TOML, or has a key that does not exist.
    #[error("{}:{line}: {why}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// A file that a setting names cannot be read.
    #[error("{key} ({origin}): cannot read {}", path.display())]
    Named {
        /// Which setting.
        key: &'static str,
        /// Where it comes from.
        origin: Origin,
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A value makes no sense.
    #[error("{key} ({origin}): {why}")]
    Value {
        /// Which one.
        key: &'static str,
        /// Where it comes from.
        origin: Origin,
        /// What is wrong.
        why: String,
        /// What to try.
        help: &'static str,
    },
}

impl ConfigError {
    /// What to try.
    pub fn help(&self) -> String {
        match self {
            Self::Read { named_by, .. } => format!("name a file that can be read, or leave out {named_by}"),
            Self::File { .. } => {
                "correct that line; docs/config.md lists every key, `menagerie config show` shows the effective values"
                    .to_owned()
            }
            Self::Named { key, source, .. } => match source.kind() {
                std::io::ErrorKind::NotFound => {
                    format!("correct the path in {key}; in a file it is relative to that file's folder")
                }
                std::io::ErrorKind::PermissionDenied => {
                    "let our user read it, or run as one who may".to_owned()
                }
                _ => format!("name a text file that can be read with {key}"),
            },
            Self::Value { help, .. } => (*help).to_owned(),
        }
    }
}
