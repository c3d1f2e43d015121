//! Runs the `git` program: the one place that starts it, so that each command has a time limit, a bounded answer and a
//! known environment.

use std::env;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::error::GitError;

/// Enough for each command but a fetch, whose length depends on the repository.
const TIME_LIMIT: Duration = Duration::from_secs(120);
/// Git removes its lock files when it is asked to end; it gets this long before it is killed.
const GRACE: Duration = Duration::from_secs(2);
/// Listing the files of a repository with 500,000 of them fits.
const OUTPUT_MAX: u64 = 64 << 20;
/// More of git's complaints is of no use to anybody.
const STDERR_MAX: u64 = 64 << 10;

/// Settings of every command. Hooks of ours and automatic maintenance would run in the middle of other work.
const SETTINGS: [&str; 7] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    "push.gpgSign=false",
    "protocol.ext.allow=never",
];

/// Settings of local commands. They read no configuration but the cache's own, which we write; what is listed here
/// would otherwise depend on git's version.
const PURE_SETTINGS: [&str; 13] = [
    "core.attributesFile=/dev/null",
    "core.autocrlf=false",
    "core.eol=lf",
    "core.quotePath=false",
    "core.bigFileThreshold=512m",
    "diff.renames=true",
    "diff.renameLimit=1000",
    "merge.renames=true",
    "merge.renameLimit=1000",
    "merge.directoryRenames=false",
    "merge.conflictStyle=merge",
    "merge.renormalize=false",
    "i18n.commitEncoding=UTF-8",
];

/// Variables that an operator sets so that git finds its way to a remote; every other `GIT_*` is removed.
const KEPT_FOR_REMOTE: [&str; 8] = [
    "GIT_ASKPASS",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "GIT_EXEC_PATH",
    "GIT_PROXY_COMMAND",
    "GIT_SSH",
];
const KEPT_PREFIXES_FOR_REMOTE: [&str; 5] =
    ["GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "GIT_HTTP_", "GIT_SSH_", "GIT_SSL_"];

/// Which configuration a command obeys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// None of the user's: the result depends on the arguments alone.
    Local,
    /// The user's and the system's: credentials, proxies, `safe.directory`, ssh settings.
    Remote,
}

/// What a command printed, and how it ended.
pub(super) struct Answer {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

/// A git command that is being put together.
pub(super) struct Git {
    command: Command,
    doing: String,
    input: Option<Vec<u8>>,
    limit: Duration,
}

impl Git {
    /// A command in a folder. `doing` completes the sentence "cannot …".
    pub(super) fn new(scope: Scope, folder: &Path, doing: impl Into<String>) -> Self {
        let mut command = Command::new("git");
        // A group of its own, so that ssh, git-remote-https and the like end with it.
        command.current_dir(folder).process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        set_environment(&mut command, scope);
        let pure: &[&str] = if scope == Scope::Local { &PURE_SETTINGS } else { &[] };
        for setting in SETTINGS.iter().chain(pure) {
            command.args(["-c", setting]);
        }
        Self { command, doing: doing.into(), input: None, limit: TIME_LIMIT }
    }

    pub(super) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    pub(super) fn args<T: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = T>) -> Self {
        self.command.args(args);
        self
    }

    pub(super) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// What the command reads; nothing unless given.
    pub(super) fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = Some(input.into());
        self
    }

    pub(super) fn time_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs it; its answer on success, an error sorted by what it printed otherwise.
    pub(super) async fn succeed(self) -> Result<Vec<u8>, GitError> {
        let doing = self.doing.clone();
        let answer = self.answer().await?;
        if answer.status.success() {
            Ok(answer.stdout)
        } else {
            Err(GitError::from_stderr(&doing, &answer.stderr, answer.status.code()))
        }
    }

    /// Runs it, for callers to which a failure tells something. When the future is dropped, git is asked to end.
    pub(super) async fn answer(mut self) -> Result<Answer, GitError> {
        self.command.stdin(if self.input.is_some() { Stdio::piped() } else { Stdio::null() });
        let child = self.command.spawn().map_err(|error| self.spawn_error(error))?;
        let mut group = Group::of(&child);
        match timeout(self.limit, converse(child, self.input.take(), &self.doing)).await {
            Ok(answer) => {
                if answer.is_ok() {
                    group.disarm();
                }
                answer
            }
            Err(_) => {
                group.signal(Signal::TERM);
                tokio::time::sleep(GRACE).await;
                group.signal(Signal::KILL);
                group.disarm();
                Err(GitError::TimedOut { doing: self.doing, limit: self.limit })
            }
        }
    }

    fn spawn_error(&self, error: std::io::Error) -> GitError {
        let folder = self.command.as_std().get_current_dir();
        // A missing working folder gives the same error as a missing program.
        if error.kind() == ErrorKind::NotFound && folder.is_none_or(Path::is_dir) {
            GitError::NoGit
        } else {
            GitError::io(format!("start git in order to {}", self.doing))(error)
        }
    }
}

async fn converse(mut child: Child, input: Option<Vec<u8>>, doing: &str) -> Result<Answer, GitError> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            // A git that ends early says why in its own words; the broken pipe is only a consequence.
            let _ = stdin.write_all(&input).await;
        }
        Ok(())
    };
    let read = async {
        let stdout = read_at_most(stdout, OUTPUT_MAX).await.map_err(GitError::io(doing))?;
        stdout.ok_or_else(|| GitError::TooLarge {
            what: format!("git's answer to: {doing}"),
            limit_bytes: OUTPUT_MAX,
        })
    };
    let complaints = async { read_beginning(stderr, STDERR_MAX).await.map_err(GitError::io(doing)) };
    let ((), stdout, stderr) = tokio::try_join!(write, read, complaints)?;
    let status = child.wait().await.map_err(GitError::io(doing))?;
    Ok(Answer { status, stdout, stderr })
}

/// All that comes, or `None` if it is more than `max` bytes.
async fn read_at_most(source: Option<impl AsyncRead + Unpin>, max: u64) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    if let Some(source) = source {
        source.take(max + 1).read_to_end(&mut bytes).await?;
    }
    Ok((bytes.len() as u64 <= max).then_some(bytes))
}

/// The first `max` bytes of what comes. The rest is read too, so that the writer can go on.
async fn read_beginning(source: Option<impl AsyncRead + Unpin>, max: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(source) = source {
        let mut beginning = source.take(max);
        beginning.read_to_end(&mut bytes).await?;
        tokio::io::copy(&mut beginning.into_inner(), &mut tokio::io::sink()).await?;
    }
    Ok(bytes)
}

fn set_environment(command: &mut Command, scope: Scope) {
    for (name, _) in env::vars_os() {
        let name_text = name.to_string_lossy();
        let is_kept = scope == Scope::Remote
            && (KEPT_FOR_REMOTE.contains(&&*name_text)
                || KEPT_PREFIXES_FOR_REMOTE.iter().any(|prefix| name_text.starts_with(prefix)));
        if name_text.starts_with("GIT_") && !is_kept {
            command.env_remove(&name);
        }
    }
    command.env("LC_ALL", "C").env_remove("LANGUAGE").env("GIT_NO_REPLACE_OBJECTS", "1");
    match scope {
        Scope::Local => {
            command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
            command.env("GIT_ATTR_NOSYSTEM", "1");
        }
        Scope::Remote => {
            command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_ALLOW_PROTOCOL", "file:git:http:https:ssh");
            // Nobody sits at our terminal: ssh must fail rather than ask for a password or a host key.
            command.env("SSH_ASKPASS_REQUIRE", "force");
            if env::var_os("SSH_ASKPASS").is_none() {
                command.env("SSH_ASKPASS", "/bin/false");
            }
        }
    }
}

/// The processes of one command. Ends them when it is dropped before they are done, with a signal that lets git
/// remove its lock files: a stale one would make every later command fail.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| Pid::from_raw(id.cast_signed())))
    }

    fn disarm(&mut self) {
        self.0 = None;
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // The only failure is that nobody is left in the group.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
    }
}
