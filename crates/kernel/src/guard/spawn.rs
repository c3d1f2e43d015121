//! The wrapper's side of a start.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::{getpgrp, getpid, set_child_subreaper};
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command as Tokio};

use super::channel::{STREAMS, send_head};
use super::command::{EnvChange, Stream};
use super::guarded::{Control, GuardProcess, Guarded, read_report};
use super::protocol::{Report, Start};
use super::{Command, GuardError, ProcessId, guardian, secrets};
use crate::clock::nanos;
use crate::unique;

/// The first argument of an executable that is to be a guard. Its `main` then calls [`run`](super::run).
pub const SUBCOMMAND: &str = "guard";

/// The environment variable by which the wrapper recognises a guard's descendants after the guard was killed.
pub(super) const MARKER: &str = "MENAGERIE_GUARD";

/// The executable of this process, even if the file was replaced since it was started.
pub fn this_program() -> &'static Path {
    Path::new("/proc/self/exe")
}

/// Starts a command under a guard; `guard_program` is [`this_program`], unless this process is not the product.
///
/// Makes the calling process the subreaper of its descendants for the rest of its life, so that it finds what a killed
/// guard leaves. It then also inherits the orphans of its other children.
///
/// Dropping the future, or later the [`Guarded`], kills the command.
///
/// # Errors
/// If the command was not started.
pub async fn spawn(command: Command, guard_program: &Path) -> Result<Guarded, GuardError> {
    prepare(&command, guard_program)?.start().await
}

/// A guard that waits for the order to start its command. Dropping it means that the command never runs.
#[derive(Debug)]
pub struct Prepared {
    program: String,
    start: Start,
    body: Vec<u8>,
    channel: tokio::net::UnixStream,
    streams: Streams,
    guard: ProcessId,
    child: Child,
    marker: String,
}

/// The first half of [`spawn`], for callers that record the guard before anything runs under it.
///
/// # Errors
/// If there is no guard.
pub fn prepare(command: &Command, guard_program: &Path) -> Result<Prepared, GuardError> {
    prepare_with(command, start_message(command), guard_program)
}

/// Starts a guard with the command's streams, environment and user.
pub(super) fn prepare_with(
    command: &Command,
    start: Start,
    guard_program: &Path,
) -> Result<Prepared, GuardError> {
    let program = command.program.to_string_lossy().into_owned();
    let no_guard = |source: io::Error| GuardError::NoGuard { program: program.clone(), source };
    if !start.has_no_zero_bytes() {
        return Err(GuardError::NoProgram { program, source: Errno::INVAL.into() });
    }
    set_child_subreaper(Some(getpid())).map_err(|error| no_guard(error.into()))?;
    let marker = unique::hex();
    let streams = Streams::open(command).map_err(no_guard)?;
    let (ours, theirs) = UnixStream::pair().map_err(no_guard)?;
    let (head, body) = start.encode();
    send_head(&ours, &head, streams.theirs.each_ref().map(OwnedFd::as_fd)).map_err(no_guard)?;
    let child = start_guard(command, guard_program, &marker, theirs).map_err(no_guard)?;
    let channel = to_tokio(ours).map_err(no_guard)?;
    // It is not reaped yet, so it exists, if only as a zombie.
    let guard =
        child.id().map_or_else(|| Err(io::ErrorKind::NotFound.into()), ProcessId::of).map_err(no_guard)?;
    Ok(Prepared { program, start, body, channel, streams, guard, child, marker })
}

impl Prepared {
    /// The guard.
    pub fn guard(&self) -> ProcessId {
        self.guard
    }

    /// Starts the command.
    ///
    /// # Errors
    /// If it was not started.
    pub async fn start(self) -> Result<Guarded, GuardError> {
        let Self { program, start, body, mut channel, streams, guard, child, marker } = self;
        // Fails if the guard is gone, which the missing report shows.
        let _ = channel.write_all(&body).await;
        // The guard has the command's ends now. A pipe that we kept open would never end.
        drop(streams.theirs);
        let started = started(read_report(&channel).await, program, &start)?;
        let process = GuardProcess { control: Control::new(Arc::new(channel)), guard, child, marker };
        Ok(Guarded::new(process, started, start.stays, streams.ours))
    }
}

/// Reads the guard's report of the start.
pub(super) fn started(
    report: Option<Report>,
    program: String,
    start: &Start,
) -> Result<ProcessId, GuardError> {
    match report {
        Some(Report::Started { pid, start }) => Ok(ProcessId { pid, start }),
        Some(Report::NoProgram { errno }) => {
            Err(GuardError::NoProgram { program, source: io::Error::from_raw_os_error(errno) })
        }
        Some(Report::NoDirectory { errno }) => {
            let directory = start.directory.to_string_lossy().into_owned();
            let source = io::Error::from_raw_os_error(errno);
            Err(GuardError::NoDirectory { program, directory, source })
        }
        Some(Report::TooLate) => Err(GuardError::TooLate { program }),
        Some(Report::Ended(_) | Report::Expired(_)) | None => Err(GuardError::GuardDied { program }),
    }
}

pub(super) fn start_message(command: &Command) -> Start {
    let group = if command.takes_terminal { getpgrp().as_raw_nonzero().get().unsigned_abs() } else { 0 };
    Start {
        deadline: command.deadline.as_nanos(),
        grace: nanos(command.grace),
        terminal_group: group,
        stays: false,
        environment: Vec::new(),
        directory: command.directory.clone().unwrap_or_default().into_os_string(),
        words: std::iter::once(&command.program).chain(&command.args).cloned().collect(),
    }
}

/// The guard gets all but its environment over the channel: its command line holds nothing that a `pkill -f` for the
/// wrapper or the command would match. It has its own process group for the same reason.
fn start_guard(command: &Command, program: &Path, marker: &str, channel: UnixStream) -> io::Result<Child> {
    let mut guard = Tokio::new(program);
    guard.arg0(guardian::NAME).arg(SUBCOMMAND).process_group(0);
    guard.stdin(Stdio::from(OwnedFd::from(channel))).stdout(Stdio::null());
    // First, so that the caller can still pass one on purpose. The guard does not get them either: it may run as
    // another user, who can read its environment.
    for secret in secrets::present() {
        guard.env_remove(secret);
    }
    for change in &command.env {
        match change {
            EnvChange::Clear => guard.env_clear(),
            EnvChange::Set(name, value) => guard.env(name, value),
            EnvChange::Remove(name) => guard.env_remove(name),
        };
    }
    if let Some((user, group)) = command.user {
        guard.uid(user).gid(group);
    }
    guard.env(MARKER, OsStr::new(marker)).spawn()
}

fn to_tokio(channel: UnixStream) -> io::Result<tokio::net::UnixStream> {
    channel.set_nonblocking(true)?;
    tokio::net::UnixStream::from_std(channel)
}

/// Our ends of the piped streams.
#[derive(Debug, Default)]
pub(super) struct Pipes {
    pub stdin: Option<pipe::Sender>,
    pub stdout: Option<pipe::Receiver>,
    pub stderr: Option<pipe::Receiver>,
}

/// The three standard streams of a command.
#[derive(Debug)]
pub(super) struct Streams {
    pub theirs: [OwnedFd; STREAMS],
    pub ours: Pipes,
}

impl Streams {
    pub(super) fn open(command: &Command) -> io::Result<Self> {
        let [stdin, stdout, stderr] = command.streams;
        let mut ours = Pipes::default();
        let stdin = match (&command.input, stdin) {
            (Some(input), _) => input.try_clone()?,
            (None, Stream::Inherit) => io::stdin().as_fd().try_clone_to_owned()?,
            (None, Stream::Null) => File::open("/dev/null")?.into(),
            (None, Stream::Piped) => {
                let (reader, writer) = io::pipe()?;
                ours.stdin = Some(pipe::Sender::from_owned_fd(writer.into())?);
                reader.into()
            }
        };
        let (stdout, stderr) = match &command.output {
            // Two descriptors of one open file: they share its offset.
            Some(file) => (file.try_clone()?, file.try_clone()?),
            None => (
                output(stdout, || io::stdout().as_fd().try_clone_to_owned(), &mut ours.stdout)?,
                output(stderr, || io::stderr().as_fd().try_clone_to_owned(), &mut ours.stderr)?,
            ),
        };
        Ok(Self { theirs: [stdin, stdout, stderr], ours })
    }
}

fn output(
    stream: Stream,
    own: impl FnOnce() -> io::Result<OwnedFd>,
    ours: &mut Option<pipe::Receiver>,
) -> io::Result<OwnedFd> {
    match stream {
        Stream::Inherit => own(),
        Stream::Null => Ok(File::options().write(true).open("/dev/null")?.into()),
        Stream::Piped => {
            let (reader, writer) = io::pipe()?;
            *ours = Some(pipe::Receiver::from_owned_fd(reader.into())?);
            Ok(writer.into())
        }
    }
}
