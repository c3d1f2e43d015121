//! Flows: jobs, their tasks, and the peers that run them (seed 004, `/onyx/<deployment>`).

mod payloads;

use std::collections::BTreeSet;

use crate::Name;
use crate::payload::check;
use crate::spec::{Kind, ZnodeSpec};
use crate::znode::{Dir, Znode};

pub use payloads::{
    Ack, Answer, Completion, Cooldown, Document, Ends, Exhaust, JobRecord, JobState, Offered, Outcome,
    Payload, PeerRecord, PeerState, PeerStateRecord, Plan, Seal, Sealed, Status, TaskRecord,
};

const COORDINATOR: &str = "the leading coordinator";
const ITS_TICKET: &str = "the leader's ticket, and the version of `coordinator`";
const NEVER: &str = "nobody";
const WITH_PEER: &str = "the leading coordinator, when the peer is dead";

const ROOT: ZnodeSpec = dir("/flows", "004: `/onyx`");
const DEPLOYMENT: ZnodeSpec = dir("/flows/<deployment>", "004: `/<deployment UUID>`");
const EVENTS: ZnodeSpec = ZnodeSpec {
    pattern: "/flows/<deployment>/coordinator",
    kind: Kind::Persistent,
    payload: "number of events that coordinators have handled",
    check: check::<u64>,
    written_by: "the leading coordinator, with every event",
    guarded_by: "the leader's ticket, and its version: of two decisions from one state, one is refused",
    deleted_by: NEVER,
    seed: "004: `/coordinator`, whose eleven logs are not kept: an event is one transaction, so none is ever half done",
};
const ELECTION: ZnodeSpec =
    dir("/flows/<deployment>/election", "004: `/election/proposal-N`; ours has kazoo's names");
const PEERS: ZnodeSpec = dir("/flows/<deployment>/peer", "004: `/peer`");
const PEER: ZnodeSpec = ZnodeSpec {
    pattern: "/flows/<deployment>/peer/<peer>",
    kind: Kind::Persistent,
    payload: "JSON: host and process",
    check: check::<PeerRecord>,
    written_by: "the peer, when it registers",
    guarded_by: "its name, which is never used again",
    deleted_by: WITH_PEER,
    seed: "004: `/peer/<UUID>`",
};
const PULSES: ZnodeSpec = dir("/flows/<deployment>/pulse", "004: `/pulse`");
const PULSE: ZnodeSpec = ZnodeSpec {
    pattern: "/flows/<deployment>/pulse/<peer>",
    kind: Kind::Ephemeral,
    payload: "nothing",
    check: check::<()>,
    written_by: "the peer, when it registers; never again",
    guarded_by: "its name, which is never used again",
    deleted_by: "the peer when it leaves, or the end of its session",
    seed: "004: `/pulse/<UUID>`",
};
const PEER_STATES: ZnodeSpec = dir("/flows/<deployment>/peer-state", "004: `/peer-state`");
const PEER_HISTORY: ZnodeSpec = ZnodeSpec {
    pattern: "/flows/<deployment>/peer-state/<peer>",
    written_by: COORDINATOR,
    guarded_by: ITS_TICKET,
    deleted_by: WITH_PEER,
    ..dir("", "004: `/peer-state/<UUID>`")
};
const PEER_STATE: ZnodeSpec = ZnodeSpec {
    pattern: "/flows/<deployment>/peer-state/<peer>/state-<number>",
    kind: Kind::Persistent,
    payload: "JSON: idle, acking, active, waiting or sealing, and of which offer; the highest number is the current one",
    check: check::<PeerStateRecord>,
    written_by: COORDINATOR,
    guarded_by: ITS_TICKET,
    deleted_by: "the leading coordinator, beyond the newest 20, and when the peer is dead",
    seed: "004: `/peer-state/<UUID>/state-N`",
};
const PAYLOADS: ZnodeSpec = dir("/flows/<deployment>/payload", "004: `/payload`");
const PAYLOAD: ZnodeSpec = ZnodeSpec {
    pattern: "/flows/<deployment>/payload/<peer>",
    kind: Kind::Persistent,
    payload: "JSON: the offer, its task, and the partitions that the peer may work on; its mzxid is their fence",
    check: check::<Payload>,
    written_by: COORDINATOR,
    guarded_by: ITS_TICKET,
    deleted_by: WITH_PEER,
    seed: "004: `/payload/<UUID>`",
};
const STATUSES: ZnodeSpec = dir("/flows/<deployment>/status", "004: `/status`");
const STATUS: ZnodeSpec = ZnodeSpec {
    pattern: "/flows/<deployment>/status/<peer>",
    kind: Kind::Persistent,
    payload: "JSON: the offer that the peer may work on, as long as this exists",
    check: check::<Status>,
    written_by: COORDINATOR,
    guarded_by: ITS_TICKET,
    deleted_by: "the leading coordinator, when the offer is over",
    seed: "004: `/status/<UUID>`",
};
const ACKS: ZnodeSpec = dir("/flows/<deployment>/ack", "004: `/ack`");
const ACK: ZnodeSpec = ZnodeSpec {
    pattern: "/flows/<deployment>/ack/<peer>",
    kind: Kind::Persistent,
    payload: "JSON: the offer that the peer accepts",
    check: check::<Ack>,
    written_by: "the peer",
    guarded_by: "the offer in it: another one is passed over",
    deleted_by: WITH_PEER,
    seed: "004: `/ack/<UUID>`; it has content, where the seed counted versions",
};
const SEALS: ZnodeSpec = dir("/flows/<deployment>/seal", "004: `/seal`");
const SEAL: ZnodeSpec = ZnodeSpec {
    pattern: "/flows/<deployment>/seal/<peer>",
    kind: Kind::Persistent,
    payload: "JSON: the offer and the share of it that the peer has drained",
    check: check::<Seal>,
    written_by: "the peer",
    guarded_by: "offer and share in it: others are passed over",
    deleted_by: WITH_PEER,
    seed: "004: `/seal/<UUID>`",
};
const EXHAUSTS: ZnodeSpec = dir("/flows/<deployment>/exhaust", "004: `/exhaust`");
const EXHAUST: ZnodeSpec = ZnodeSpec {
    pattern: "/flows/<deployment>/exhaust/<peer>",
    kind: Kind::Persistent,
    payload: "JSON: the answer: the offer, and whether the peer is to seal",
    check: check::<Exhaust>,
    written_by: COORDINATOR,
    guarded_by: ITS_TICKET,
    deleted_by: WITH_PEER,
    seed: "004: `/exhaust/<UUID>`",
};
const COMPLETIONS: ZnodeSpec = dir("/flows/<deployment>/completion", "004: `/completion`");
const COMPLETION: ZnodeSpec = ZnodeSpec {
    pattern: "/flows/<deployment>/completion/<peer>",
    kind: Kind::Persistent,
    payload: "JSON: the offer, and how it ended: sealed, with the last ids of all links; or failed, and why",
    check: check::<Completion>,
    written_by: "the peer",
    guarded_by: "the offer in it: another one is passed over",
    deleted_by: WITH_PEER,
    seed: "004: `/completion/<UUID>`",
};
const COOLDOWNS: ZnodeSpec = dir("/flows/<deployment>/cooldown", "004: `/cooldown`");
const COOLDOWN: ZnodeSpec = ZnodeSpec {
    pattern: "/flows/<deployment>/cooldown/<peer>",
    kind: Kind::Persistent,
    payload: "JSON: the offer whose completion was taken note of",
    check: check::<Cooldown>,
    written_by: COORDINATOR,
    guarded_by: ITS_TICKET,
    deleted_by: WITH_PEER,
    seed: "004: `/cooldown/<UUID>`",
};
const PLANS: ZnodeSpec = dir("/flows/<deployment>/plan", "004: `/plan`");
const PLAN: ZnodeSpec = ZnodeSpec {
    pattern: "/flows/<deployment>/plan/<job>",
    kind: Kind::Persistent,
    payload: "JSON: the job as submitted, whether it is to be killed, and the coordinator's answer",
    check: check::<Plan>,
    written_by: "`flow submit` creates it, under an id of its own; `flow kill` and the leading coordinator write it",
    guarded_by: "its version: each write names the one it was decided by",
    deleted_by: NEVER,
    seed: "004: `/plan/<UUID>`",
};
const CATALOGS: ZnodeSpec = dir("/flows/<deployment>/catalog", "004: `/catalog`");
const CATALOG: ZnodeSpec = job_data(
    "/flows/<deployment>/catalog/<job>",
    "JSON: the tasks, with absolute paths",
    "004: `/catalog/<UUID>`",
);
const WORKFLOWS: ZnodeSpec = dir("/flows/<deployment>/workflow", "004: `/workflow`");
const WORKFLOW: ZnodeSpec = job_data(
    "/flows/<deployment>/workflow/<job>",
    "JSON: the edges between tasks",
    "004: `/workflow/<UUID>`",
);
const JOBS: ZnodeSpec = dir("/flows/<deployment>/job", "004: `/job`");
const JOB: ZnodeSpec = ZnodeSpec {
    pattern: "/flows/<deployment>/job/<job>",
    kind: Kind::Persistent,
    payload: "JSON: name, state, why it failed, the journal that has its links, when it was submitted and when it ended",
    check: check::<JobRecord>,
    written_by: COORDINATOR,
    guarded_by: ITS_TICKET,
    deleted_by: NEVER,
    seed: "004: `/job/<UUID>`",
};
const TASKS_ROOT: ZnodeSpec = dir("/flows/<deployment>/task", "004: `/task`");
const TASKS: ZnodeSpec = ZnodeSpec {
    pattern: "/flows/<deployment>/task/<job>",
    written_by: COORDINATOR,
    guarded_by: ITS_TICKET,
    ..dir("", "004: `/task/<UUID>`")
};
const TASK: ZnodeSpec = ZnodeSpec {
    pattern: "/flows/<deployment>/task/<job>/task-<number>",
    kind: Kind::Persistent,
    payload: "JSON: name, type, phase, partitions, and the tasks before and after it",
    check: check::<TaskRecord>,
    written_by: COORDINATOR,
    guarded_by: ITS_TICKET,
    deleted_by: NEVER,
    seed: "004: `/task/<UUID>/task-N`",
};
const TASK_SEALED: ZnodeSpec = ZnodeSpec {
    pattern: "/flows/<deployment>/task/<job>/task-<number>.sealed",
    kind: Kind::Persistent,
    payload: "JSON: the last id of each partition of each link out of the task: where its readers are at the end",
    check: check::<Sealed>,
    written_by: COORDINATOR,
    guarded_by: ITS_TICKET,
    deleted_by: NEVER,
    seed: "none: the seed's sentinel travelled in the queues",
};
const TASK_COMPLETE: ZnodeSpec = ZnodeSpec {
    pattern: "/flows/<deployment>/task/<job>/task-<number>.complete",
    kind: Kind::Persistent,
    payload: "nothing",
    check: check::<()>,
    written_by: COORDINATOR,
    guarded_by: ITS_TICKET,
    deleted_by: NEVER,
    seed: "004: `/task/<UUID>/task-N.complete`",
};
const JOB_LOG: ZnodeSpec = dir("/flows/<deployment>/job-log", "004: `/job-log`");
const OFFER: ZnodeSpec = ZnodeSpec {
    pattern: "/flows/<deployment>/job-log/offer-<number>",
    kind: Kind::Persistent,
    payload: "JSON: job, task and peer of the offer",
    check: check::<Offered>,
    written_by: COORDINATOR,
    guarded_by: ITS_TICKET,
    deleted_by: "the leading coordinator, beyond the newest 100",
    seed: "004: `/job-log/offer-N`",
};

const fn dir(pattern: &'static str, seed: &'static str) -> ZnodeSpec {
    ZnodeSpec {
        pattern,
        kind: Kind::Persistent,
        payload: "nothing",
        check: check::<()>,
        written_by: "whoever comes first: a coordinator, a peer or `flow submit`",
        guarded_by: "nothing: it only exists",
        deleted_by: NEVER,
        seed,
    }
}

const fn job_data(pattern: &'static str, payload: &'static str, seed: &'static str) -> ZnodeSpec {
    ZnodeSpec {
        pattern,
        kind: Kind::Persistent,
        payload,
        check: check::<Document>,
        written_by: COORDINATOR,
        guarded_by: ITS_TICKET,
        deleted_by: NEVER,
        seed,
    }
}

/// The specs of all znodes of flows.
pub const SPECS: &[ZnodeSpec] = &[
    ROOT,
    DEPLOYMENT,
    EVENTS,
    ELECTION,
    PEERS,
    PEER,
    PULSES,
    PULSE,
    PEER_STATES,
    PEER_HISTORY,
    PEER_STATE,
    PAYLOADS,
    PAYLOAD,
    STATUSES,
    STATUS,
    ACKS,
    ACK,
    SEALS,
    SEAL,
    EXHAUSTS,
    EXHAUST,
    COMPLETIONS,
    COMPLETION,
    COOLDOWNS,
    COOLDOWN,
    PLANS,
    PLAN,
    CATALOGS,
    CATALOG,
    WORKFLOWS,
    WORKFLOW,
    JOBS,
    JOB,
    TASKS_ROOT,
    TASKS,
    TASK,
    TASK_SEALED,
    TASK_COMPLETE,
    JOB_LOG,
    OFFER,
];

/// The number of the newest offer, by the names in the job log.
pub fn newest_offer(names: &[String]) -> Option<u64> {
    names.iter().filter_map(|name| name.strip_prefix("offer-")?.parse().ok()).max()
}

/// The numbers of a job's complete tasks, by the names below `task/<job>`.
pub fn complete_tasks(names: &[String]) -> BTreeSet<u32> {
    let complete = |name: &String| name.strip_prefix("task-")?.strip_suffix(".complete")?.parse().ok();
    names.iter().filter_map(complete).collect()
}

/// The number of a peer's current state, by the names in its history.
pub fn newest_state(names: &[String]) -> Option<u64> {
    names.iter().filter_map(|name| name.strip_prefix("state-")?.parse().ok()).max()
}

/// The znodes of one deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment(Name);

macro_rules! znodes {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) -> $holds:ty = $spec:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(&self $(, $argument: $type)*) -> Znode<$holds> {
            $spec.at(&[&self.0 $(, $argument)*])
        }
    )*};
}

impl Deployment {
    /// The deployment of this name.
    pub fn new(name: Name) -> Self {
        Self(name)
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.0
    }

    /// Its directories, parents first.
    pub fn directories(&self) -> Vec<Znode<()>> {
        let one = |spec: &ZnodeSpec| spec.at(&[&self.0]);
        let all = [
            &DEPLOYMENT,
            &ELECTION,
            &PEERS,
            &PULSES,
            &PEER_STATES,
            &PAYLOADS,
            &STATUSES,
            &ACKS,
            &SEALS,
            &EXHAUSTS,
            &COMPLETIONS,
            &COOLDOWNS,
            &PLANS,
            &CATALOGS,
            &WORKFLOWS,
            &JOBS,
            &TASKS_ROOT,
            &JOB_LOG,
        ];
        all.into_iter().map(one).collect()
    }

    znodes! {
        /// The deployment itself.
        root() -> () = DEPLOYMENT;
        /// How many events coordinators have handled.
        events() -> u64 = EVENTS;
        /// Coordinators stand for election here.
        election() -> Dir = ELECTION;
        /// All registered peers.
        peers() -> () = PEERS;
        /// A registered peer.
        peer(peer: &Name) -> PeerRecord = PEER;
        /// All pulses.
        pulses() -> () = PULSES;
        /// Ephemeral: exists while the peer's session lives.
        pulse(peer: &Name) -> () = PULSE;
        /// The peers that the coordinator knows.
        peer_histories() -> () = PEER_STATES;
        /// All states of one peer.
        peer_history(peer: &Name) -> () = PEER_HISTORY;
        /// What it is offered, and its share of that.
        payload(peer: &Name) -> Payload = PAYLOAD;
        /// Whether it may work.
        status(peer: &Name) -> Status = STATUS;
        /// The newest offer that the peer accepted.
        ack(peer: &Name) -> Ack = ACK;
        /// The newest share that the peer has drained.
        seal(peer: &Name) -> Seal = SEAL;
        /// The coordinator's answer to `seal`: wait, or seal the task.
        exhaust(peer: &Name) -> Exhaust = EXHAUST;
        /// How the peer's newest offer ended.
        completion(peer: &Name) -> Completion = COMPLETION;
        /// The newest completion that the coordinator has handled. For people: peers do not read it.
        cooldown(peer: &Name) -> Cooldown = COOLDOWN;
        /// All submitted jobs.
        plans() -> () = PLANS;
        /// A submitted job.
        plan(job: &Name) -> Plan = PLAN;
        /// The catalogue of a job.
        catalog(job: &Name) -> Document = CATALOG;
        /// The workflow of a job.
        workflow(job: &Name) -> Document = WORKFLOW;
        /// All planned jobs.
        jobs() -> () = JOBS;
        /// A planned job.
        job(job: &Name) -> JobRecord = JOB;
        /// All tasks of a job.
        tasks(job: &Name) -> () = TASKS;
        /// The newest offers.
        job_log() -> () = JOB_LOG;
    }

    /// A state that a peer has or had.
    pub fn peer_state(&self, peer: &Name, number: u64) -> Znode<PeerStateRecord> {
        PEER_STATE.at(&[&self.0, peer, &number])
    }

    /// A task.
    pub fn task(&self, job: &Name, number: u32) -> Znode<TaskRecord> {
        TASK.at(&[&self.0, job, &number])
    }

    /// Where the links out of a task end.
    pub fn task_sealed(&self, job: &Name, number: u32) -> Znode<Sealed> {
        TASK_SEALED.at(&[&self.0, job, &number])
    }

    /// A task is complete.
    pub fn task_complete(&self, job: &Name, number: u32) -> Znode<()> {
        TASK_COMPLETE.at(&[&self.0, job, &number])
    }

    /// An offer.
    pub fn offer(&self, number: u64) -> Znode<Offered> {
        OFFER.at(&[&self.0, &number])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_seed_below_the_deployment() {
        let deployment = Deployment::new(Name::new("default").unwrap());
        let (peer, job) = (Name::new("p1").unwrap(), Name::new("j1").unwrap());
        assert_eq!(deployment.pulse(&peer).path(), "/flows/default/pulse/p1");
        assert_eq!(deployment.task_sealed(&job, 2).path(), "/flows/default/task/j1/task-2.sealed");
        assert_eq!(deployment.peer_state(&peer, 3).path(), "/flows/default/peer-state/p1/state-3");
        let names = ["state-9", "state-10", "other"].map(str::to_owned);
        assert_eq!(newest_state(&names), Some(10));
        let names = ["task-1", "task-1.sealed", "task-1.complete", "task-12"].map(str::to_owned);
        assert_eq!(complete_tasks(&names), BTreeSet::from([1]));
        assert_eq!(deployment.offer(7).path(), "/flows/default/job-log/offer-7");
        assert!(deployment.directories().iter().all(|dir| dir.path().starts_with("/flows/default")));
    }
}
