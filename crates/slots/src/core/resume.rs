//! Whether a slot that the same holder has may be taken over: only when its earlier run is provably gone.

use std::fmt;

use menagerie_znodes::slots::{Holder, Process};

/// What this host knows of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    /// Its name.
    pub host: String,
    /// Its machine id, if it has one: two hosts may have one name.
    pub machine_id: Option<String>,
    /// This boot.
    pub boot_id: String,
    /// The pid namespace that we see.
    pub pid_namespace: u64,
}

/// What may be done with a slot of the same holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// Nothing of the earlier run is left: take it.
    Take,
    /// It may still run, here or elsewhere: wait for it.
    Wait(Doubt),
}

/// Why nobody can be sure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// Its sign of life is there.
    Alive,
    /// It ran on another host, or nobody knows where.
    Elsewhere,
    /// It ran in a container of this host whose processes we cannot see.
    OutOfSight,
    /// Its process, or the guard of its command, still runs.
    Running(Process),
    /// It ends with the session that it was taken in, and until then it is that session's.
    Ephemeral,
    /// The emergency stop is pulled.
    Frozen,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alive => f.write_str("it is alive"),
            Self::Elsewhere => f.write_str("nobody on this host can tell whether it still runs"),
            Self::OutOfSight => f.write_str("it ran in a container whose processes cannot be seen from here"),
            Self::Running(process) => write!(f, "its process {} still runs", process.pid),
            Self::Ephemeral => f.write_str("its session is not over yet"),
            Self::Frozen => f.write_str("the pool is frozen"),
        }
    }
}

/// Whether a slot was given to this very process by an admission that it had not heard of. One that ends with a session
/// ends with the one before: taken over, it would vanish from under us.
pub fn is_ours(holder: &Holder, tried: impl Fn(&str) -> bool) -> bool {
    !holder.ephemeral && holder.ticket.as_deref().is_some_and(tried)
}

/// Decides. `alive`: its sign of life exists. `runs` tells whether a process of this host runs.
pub fn resume(holder: &Holder, alive: bool, local: &Local, runs: impl Fn(Process) -> bool) -> Resume {
    if alive {
        return Resume::Wait(Doubt::Alive);
    }
    if holder.ephemeral {
        return Resume::Wait(Doubt::Ephemeral);
    }
    let (Some(host), Some(boot_id), Some(_)) = (&holder.host, &holder.boot_id, holder.process) else {
        return Resume::Wait(Doubt::Elsewhere);
    };
    if *host != local.host || holder.machine_id != local.machine_id {
        return Resume::Wait(Doubt::Elsewhere);
    }
    // What nobody could read is no proof: two containers of one name, on two machines, have no machine id in common that
    // differs.
    if boot_id.is_empty() || local.boot_id.is_empty() {
        return Resume::Wait(Doubt::Elsewhere);
    }
    if *boot_id != local.boot_id {
        return match local.machine_id {
            Some(_) => Resume::Take,
            None => Resume::Wait(Doubt::Elsewhere),
        };
    }
    if local.pid_namespace == 0 || holder.pid_namespace != Some(local.pid_namespace) {
        return Resume::Wait(Doubt::OutOfSight);
    }
    match [holder.process, holder.guard].into_iter().flatten().find(|process| runs(*process)) {
        Some(process) => Resume::Wait(Doubt::Running(process)),
        None => Resume::Take,
    }
}

#[cfg(test)]
mod unit {
    use super::*;

    const RUN: Process = Process { pid: 7, started: 100 };
    const GUARD: Process = Process { pid: 8, started: 101 };

    fn local() -> Local {
        Local {
            host: "a".to_owned(),
            machine_id: Some("m".to_owned()),
            boot_id: "boot-1".to_owned(),
            pid_namespace: 1,
        }
    }

    fn holder() -> Holder {
        Holder {
            holder: "a".to_owned(),
            host: Some("a".to_owned()),
            machine_id: Some("m".to_owned()),
            boot_id: Some("boot-1".to_owned()),
            pid_namespace: Some(1),
            process: Some(RUN),
            guard: Some(GUARD),
            ..Holder::default()
        }
    }

    #[test]
    fn slot_is_taken_over_only_when_nothing_of_the_earlier_run_is_left() {
        let none = |_| false;
        assert_eq!(resume(&holder(), false, &local(), none), Resume::Take);
        assert_eq!(resume(&holder(), true, &local(), none), Resume::Wait(Doubt::Alive));
        let guard_left = |process| process == GUARD;
        assert_eq!(resume(&holder(), false, &local(), guard_left), Resume::Wait(Doubt::Running(GUARD)));
        let elsewhere = Local { host: "b".to_owned(), ..local() };
        assert_eq!(resume(&holder(), false, &elsewhere, none), Resume::Wait(Doubt::Elsewhere));
        let namesake = Local { machine_id: Some("n".to_owned()), ..local() };
        assert_eq!(resume(&holder(), false, &namesake, none), Resume::Wait(Doubt::Elsewhere));
        let container = Local { pid_namespace: 2, ..local() };
        assert_eq!(resume(&holder(), false, &container, none), Resume::Wait(Doubt::OutOfSight));
    }

    #[test]
    fn another_boot_proves_it_also_for_other_pid_namespaces() {
        let rebooted = Local { boot_id: "boot-2".to_owned(), pid_namespace: 9, ..local() };
        assert_eq!(resume(&holder(), false, &rebooted, |_| true), Resume::Take);
    }

    #[test]
    fn what_nobody_could_read_proves_nothing() {
        let none = |_| false;
        let nameless = Holder { machine_id: None, ..holder() };
        let container = Local { machine_id: None, ..local() };
        assert_eq!(resume(&nameless, false, &container, none), Resume::Take, "one boot is one machine");
        let other_machine = Local { boot_id: "boot-2".to_owned(), ..container };
        assert_eq!(resume(&nameless, false, &other_machine, none), Resume::Wait(Doubt::Elsewhere));
        let no_boot = Holder { boot_id: Some(String::new()), ..holder() };
        let blind = Local { boot_id: String::new(), ..local() };
        assert_eq!(resume(&no_boot, false, &local(), none), Resume::Wait(Doubt::Elsewhere));
        assert_eq!(resume(&holder(), false, &blind, none), Resume::Wait(Doubt::Elsewhere));
        assert_eq!(resume(&no_boot, false, &blind, none), Resume::Wait(Doubt::Elsewhere));
        let no_namespace = Holder { pid_namespace: Some(0), ..holder() };
        let blind = Local { pid_namespace: 0, ..local() };
        assert_eq!(resume(&no_namespace, false, &blind, none), Resume::Wait(Doubt::OutOfSight));
    }

    #[test]
    fn admission_of_our_own_that_came_late_is_taken_over_unless_it_ends_with_the_session_before() {
        let late = Holder { ticket: Some("t".to_owned()), ..holder() };
        assert!(is_ours(&late, |ticket| ticket == "t"));
        assert!(!is_ours(&late, |_| false));
        assert!(!is_ours(&holder(), |_| true), "without a ticket it is nobody's");
        assert!(!is_ours(&Holder { ephemeral: true, ..late }, |_| true));
    }

    #[test]
    fn what_a_script_wrote_is_never_taken_over() {
        let plain = Holder { holder: "a".to_owned(), ..Holder::default() };
        assert_eq!(resume(&plain, false, &local(), |_| false), Resume::Wait(Doubt::Elsewhere));
    }
}
