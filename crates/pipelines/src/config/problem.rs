//! What is wrong with a configuration, where, and what to try.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A file of a repository, as it stands on one branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// The project's plain name.
    pub project: String,
    /// The branch that has the file.
    pub branch: String,
    /// The path from the root of the repository.
    pub path: String,
    /// The contents.
    pub text: String,
}

/// A mistake in a configuration. What it is about is left out of the layout, unless the message says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The project whose file has it; `None` in the tenant file.
    pub project: Option<String>,
    /// The branch that has the file.
    pub branch: Option<String>,
    /// The file's path in the repository.
    pub path: Option<String>,
    /// The line, counted from 1.
    pub line: Option<u32>,
    /// What is wrong, and why.
    pub message: String,
    /// What to try. Boxed, so that a `Result` with a problem stays below the size clippy warns about.
    pub help: Box<str>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(project) = &self.project {
            write!(f, "{project}")?;
            if let Some(branch) = &self.branch {
                write!(f, "@{branch}")?;
            }
            f.write_str(if self.path.is_some() { " " } else { ": " })?;
        }
        match (&self.path, self.line) {
            (Some(path), Some(line)) => write!(f, "{path}:{line}: ")?,
            (Some(path), None) => write!(f, "{path}: ")?,
            (None, Some(line)) => write!(f, "line {line}: ")?,
            (None, None) => {}
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

/// A problem whose file is not known yet: what the readers of single objects return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub line: Option<u32>,
    pub message: String,
    pub help: String,
}

impl Fault {
    /// A fault of one line.
    pub fn at(line: u32, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { line: Some(line), message: message.into(), help: help.into() }
    }

    /// The fault of using something that Zuul has and this program has not.
    pub fn unsupported(line: u32, what: impl fmt::Display) -> Self {
        Self::at(
            line,
            format!("{what} is not supported yet"),
            "remove it; nothing else takes its place so far",
        )
    }

    /// The problem of a file that belongs to no project: the tenant file.
    pub fn without_file(self) -> Problem {
        let Self { line, message, help } = self;
        Problem { project: None, branch: None, path: None, line, message, help: help.into() }
    }
}

/// The file that an object was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    pub project: String,
    pub branch: String,
    pub path: String,
    /// Whether the project is a config project.
    pub is_trusted: bool,
}

impl Origin {
    /// Says where a fault is.
    pub fn problem(&self, fault: Fault) -> Problem {
        let Fault { line, message, help } = fault;
        Problem {
            project: Some(self.project.clone()),
            branch: Some(self.branch.clone()),
            path: Some(self.path.clone()),
            line,
            message,
            help: help.into(),
        }
    }
}

/// An origin and a line: where an object is defined.
#[derive(Debug, Clone)]
pub(super) struct Position {
    pub origin: Arc<Origin>,
    pub line: u32,
}

impl Position {
    /// A problem of the object defined here.
    pub fn problem(&self, message: impl Into<String>, help: impl Into<String>) -> Problem {
        self.origin.problem(Fault::at(self.line, message, help))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{} {}:{}", self.origin.project, self.origin.branch, self.origin.path, self.line)
    }
}
