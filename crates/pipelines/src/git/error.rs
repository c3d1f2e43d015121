//! What can go wrong with git, in words that help whoever has to repair it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::names::{InvalidName, Sha};

/// At most this many characters of git's own words are kept.
const WHY_MAX: usize = 1_000;

/// Git could not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum GitError {
    /// Git ended with an error that has no variant of its own.
    #[error("cannot {doing}: {why}")]
    Failed {
        /// What was attempted.
        doing: String,
        /// The useful part of what git printed, without passwords.
        why: String,
        /// Git's exit status; `None` if a signal ended it.
        exit: Option<i32>,
    },
    /// A commit, or something it consists of, is neither in the cache nor at the remote.
    #[error("commit {sha} is not there")]
    Missing {
        /// The object that git looked for.
        sha: Sha,
    },
    /// The remote repository did not answer, refused us, or is none.
    #[error("cannot {doing}: the repository cannot be reached: {why}")]
    Unreachable {
        /// What was attempted.
        doing: String,
        /// The useful part of what git printed, without passwords.
        why: String,
    },
    /// Git failed because of this machine: its disk is full or broken, or the kernel has killed git.
    #[error("cannot {doing}: this machine cannot do it: {why}")]
    Machine {
        /// What was attempted.
        doing: String,
        /// The useful part of what git printed.
        why: String,
    },
    /// A file, or git's answer, is larger than we are willing to hold in memory.
    #[error("{what} is larger than {limit_bytes} bytes")]
    TooLarge {
        /// What was read.
        what: String,
        /// The limit that was passed.
        limit_bytes: u64,
    },
    /// Git, or another process that held a cache's lock, took too long.
    #[error("gave up after {} s: {doing}", limit.as_secs())]
    TimedOut {
        /// What was attempted.
        doing: String,
        /// How long we waited.
        limit: Duration,
    },
    /// A merge that was made elsewhere cannot be made here in the same way.
    #[error("the merge of {change} should be {expected}, but here it is {made}")]
    Differs {
        /// The change that was merged.
        change: String,
        /// The commit that the other machine made.
        expected: Sha,
        /// What was made here: a commit, or the conflict.
        made: String,
    },
    /// A name or URL cannot be given to git.
    #[error(transparent)]
    Invalid(#[from] InvalidName),
    /// There is no `git` program.
    #[error("the program git is not installed, or not in PATH")]
    NoGit,
    /// A file of the cache or of a work tree cannot be used.
    #[error("cannot {doing}")]
    Io {
        /// What was attempted.
        doing: String,
        /// The operating system's reason.
        source: Arc<io::Error>,
    },
}

impl GitError {
    /// What the reader may do about it.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Failed { .. } => {
                "Read git's words above. Git 2.38 or newer is needed. If they speak of a damaged cache, stop the \
                 processes that use it and delete its folder; it is fetched again."
            }
            Self::Missing { .. } => {
                "The branch was probably rewritten or deleted since. Push the commit again, or drop the change."
            }
            Self::Unreachable { .. } => {
                "Check the connection's base URL, that the host answers, and that this user may read the \
                 repository: run `git ls-remote URL` as the same user."
            }
            Self::TooLarge { .. } => "Make the file smaller, or do not have it read.",
            Self::TimedOut { .. } => {
                "Check that the remote host and this machine's disk answer; it is tried again by itself."
            }
            Self::Differs { .. } => {
                "Two machines merge differently: install the same version of git on all of them."
            }
            Self::Invalid(_) => {
                "Use a name that `git check-ref-format` accepts, and an absolute folder or an \
                                 http, https, ssh, git or file URL."
            }
            Self::NoGit => {
                "Install git 2.38 or newer (`apt install git`, `dnf install git`) and see that PATH \
                             contains it."
            }
            Self::Io { .. } | Self::Machine { .. } => {
                "Check the data folder: does it exist, has it space, does it belong to this user?"
            }
        }
    }

    /// Whether this machine is at fault, so that another one may succeed.
    pub fn is_local(&self) -> bool {
        match self {
            Self::NoGit | Self::Io { .. } | Self::Machine { .. } | Self::TimedOut { .. } => true,
            Self::Failed { .. }
            | Self::Missing { .. }
            | Self::Unreachable { .. }
            | Self::TooLarge { .. }
            | Self::Differs { .. }
            | Self::Invalid(_) => false,
        }
    }

    /// For `map_err` after a file operation.
    pub(super) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source: Arc::new(source) }
    }

    /// Sorts a failed command by what it printed. Git has no other way of telling; `LC_ALL=C` keeps its words stable.
    pub(super) fn from_stderr(doing: &str, stderr: &[u8], exit: Option<i32>) -> Self {
        let text = String::from_utf8_lossy(stderr);
        let own: String =
            text.lines().filter(|line| !line.starts_with("remote:")).collect::<Vec<_>>().join("\n");
        let is_machine = exit.is_none() || is_machine_fault(&own);
        if let Some(sha) = missing_object(&own).filter(|_| !is_machine) {
            return Self::Missing { sha };
        }
        let (doing, why) = (doing.to_owned(), useful_part(&text));
        if is_machine {
            Self::Machine { doing, why }
        } else if is_unreachable(&own) {
            Self::Unreachable { doing, why }
        } else {
            Self::Failed { doing, why, exit }
        }
    }
}

/// Whether git tells of a fault of this machine. What the remote has printed is not asked.
fn is_machine_fault(text: &str) -> bool {
    const PHRASES: [&str; 7] = [
        "No space left on device",
        "Disk quota exceeded",
        "Read-only file system",
        "Input/output error",
        "Cannot allocate memory",
        "Too many open files",
        "Out of memory",
    ];
    PHRASES.iter().any(|phrase| text.contains(phrase))
}

fn missing_object(text: &str) -> Option<Sha> {
    const PHRASES: [&str; 8] = [
        "bad object",
        "Not a valid object name",
        "not a valid object",
        "not something we can merge",
        "unable to read",
        "Could not read ",
        "Could not parse",
        "is not a tree",
    ];
    let line = text.lines().find(|line| PHRASES.iter().any(|phrase| line.contains(phrase)))?;
    line.split(|c: char| !c.is_ascii_alphanumeric()).find_map(|word| word.parse().ok())
}

fn is_unreachable(text: &str) -> bool {
    const PHRASES: [&str; 12] = [
        "does not appear to be a git repository",
        "not a git repository",
        "Could not read from remote repository",
        "unable to access",
        "unable to connect",
        "unable to look up",
        "Could not resolve host",
        "Authentication failed",
        "could not read Username",
        "could not read Password",
        "hung up unexpectedly",
        "dubious ownership",
    ];
    let names_repository = |line: &str| line.contains("epository") && line.ends_with("not found");
    PHRASES.iter().any(|phrase| text.contains(phrase)) || text.lines().any(names_repository)
}

/// What a person wants to read of git's error output: no hints, no warnings, no control characters, no passwords.
pub(super) fn useful_part(text: &str) -> String {
    let is_noise = |line: &&str| {
        line.is_empty()
            || ["hint:", "warning:", "usage:", "To ", "Please make sure", "and the repository exists"]
                .iter()
                .any(|start| line.starts_with(start))
    };
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !is_noise(line))
        .map(|line| line.strip_prefix("fatal: ").or(line.strip_prefix("error: ")).unwrap_or(line))
        .collect();
    let joined = if lines.is_empty() { "git gave no reason".to_owned() } else { lines.join("; ") };
    let printable: String = joined.chars().filter(|c| !c.is_control()).collect();
    without_secrets(&printable).chars().take(WHY_MAX).collect()
}

/// Takes `USER:PASSWORD@` out of each URL of a text.
pub(super) fn without_secrets(text: &str) -> String {
    let mut parts = text.split("://");
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let authority_end =
            part.find(|c: char| c == '/' || c == '\'' || c.is_whitespace()).unwrap_or(part.len());
        let start = part[..authority_end].rfind('@').map_or(0, |at| at + 1);
        clean.push_str("://");
        clean.push_str(&part[start..]);
    }
    clean
}
