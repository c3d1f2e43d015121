//! Signals exactly the processes that were found, and no others.

use std::collections::HashSet;
use std::io;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

use super::processes::{self, Process, ProcessId};

/// Scans of `/proc` for processes started since the last scan, before we kill what we have found.
const LOOKS_MAX: usize = 20;

/// Sends a signal to this process. If it has ended, does nothing: its pid may belong to another process by now.
pub(super) fn signal(process: ProcessId, signal: Signal) {
    let Some(pid) = pid(process.pid) else { return };
    // The descriptor pins one process, so the identity check comes after it is open.
    if let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty())
        && process.exists()
    {
        // Fails if it has just ended, or belongs to another user: the caller then finds it still there.
        let _ = pidfd_send_signal(descriptor, signal);
    }
}

/// What one signal is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Target {
    Process(ProcessId),
    /// A process group, and a member through which we found it.
    Group(u32, ProcessId),
}

impl Target {
    fn signal(self, by: Signal) {
        match self {
            Self::Process(process) => signal(process, by),
            // As long as one of its members is there, the kernel does not reuse a group's number.
            Self::Group(group, member) => {
                if let Some(group) = pid(group).filter(|_| member.exists()) {
                    // Fails as for one process.
                    let _ = kill_process_group(group, by);
                }
            }
        }
    }
}

/// Kills the processes that `choose` picks, and returns all that it ever picked.
///
/// It first stops them, scanning again until nothing new turns up: a stopped process cannot fork while its relatives
/// are being killed.
///
/// # Errors
/// If there is no `/proc` to look at.
pub(super) fn kill_all(choose: impl Fn(&[Process]) -> Vec<Process>) -> io::Result<HashSet<ProcessId>> {
    let mut stopped = HashSet::new();
    let mut groups = HashSet::new();
    let mut chosen = HashSet::new();
    for _ in 0..LOOKS_MAX {
        let all = processes::all()?;
        let ours = choose(&all);
        chosen.extend(ours.iter().map(|process| process.id));
        let fresh: Vec<Target> = targets(&all, &ours)
            .into_iter()
            .filter(|target| match target {
                Target::Process(_) => stopped.insert(*target),
                Target::Group(group, _) => groups.insert(*group) && stopped.insert(*target),
            })
            .collect();
        if fresh.is_empty() {
            break;
        }
        for target in fresh {
            target.signal(Signal::STOP);
        }
    }
    for target in stopped {
        target.signal(Signal::KILL);
    }
    Ok(chosen)
}

/// Targets that reach `ours` and nobody else. By group where a group holds only ours: a signal to a group cannot miss a
/// process that is being forked at that moment, one to a process can.
fn targets(all: &[Process], ours: &[Process]) -> Vec<Target> {
    let our_ids: HashSet<ProcessId> = ours.iter().map(|process| process.id).collect();
    let shared: HashSet<u32> =
        all.iter().filter(|process| !our_ids.contains(&process.id)).map(|process| process.group).collect();
    let alive = ours.iter().filter(|process| process.is_alive());
    alive
        .map(|process| {
            if shared.contains(&process.group) {
                Target::Process(process.id)
            } else {
                Target::Group(process.group, process.id)
            }
        })
        .collect()
}

fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_strangers_share_is_never_signalled_as_one() {
        let process = |pid, group, state| {
            let id = ProcessId { pid, start: u64::from(pid) };
            Process { id, parent: 1, group, session: 1, state }
        };
        let stranger = process(2, 2, b'S');
        let ours =
            [process(10, 10, b'S'), process(11, 10, b'T'), process(12, 2, b'R'), process(13, 13, b'Z')];
        let all: Vec<Process> = ours.iter().copied().chain([stranger]).collect();
        let expected =
            [Target::Group(10, ours[0].id), Target::Group(10, ours[1].id), Target::Process(ours[2].id)];
        assert_eq!(targets(&all, &ours), expected);
    }
}
