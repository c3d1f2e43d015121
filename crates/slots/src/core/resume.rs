//! Whether a slot of the same holder may be taken over: only if its earlier run is provably gone.

use std::fmt;

use menagerie_znodes::slots::{Holder, Process};

/// What identifies this host and boot.
#[expect(missing_docs, reason = "fields name themselves")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    pub host: String,
    /// `None` without a valid one. It tells apart hosts with the same name.
    pub machine_id: Option<String>,
    pub boot_id: String,
    /// The pid namespace that we see.
    pub pid_namespace: u64,
}

/// Validates a machine id, as machine-id(5) has it: 32 hexadecimal digits, not all 0. Anything else identifies no
/// host: images have an empty file or `uninitialized`, and every host booted from one has that until its own id is
/// drawn.
pub fn machine_id(text: &str) -> Option<String> {
    let text = text.trim();
    let is_id = text.len() == 32
        && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        && text.bytes().any(|byte| byte != b'0');
    is_id.then(|| text.to_ascii_lowercase())
}

/// What proves that a holder ran on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SameHost {
    /// The same machine id, in this boot or an earlier one.
    MachineId,
    /// No machine ids to compare, but the same boot, and one boot is one machine. It may have been a container with a
    /// life of its own.
    Boot,
}

/// A name alone proves nothing: two hosts may share it.
fn same_host(holder: &Holder, local: &Local) -> Option<SameHost> {
    if holder.host.as_ref() != Some(&local.host) {
        return None;
    }
    let known = |id: &Option<String>| id.as_deref().and_then(machine_id);
    match (known(&holder.machine_id), known(&local.machine_id)) {
        (Some(theirs), Some(ours)) => (theirs == ours).then_some(SameHost::MachineId),
        (None, _) | (_, None) => is_this_boot(holder, local).then_some(SameHost::Boot),
    }
}

/// An unreadable boot id proves nothing.
fn is_this_boot(holder: &Holder, local: &Local) -> bool {
    !local.boot_id.is_empty() && holder.boot_id.as_ref() == Some(&local.boot_id)
}

fn is_in_sight(holder: &Holder, local: &Local) -> bool {
    local.pid_namespace != 0 && holder.pid_namespace == Some(local.pid_namespace)
}

/// Whether a script on this very host took this slot without a process, so that another script may continue with it.
pub fn is_of_this_host(holder: &Holder, local: &Local) -> bool {
    match same_host(holder, local) {
        Some(SameHost::MachineId) => true,
        // Containers of one machine may share a name, too.
        Some(SameHost::Boot) => is_in_sight(holder, local),
        None => false,
    }
}

/// What may be done with a slot of the same holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// The earlier run is gone: take it over.
    Take,
    /// The earlier run may still be active, here or elsewhere: wait for it.
    Wait(Doubt),
}

/// Why the earlier run may still be active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// Its sign of life exists.
    Alive,
    /// It ran on another host, or on an unknown one.
    Elsewhere,
    /// It ran in a container of this host whose processes we cannot see.
    OutOfSight,
    /// Its process, or the guard of its command, still runs.
    Running(Process),
    /// It ends with the session that took it, and belongs to that session until then.
    Ephemeral,
    /// The pool is frozen.
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

/// Whether an earlier admission of this very process, whose outcome was unknown, gave the slot. Not for an ephemeral
/// slot: it ends with the earlier session and would vanish after a take-over.
pub fn is_ours(holder: &Holder, tried: impl Fn(&str) -> bool) -> bool {
    !holder.ephemeral && holder.ticket.as_deref().is_some_and(tried)
}

/// Decides. `alive`: its sign of life exists. `runs` says whether a process of this host runs.
pub fn resume(holder: &Holder, alive: bool, local: &Local, runs: impl Fn(Process) -> bool) -> Resume {
    if alive {
        return Resume::Wait(Doubt::Alive);
    }
    if holder.ephemeral {
        return Resume::Wait(Doubt::Ephemeral);
    }
    let (Some(boot_id), Some(_)) = (&holder.boot_id, holder.process) else {
        return Resume::Wait(Doubt::Elsewhere);
    };
    let Some(proof) = same_host(holder, local) else { return Resume::Wait(Doubt::Elsewhere) };
    if boot_id.is_empty() || local.boot_id.is_empty() {
        return Resume::Wait(Doubt::Elsewhere);
    }
    if !is_this_boot(holder, local) {
        return match proof {
            SameHost::MachineId => Resume::Take,
            SameHost::Boot => Resume::Wait(Doubt::Elsewhere),
        };
    }
    if !is_in_sight(holder, local) {
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
    const ID: &str = "3d1219c7c4c5404aaa1f6d2a48adfda4";
    const OTHER: &str = "4d1219c7c4c5404aaa1f6d2a48adfda4";

    fn local() -> Local {
        Local {
            host: "a".to_owned(),
            machine_id: Some(ID.to_owned()),
            boot_id: "boot-1".to_owned(),
            pid_namespace: 1,
        }
    }

    fn holder() -> Holder {
        Holder {
            holder: "a".to_owned(),
            host: Some("a".to_owned()),
            machine_id: Some(ID.to_owned()),
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
        let namesake = Local { machine_id: Some(OTHER.to_owned()), ..local() };
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
    fn only_32_digits_are_a_machine_id() {
        assert_eq!(machine_id(&format!("{ID}\n")).as_deref(), Some(ID));
        assert_eq!(machine_id(&ID.to_uppercase()).as_deref(), Some(ID));
        let (zeros, short, long) = ("0".repeat(32), &ID[..31], format!("{ID}0"));
        for text in ["", "uninitialized", "uninitialized\n", &zeros, short, &long, &ID.replace('3', "x")] {
            assert_eq!(machine_id(text), None, "{text:?}");
        }
    }

    #[test]
    fn what_is_no_machine_id_proves_nothing_also_if_it_was_stored() {
        let stored = Some("uninitialized".to_owned());
        let (theirs, ours) =
            (Holder { machine_id: stored.clone(), ..holder() }, Local { machine_id: stored, ..local() });
        let rebooted = Local { boot_id: "boot-2".to_owned(), ..ours.clone() };
        assert_eq!(resume(&theirs, false, &rebooted, |_| false), Resume::Wait(Doubt::Elsewhere));
        assert_eq!(resume(&theirs, false, &ours, |_| false), Resume::Take, "one boot is one machine");
        // The machine id was drawn after the slot was taken.
        assert_eq!(resume(&theirs, false, &local(), |_| false), Resume::Take);
    }

    #[test]
    fn script_goes_on_with_a_slot_of_its_own_host_only() {
        let script = Holder { process: None, guard: None, ..holder() };
        let (rebooted, moved) = ("boot-2".to_owned(), 9);
        assert!(is_of_this_host(
            &script,
            &Local { boot_id: rebooted.clone(), pid_namespace: moved, ..local() }
        ));
        assert!(!is_of_this_host(&script, &Local { machine_id: Some(OTHER.to_owned()), ..local() }));
        assert!(!is_of_this_host(&script, &Local { host: "b".to_owned(), ..local() }));
        let (nameless, here) = (Holder { machine_id: None, ..script }, Local { machine_id: None, ..local() });
        assert!(is_of_this_host(&nameless, &here));
        assert!(is_of_this_host(&nameless, &local()), "its id was drawn since");
        assert!(!is_of_this_host(&nameless, &Local { boot_id: rebooted, ..here.clone() }));
        assert!(!is_of_this_host(&nameless, &Local { pid_namespace: moved, ..here.clone() }));
        let blind = Local { boot_id: String::new(), ..here };
        assert!(!is_of_this_host(&Holder { boot_id: Some(String::new()), ..nameless }, &blind));
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
