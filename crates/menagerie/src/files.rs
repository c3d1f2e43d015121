//! Open files: one budget for the process, divided once among the ports that it opens. Clients of one port cannot use
//! up the descriptors of another, nor those of the files that keeper and journal write.

use rustix::process::{Resource, getrlimit, setrlimit};
use tracing::warn;

/// A port's share of the budget. Each role that listens declares its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// The role's kind.
    pub kind: &'static str,
    /// Descriptors that the role needs besides its connections and cannot work without.
    pub own_files: u64,
    /// Weight when the remaining descriptors are divided: sessions weigh more than polls.
    pub weight: u64,
}

/// Descriptors of every process: listeners, ZooKeeper sessions, logs, administration, and connections to /metrics.
const OWN_FILES: u64 = 64;

/// Connections that each port of a process may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shares(Vec<(Port, usize)>);

impl Shares {
    /// Raises the process's limit of open files and divides it among the ports that it will open.
    pub fn of(ports: &[Port]) -> Self {
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            warn!(%error, "cannot raise the limit of open files");
        }
        Self::divide(getrlimit(Resource::Nofile).current, ports)
    }

    /// The connections of one port; 0 if the port was not named.
    pub fn connections(&self, port: Port) -> usize {
        self.0.iter().find(|(other, _)| *other == port).map_or(0, |(_, connections)| *connections)
    }

    fn divide(limit: Option<u64>, ports: &[Port]) -> Self {
        let own: u64 = OWN_FILES + ports.iter().map(|port| port.own_files).sum::<u64>();
        // When descriptors are few, the journal reads with fewer of its own.
        let room = limit.map_or(u64::MAX, |limit| limit.saturating_sub(own).max(limit / 4));
        let total: u64 = ports.iter().map(|port| port.weight).sum();
        let share = |port: Port| usize::try_from(room / total * port.weight).unwrap_or(usize::MAX).max(1);
        Self(ports.iter().map(|port| (*port, share(*port))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEPER: Port = Port { kind: "keeper", own_files: 32, weight: 8 };
    const JOURNAL: Port = Port { kind: "journal", own_files: 320, weight: 2 };
    const QUEUE: Port = Port { kind: "queue", own_files: 16, weight: 4 };
    const ALL: [Port; 3] = [KEEPER, JOURNAL, QUEUE];

    #[test]
    fn connections_leave_the_files_that_servers_need() {
        for (limit, ports) in [(256, &ALL[..]), (512, &ALL), (1024, &ALL), (1 << 20, &ALL), (256, &ALL[..1])]
        {
            let shares = Shares::divide(Some(limit), ports);
            let taken: u64 = ports.iter().map(|port| shares.connections(*port) as u64).sum();
            let own = OWN_FILES + ports.iter().map(|port| port.own_files).sum::<u64>();
            assert!(limit - taken >= own.min(limit * 3 / 4), "{limit}: {shares:?}");
            assert!(ports.iter().all(|port| shares.connections(*port) > 0), "{limit}: {shares:?}");
        }
    }

    #[test]
    fn who_is_alone_has_all_that_is_left() {
        assert_eq!(Shares::divide(Some(1024), &[KEEPER]).connections(KEEPER), 1024 - 96);
        assert_eq!(Shares::divide(Some(1024), &[KEEPER]).connections(JOURNAL), 0);
        assert!(Shares::divide(None, &[KEEPER]).connections(KEEPER) > 1 << 60);
    }
}
