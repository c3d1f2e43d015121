//! Settings of every command that talks to ZooKeeper.
//!
//! - [`gather`]: reads the environment, the configuration file and the addresses of `menagerie up`.
//! - [`resolve()`]: decides, without IO: flag, then environment, then file, then default; and records each value's
//!   origin.
//! - [`file`]: the configuration file as written.
//! - [`worker`]: settings of workers; [`applications`]: of applications that use queues over HTTP; [`pipelines`]: of
//!   pipelines.
//! - [`credentials()`]: reads the files that settings name.

pub mod applications;
mod credentials;
pub mod file;
pub mod gather;
pub mod pipelines;
mod resolve;
mod servers;
pub mod worker;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

pub use applications::ApplicationSettings;
pub use credentials::{TlsText, credentials};
pub use pipelines::PipelineSettings;
pub use resolve::{Inputs, resolve};
pub use servers::{Servers, path as check_path};
pub use worker::WorkerSettings;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Flag(&'static str),
    Environment(&'static str),
    File {
        path: PathBuf,
        /// From 1.
        line: usize,
    },
    /// `addresses.json` of `menagerie up` on this machine.
    Addresses(PathBuf),
    /// The running `menagerie up` of the same user, asked for its secret.
    Up,
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
    pub value: T,
    pub origin: Origin,
}

/// Never printed, not even by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// How we authenticate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// `user:password`, as it was given.
    Digest(Secret),
    /// A file with the same.
    File(PathBuf),
}

/// The resolved settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The configuration file in use.
    pub file: Option<Chosen<PathBuf>>,
    pub servers: Chosen<Servers>,
    pub namespace: Chosen<String>,
    /// How long the server keeps the session of a silent client.
    pub session_timeout: Chosen<Duration>,
    pub auth: Option<Chosen<Auth>>,
    /// Trusted authorities, PEM; if set, connections use TLS.
    pub tls_ca: Option<Chosen<PathBuf>>,
    /// Our certificate chain, PEM.
    pub tls_cert: Option<Chosen<PathBuf>>,
    /// Our private key, PEM.
    pub tls_key: Option<Chosen<PathBuf>>,
    /// Tokens of journals on other machines.
    pub journal_token_file: Option<Chosen<PathBuf>>,
    /// Trusted authorities for journals, PEM; if set, they must speak TLS.
    pub journal_ca: Option<Chosen<PathBuf>>,
    pub worker: WorkerSettings,
    /// Applications that may use queues over HTTP.
    pub applications: Vec<Chosen<ApplicationSettings>>,
    /// `None`: this machine knows no pipelines.
    pub pipelines: Option<PipelineSettings>,
}

#[derive(Debug, Error)]
pub enum ConfigError {
    /// A named file does not exist or cannot be read.
    #[error("cannot read the configuration {}, named by {named_by}", path.display())]
    Read {
        path: PathBuf,
        /// The flag or variable.
        named_by: &'static str,
        source: std::io::Error,
    },
    /// Not valid TOML, or an unknown key.
    #[error("{}:{line}: {why}", path.display())]
    File {
        path: PathBuf,
        /// From 1.
        line: usize,
        why: String,
    },
    /// A file that a setting names cannot be read.
    #[error("{key} ({origin}): cannot read {}", path.display())]
    Named { key: &'static str, origin: Origin, path: PathBuf, source: std::io::Error },
    /// A value makes no sense.
    #[error("{key} ({origin}): {why}")]
    Value { key: &'static str, origin: Origin, why: String, help: &'static str },
}

impl ConfigError {
    /// What the user can do about it.
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
