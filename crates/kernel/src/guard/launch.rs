//! The guard's side of a start.

use std::env;
use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use nix::errno::Errno;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;

use super::channel::STREAMS;
use super::processes::ProcessId;
use super::protocol::{Report, Start};
use crate::clock::Moment;

/// Starts the command in its own process group and with these signals blocked; the error is what to report.
///
/// Not through the standard library: there a child inherits the parent's blocked signals, and a guard blocks all.
pub(super) fn launch(
    start: &Start,
    streams: &[OwnedFd; STREAMS],
    blocked: &SigSet,
) -> Result<ProcessId, Report> {
    if !start.directory.is_empty() {
        env::set_current_dir(&start.directory)
            .map_err(|error| Report::NoDirectory { errno: errno(&error) })?;
    }
    if Moment::from_nanos(start.deadline).has_passed() {
        return Err(Report::TooLate);
    }
    let child =
        execute(start, streams, blocked).map_err(|errno| Report::NoProgram { errno: errno as i32 })?;
    // It cannot be gone: until we reap it, it stays at least as a zombie.
    ProcessId::of(child.as_raw().unsigned_abs()).map_err(|error| Report::NoProgram { errno: errno(&error) })
}

fn execute(start: &Start, streams: &[OwnedFd; STREAMS], blocked: &SigSet) -> Result<Pid, Errno> {
    let mut attributes = PosixSpawnAttr::init()?;
    let flags = [
        PosixSpawnFlags::POSIX_SPAWN_SETPGROUP,
        PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK,
        PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF,
    ];
    attributes.set_flags(flags.into_iter().collect())?;
    attributes.set_pgroup(Pid::from_raw(0))?;
    attributes.set_sigmask(blocked)?;
    // Every Rust program ignores it, and hardly any other expects that.
    attributes.set_sigdefault(&SigSet::from(Signal::SIGPIPE))?;
    let mut actions = PosixSpawnFileActions::init()?;
    for (number, stream) in (0..).zip(streams) {
        actions.add_dup2(stream.as_raw_fd(), number)?;
    }
    let words = start.words.iter().cloned().map(c_string).collect::<Result<Vec<_>, _>>()?;
    let environment = environment(start).collect::<Result<Vec<_>, _>>()?;
    let program = words.first().ok_or(Errno::EINVAL)?;
    posix_spawnp(program, &actions, &attributes, &words, &environment)
}

/// The guard's own environment, with the changes applied.
fn environment(start: &Start) -> impl Iterator<Item = Result<CString, Errno>> + '_ {
    let changed = |name: &OsString| {
        start.environment.iter().any(|change| {
            let value = change.as_bytes().strip_prefix(name.as_bytes());
            value.is_some_and(|value| value.first() == Some(&b'='))
        })
    };
    let kept = env::vars_os().filter(move |(name, _)| !changed(name));
    let kept = kept.map(|(name, value)| c_string(variable(name, &value)));
    kept.chain(start.environment.iter().cloned().map(c_string))
}

fn variable(mut name: OsString, value: &OsString) -> OsString {
    name.push("=");
    name.push(value);
    name
}

fn c_string(text: OsString) -> Result<CString, Errno> {
    CString::new(text.into_vec()).map_err(|_| Errno::EINVAL)
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(Errno::EIO as i32)
}
