//! The processes of this machine, as `/proc` shows them.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::io;

/// A process; its start time tells it from a later one with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProcessId {
    /// Unique only among the processes that exist now.
    pub pid: u32,
    /// When it started, in clock ticks since the machine did: field 22 of `/proc/PID/stat`.
    pub start: u64,
}

impl ProcessId {
    /// The process that has this pid now.
    ///
    /// # Errors
    /// If there is none.
    pub fn of(pid: u32) -> io::Result<Self> {
        Process::of(pid).map(|process| process.id)
    }

    /// Whether it exists, if only as a zombie that nobody has reaped.
    pub fn exists(self) -> bool {
        Self::of(self.pid).is_ok_and(|found| found == self)
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.pid)
    }
}

/// The fields of `/proc/PID/stat` that we use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub id: ProcessId,
    pub parent: u32,
    pub group: u32,
    pub session: u32,
    /// The letter of `ps`: `Z` is a zombie, `T` is stopped.
    pub state: u8,
}

impl Process {
    pub(super) fn of(pid: u32) -> io::Result<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat"))?;
        parse(pid, &stat)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unexpected form of /proc/PID/stat"))
    }

    /// Whether there is anything left to signal.
    pub(super) fn is_alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X')
    }
}

/// All processes. Those that start or end during the scan may be missing.
///
/// # Errors
/// If there is no `/proc`.
pub(super) fn all() -> io::Result<Vec<Process>> {
    let entries = fs::read_dir("/proc")?;
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(pids.filter_map(|pid| Process::of(pid).ok()).collect())
}

/// Those of `all` that descend from one of `roots`, without the roots. Parents come before their children.
pub(super) fn descendants(all: &[Process], roots: &[u32]) -> Vec<Process> {
    let mut known: HashSet<u32> = roots.iter().copied().collect();
    let mut found = Vec::new();
    let mut rest: Vec<Process> =
        all.iter().filter(|process| !known.contains(&process.id.pid)).copied().collect();
    loop {
        let (next, later): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|process| known.contains(&process.parent));
        if next.is_empty() {
            return found;
        }
        known.extend(next.iter().map(|process| process.id.pid));
        found.extend(next);
        rest = later;
    }
}

/// Parses `12 (any ) name) S 1 12 12 …`. The name may hold anything, so fields are counted from its end.
fn parse(pid: u32, stat: &[u8]) -> Option<Process> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = str::from_utf8(stat.get(name_end + 1..)?).ok()?.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    // Fields 7 to 21 are between the session (6) and the start (22).
    let start = fields.nth(15)?.parse().ok()?;
    Some(Process { id: ProcessId { pid, start }, parent, group, session, state })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_brackets_confuses_nobody() {
        let stat = b"12 (a) Z 9 (b) S 7 11 10 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 1\n";
        let expected = Process {
            id: ProcessId { pid: 12, start: 987_654 },
            parent: 7,
            group: 11,
            session: 10,
            state: b'S',
        };
        assert_eq!(parse(12, stat), Some(expected));
        assert_eq!(parse(12, b"12 (cut"), None);
        assert_eq!(parse(12, b"12 (cut) S 7 11"), None);
    }

    #[test]
    fn descendants_are_found_whatever_the_order_of_numbers() {
        let process = |pid, parent| Process {
            id: ProcessId { pid, start: 0 },
            parent,
            group: 0,
            session: 0,
            state: b'S',
        };
        let all = [process(2, 9), process(3, 1), process(5, 2), process(9, 4), process(4, 1), process(1, 0)];
        let found: Vec<u32> = descendants(&all, &[4]).iter().map(|process| process.id.pid).collect();
        assert_eq!(found, [9, 2, 5]);
    }

    #[test]
    fn this_process_is_there() {
        let me = ProcessId::of(std::process::id()).unwrap();
        assert!(me.exists());
        assert!(!ProcessId { start: me.start + 1, ..me }.exists());
        assert!(all().unwrap().iter().any(|process| process.id == me));
    }
}
