//! The specs of the znodes of pipelines, under the paths of seed 003.

use super::payloads::{
    BranchFiles, BuildRecord, BuildsetRecord, ItemRecord, JobRecord, LayoutRecord, ManagementAnswer, Params,
    PipelineRecord, QueueRecord, RepoState, ReportRecord, Request, SystemConf,
};
use crate::payload::{Raw, check};
use crate::spec::{Kind, ZnodeSpec};

const SCHEDULER: &str = "the scheduler that holds the pipeline's lock";
const PIPELINE_LOCK: &str =
    "the ticket of `/locks/pipeline/<tenant>/<pipeline>`, checked in the same transaction";
const WITH_ITEM: &str = "the scheduler that holds the pipeline's lock, when the item leaves the pipeline";
const NEVER: &str = "nobody";

/// A znode that only exists, so that others can be below it.
const fn folder(pattern: &'static str, seed: &'static str) -> ZnodeSpec {
    ZnodeSpec {
        pattern,
        kind: Kind::Persistent,
        payload: "nothing",
        check: check::<()>,
        written_by: "whoever needs it first",
        guarded_by: "nothing: it only exists",
        deleted_by: NEVER,
        seed,
    }
}

/// The directory of a lock or an election.
const fn lock(pattern: &'static str, written_by: &'static str, seed: &'static str) -> ZnodeSpec {
    ZnodeSpec {
        payload: "nothing: its children contend as kazoo's lock does",
        written_by,
        guarded_by: "being a lock",
        ..folder(pattern, seed)
    }
}

/// The directory of an event queue: `queue` has the entries, `data` what is too long for one.
const fn events(
    pattern: &'static str,
    written_by: &'static str,
    deleted_by: &'static str,
    seed: &'static str,
) -> ZnodeSpec {
    ZnodeSpec {
        payload: "nothing: `queue` below it has the entries in order, `data` the data of long ones",
        written_by,
        guarded_by: "nothing: anybody may put; one consumer acknowledges, under its lock",
        deleted_by,
        ..folder(pattern, seed)
    }
}

/// A znode of a pipeline's state.
const fn state(
    pattern: &'static str,
    payload: &'static str,
    check: crate::payload::Check,
    seed: &'static str,
) -> ZnodeSpec {
    ZnodeSpec {
        pattern,
        kind: Kind::Persistent,
        payload,
        check,
        written_by: SCHEDULER,
        guarded_by: PIPELINE_LOCK,
        deleted_by: WITH_ITEM,
        seed,
    }
}

pub const BRANCHES: ZnodeSpec = ZnodeSpec {
    pattern: "/cache/connection/<connection>/branches/data",
    kind: Kind::Persistent,
    payload: "blob: the refs of every repository as they were seen last, and the open proposals with their votes",
    check: check::<Raw>,
    written_by: "the connection's watcher, in the transaction that puts the events",
    guarded_by: "the watcher's ticket",
    deleted_by: NEVER,
    seed: "003: zuul/cache/connection/<connection>/branches/data; written by an elected watcher, so it has no lock",
};
pub const CONFIG_BRANCH: ZnodeSpec = ZnodeSpec {
    pattern: "/config/cache/<project>/<branch>",
    kind: Kind::Persistent,
    payload: "JSON: the commit that the files below were read from; written last",
    check: check::<BranchFiles>,
    written_by: "the scheduler that holds the tenant's lock, from what a merger has read",
    guarded_by: "`/config/lock/<project>`",
    deleted_by: "the scheduler that holds the tenant's lock, when the branch is gone",
    seed: "003: zuul/config/cache, by repository and branch",
};
pub const CONFIG_FILES: ZnodeSpec =
    folder("/config/cache/<project>/<branch>/files", "003: zuul/config/cache");
pub const CONFIG_FILE: ZnodeSpec = ZnodeSpec {
    pattern: "/config/cache/<project>/<branch>/files/<file>",
    kind: Kind::Persistent,
    payload: "blob: the text of a configuration file",
    check: check::<Raw>,
    written_by: "the scheduler that holds the tenant's lock",
    guarded_by: "`/config/lock/<project>`",
    deleted_by: "the scheduler that holds the tenant's lock",
    seed: "003: zuul/config/cache, by file name",
};
pub const CONFIG_LOCK: ZnodeSpec = lock("/config/lock/<project>", "a scheduler", "003: zuul/config/lock");
pub const CONNECTION_EVENTS: ZnodeSpec = events(
    "/events/connection/<connection>/events",
    "the connection's watcher",
    NEVER,
    "003: zuul/events/connection/<connection>/events",
);
pub const FORWARDER: ZnodeSpec = lock(
    "/events/connection/<connection>/events/election",
    "schedulers: the first forwards the connection's events to tenants",
    "003: zuul/events/connection/<connection>/events/election",
);
pub const WATCHER: ZnodeSpec = lock(
    "/events/connection/<connection>/events/election-watcher",
    "schedulers: the first watches the connection's repositories",
    "003: the additional elections of drivers",
);
pub const POKES: ZnodeSpec = folder(
    "/events/connection/<connection>/poke",
    "none: git tells nobody of a push, so a hook does; polling is the net below it",
);
pub const POKE: ZnodeSpec = ZnodeSpec {
    pattern: "/events/connection/<connection>/poke/<project>",
    kind: Kind::Persistent,
    payload: "nothing: a change of it makes the watcher look at the repository at once",
    check: check::<()>,
    written_by: "the hook that `pipeline hook` installs, `pipeline approve`, and schedulers that have pushed",
    guarded_by: "nothing: only the newest change matters",
    deleted_by: NEVER,
    seed: "none",
};
pub const TENANT_TRIGGERS: ZnodeSpec = events(
    "/events/tenant/<tenant>/trigger",
    "the forwarders of connections",
    NEVER,
    "003: zuul/events/tenant/<tenant>/trigger",
);
pub const PIPELINE_EVENTS: ZnodeSpec = folder(
    "/events/tenant/<tenant>/pipelines/<pipeline>",
    "003: zuul/events/tenant/<tenant>/pipelines/<pipeline>",
);
pub const PIPELINE_TRIGGERS: ZnodeSpec = events(
    "/events/tenant/<tenant>/pipelines/<pipeline>/trigger",
    "the scheduler that holds the tenant's trigger lock",
    NEVER,
    "003: zuul/events/tenant/<tenant>/pipelines/<pipeline>/trigger",
);
pub const PIPELINE_MANAGEMENT: ZnodeSpec = events(
    "/events/tenant/<tenant>/pipelines/<pipeline>/management",
    "`pipeline enqueue` and `pipeline dequeue`",
    NEVER,
    "003: zuul/events/tenant/<tenant>/pipelines/<pipeline>/management",
);
pub const PIPELINE_RESULTS: ZnodeSpec = events(
    "/events/tenant/<tenant>/pipelines/<pipeline>/result",
    "mergers and executors, in the transaction that completes the request",
    NEVER,
    "003: zuul/events/tenant/<tenant>/pipelines/<pipeline>/result",
);

macro_rules! job_queue {
    ($module:ident, $root:literal, $seed:literal, $consumer:literal) => {
        /// The specs of one job request queue.
        pub mod $module {
            use super::*;
            pub const REQUESTS: ZnodeSpec = folder(concat!($root, "/requests"), concat!("003: ", $seed, "/requests"));
            pub const REQUEST: ZnodeSpec = ZnodeSpec {
                pattern: concat!($root, "/requests/<request>"),
                kind: Kind::Persistent,
                payload: "JSON: what it is for, its precedence, its state (requested, running, completed), who works on it",
                check: check::<Request>,
                written_by: concat!("the scheduler creates it; the ", $consumer, " that holds its lock writes it"),
                guarded_by: "the request's lock, and its version",
                deleted_by: "the scheduler, when it has the result or does not want it any more",
                seed: concat!("003: ", $seed, "/requests/<request uuid>"),
            };
            pub const CANCEL: ZnodeSpec = ZnodeSpec {
                pattern: concat!($root, "/requests/<request>/cancel"),
                written_by: "the scheduler",
                deleted_by: "the scheduler, with the request",
                ..folder("", "003: the children of a request that tell its consumer")
            };
            pub const LOCKS: ZnodeSpec = folder(concat!($root, "/locks"), concat!("003: ", $seed, "/locks"));
            pub const LOCK: ZnodeSpec = ZnodeSpec {
                deleted_by: "the scheduler, with the request",
                ..lock(
                    concat!($root, "/locks/<request>"),
                    concat!("the first ", $consumer, " that wants the request"),
                    concat!("003: ", $seed, "/locks/<request uuid>"),
                )
            };
            pub const PARAMS: ZnodeSpec = folder(concat!($root, "/params"), concat!("003: ", $seed, "/params"));
            pub const PARAM: ZnodeSpec = ZnodeSpec {
                pattern: concat!($root, "/params/<request>"),
                kind: Kind::Persistent,
                payload: "JSON: the parameters of the request",
                check: check::<Params>,
                written_by: "the scheduler, in the transaction that creates the request",
                guarded_by: "being written once",
                deleted_by: "the scheduler, with the request",
                seed: concat!("003: ", $seed, "/params/<request uuid>"),
            };
            pub const RESULT_DATA: ZnodeSpec = ZnodeSpec {
                pattern: concat!($root, "/result-data/<request>"),
                kind: Kind::Persistent,
                payload: "blob: the result of a request whose submitter waits for it",
                check: check::<Raw>,
                written_by: concat!("the ", $consumer, " that holds the request's lock"),
                guarded_by: "the request's lock",
                deleted_by: "the submitter, when it has read it",
                seed: concat!("003: ", $seed, "/result-data/<request uuid>"),
            };
            pub const RESULT: ZnodeSpec = ZnodeSpec {
                pattern: concat!($root, "/results/<request>"),
                kind: Kind::Persistent,
                payload: "nothing: the result data is complete",
                check: check::<()>,
                written_by: concat!("the ", $consumer, ", in the transaction that completes the request"),
                guarded_by: "the request's lock",
                deleted_by: "the submitter, when it has read it",
                seed: concat!("003: ", $seed, "/results/<request uuid>"),
            };
            pub const WAITER: ZnodeSpec = ZnodeSpec {
                pattern: concat!($root, "/waiters/<request>"),
                kind: Kind::Ephemeral,
                payload: "nothing: somebody waits for the result",
                check: check::<()>,
                written_by: "the submitter, before the request",
                guarded_by: "being owned by one session",
                deleted_by: "the submitter, or the end of its session",
                seed: concat!("003: ", $seed, "/waiters/<request uuid>"),
            };
            pub const ALL: &[ZnodeSpec] = &[
                REQUESTS, REQUEST, CANCEL, LOCKS, LOCK, PARAMS, PARAM,
                RESULTS_DATA_DIR, RESULT_DATA, RESULTS_DIR, RESULT, WAITERS_DIR, WAITER,
            ];
            pub const RESULTS_DATA_DIR: ZnodeSpec = folder(concat!($root, "/result-data"), concat!("003: ", $seed, "/result-data"));
            pub const RESULTS_DIR: ZnodeSpec = folder(concat!($root, "/results"), concat!("003: ", $seed, "/results"));
            pub const WAITERS_DIR: ZnodeSpec = folder(concat!($root, "/waiters"), concat!("003: ", $seed, "/waiters"));
        }
    };
}

job_queue!(executor, "/executor/unzoned", "zuul/executor/unzoned", "executor");
job_queue!(merger, "/merger", "zuul/merger", "merger");

pub const LAYOUT: ZnodeSpec = ZnodeSpec {
    pattern: "/layout/<tenant>",
    kind: Kind::Persistent,
    payload: "JSON: the id of the layout, the commit of each branch that it was made of, what was left out of it",
    check: check::<LayoutRecord>,
    written_by: "the scheduler that holds the tenant's lock; it is the commit of a new layout",
    guarded_by: "the ticket of `/locks/tenant/<tenant>`",
    deleted_by: NEVER,
    seed: "003: zuul/layout/<tenant>; its layout-data is in it",
};
pub const LAYOUTS: ZnodeSpec = folder("/layout", "003: zuul/layout");
pub const TRIGGER_LOCK: ZnodeSpec =
    lock("/locks/events/trigger/<tenant>", "schedulers", "003: zuul/locks/events/trigger/<tenant>");
pub const PIPELINE_LOCK_DIR: ZnodeSpec =
    lock("/locks/pipeline/<tenant>/<pipeline>", "schedulers", "003: zuul/locks/pipeline/<tenant>/<pipeline>");
pub const TENANT_LOCK: ZnodeSpec =
    lock("/locks/tenant/<tenant>", "schedulers", "003: zuul/locks/tenant/<tenant>");
pub const MANAGEMENT_RESULTS: ZnodeSpec = folder("/results/management", "003: zuul/results/management");
pub const MANAGEMENT_RESULT: ZnodeSpec = ZnodeSpec {
    pattern: "/results/management/<request>",
    kind: Kind::Ephemeral,
    payload: "JSON: empty until it is answered; then done, or why not",
    check: check::<ManagementAnswer>,
    written_by: "the command creates it before its event; the scheduler answers in it",
    guarded_by: "its name, which is never used again",
    deleted_by: "the command, or the end of its session",
    seed: "003: zuul/results/management",
};
pub const SYSTEM_CONF: ZnodeSpec = ZnodeSpec {
    pattern: "/system/conf",
    kind: Kind::Persistent,
    payload: "JSON: the tenant file, and the connections with their host names",
    check: check::<SystemConf>,
    written_by: "a scheduler whose files differ, when it starts",
    guarded_by: "`/system/conf-lock`",
    deleted_by: NEVER,
    seed: "003: zuul/system/conf",
};
pub const SYSTEM_CONF_LOCK: ZnodeSpec = lock("/system/conf-lock", "schedulers", "003: zuul/system/conf-lock");
pub const TENANT_PIPELINES: ZnodeSpec =
    folder("/tenant/<tenant>/pipeline", "003: zuul/tenant/<tenant>/pipeline");
pub const PIPELINE: ZnodeSpec = ZnodeSpec {
    deleted_by: NEVER,
    ..state(
        "/tenant/<tenant>/pipeline/<pipeline>",
        "JSON: number of passes, queues in order, the layout, what was merged lately",
        check::<PipelineRecord>,
        "003: zuul/tenant/<tenant>/pipeline/<pipeline>",
    )
};
pub const DIRTY: ZnodeSpec = ZnodeSpec {
    written_by: "the scheduler that holds the pipeline's lock, before a pass that needs several transactions",
    deleted_by: "the scheduler that holds the pipeline's lock, with the last transaction of the pass",
    guarded_by: "nothing: only its existence matters",
    ..folder(
        "/tenant/<tenant>/pipeline/<pipeline>/dirty",
        "003: zuul/tenant/<tenant>/pipeline/<pipeline>/dirty",
    )
};
pub const QUEUES: ZnodeSpec = folder(
    "/tenant/<tenant>/pipeline/<pipeline>/queue",
    "003: zuul/tenant/<tenant>/pipeline/<pipeline>/queue",
);
pub const QUEUE: ZnodeSpec = state(
    "/tenant/<tenant>/pipeline/<pipeline>/queue/<queue>",
    "JSON: its name, its items in order, its window",
    check::<QueueRecord>,
    "003: zuul/tenant/<tenant>/pipeline/<pipeline>/queue",
);
pub const ITEMS: ZnodeSpec =
    folder("/tenant/<tenant>/pipeline/<pipeline>/item", "003: zuul/tenant/<tenant>/pipeline/<pipeline>/item");
pub const ITEM: ZnodeSpec = state(
    "/tenant/<tenant>/pipeline/<pipeline>/item/<item>",
    "JSON: the change or ref, the item ahead, why it is failing, its buildset, whether it is being pushed",
    check::<ItemRecord>,
    "003: zuul/tenant/<tenant>/pipeline/<pipeline>/item/<item uuid>",
);
pub const BUILDSETS: ZnodeSpec = ZnodeSpec {
    deleted_by: WITH_ITEM,
    ..folder("/tenant/<tenant>/pipeline/<pipeline>/item/<item>/buildset", "003: item/<item uuid>/buildset")
};
pub const BUILDSET: ZnodeSpec = state(
    "/tenant/<tenant>/pipeline/<pipeline>/item/<item>/buildset/<buildset>",
    "JSON: how far its merge and its jobs are",
    check::<BuildsetRecord>,
    "003: item/<item uuid>/buildset/<buildset uuid>",
);
pub const REPO_STATE: ZnodeSpec = state(
    "/tenant/<tenant>/pipeline/<pipeline>/item/<item>/buildset/<buildset>/repo_state",
    "JSON: for each project and branch its base and the changes merged onto it",
    check::<RepoState>,
    "003: buildset/<buildset uuid>/repo_state",
);
pub const JOBS: ZnodeSpec = ZnodeSpec {
    deleted_by: WITH_ITEM,
    ..folder(
        "/tenant/<tenant>/pipeline/<pipeline>/item/<item>/buildset/<buildset>/job",
        "003: buildset/<buildset uuid>/job",
    )
};
pub const JOB: ZnodeSpec = state(
    "/tenant/<tenant>/pipeline/<pipeline>/item/<item>/buildset/<buildset>/job/<job>",
    "JSON: the frozen job",
    check::<JobRecord>,
    "003: buildset/<buildset uuid>/job/<job name>",
);
pub const BUILDS: ZnodeSpec = ZnodeSpec {
    deleted_by: WITH_ITEM,
    ..folder(
        "/tenant/<tenant>/pipeline/<pipeline>/item/<item>/buildset/<buildset>/job/<job>/build",
        "003: job/<job name>/build",
    )
};
pub const BUILD: ZnodeSpec = state(
    "/tenant/<tenant>/pipeline/<pipeline>/item/<item>/buildset/<buildset>/job/<job>/build/<build>",
    "JSON: attempt, result, times, executor",
    check::<BuildRecord>,
    "003: job/<job name>/build/<build uuid>; its parameters are with its request only",
);
pub const REPORTS: ZnodeSpec = folder(
    "/tenant/<tenant>/pipeline/<pipeline>/report",
    "none: what is to be told outside of ZooKeeper is written down before",
);
pub const REPORT: ZnodeSpec = ZnodeSpec {
    deleted_by: "the scheduler that holds the pipeline's lock, once notes and history have it",
    ..state(
        "/tenant/<tenant>/pipeline/<pipeline>/report/<report>",
        "JSON: the notes and the history entry that are still to be written",
        check::<ReportRecord>,
        "none",
    )
};

const FOLDERS: &[ZnodeSpec] = &[
    folder("/cache", "003: zuul/cache"),
    folder("/cache/connection", "003: zuul/cache/connection"),
    folder("/cache/connection/<connection>", "003: zuul/cache/connection/<connection>"),
    folder("/cache/connection/<connection>/branches", "003: zuul/cache/connection/<connection>/branches"),
    folder("/config", "003: zuul/config"),
    folder("/config/cache", "003: zuul/config/cache"),
    folder("/config/cache/<project>", "003: zuul/config/cache, by repository"),
    folder("/config/lock", "003: zuul/config/lock"),
    folder("/events", "003: zuul/events"),
    folder("/events/connection", "003: zuul/events/connection"),
    folder("/events/connection/<connection>", "003: zuul/events/connection/<connection>"),
    folder("/events/tenant", "003: zuul/events/tenant"),
    folder("/events/tenant/<tenant>", "003: zuul/events/tenant/<tenant>"),
    folder("/events/tenant/<tenant>/pipelines", "003: zuul/events/tenant/<tenant>/pipelines"),
    folder("/executor", "003: zuul/executor"),
    folder("/executor/unzoned", "003: zuul/executor/unzoned"),
    folder("/merger", "003: zuul/merger"),
    folder("/locks", "003: zuul/locks"),
    folder("/locks/events", "003: zuul/locks/events"),
    folder("/locks/events/trigger", "003: zuul/locks/events/trigger"),
    folder("/locks/pipeline", "003: zuul/locks/pipeline"),
    folder("/locks/pipeline/<tenant>", "003: zuul/locks/pipeline/<tenant>"),
    folder("/locks/tenant", "003: zuul/locks/tenant"),
    folder("/results", "003: zuul/results"),
    folder("/system", "003: zuul/system"),
    folder("/tenant", "003: zuul/tenant"),
    folder("/tenant/<tenant>", "003: zuul/tenant/<tenant>"),
    TENANT_PIPELINES,
];

const OURS: &[ZnodeSpec] = &[
    BRANCHES,
    CONFIG_BRANCH,
    CONFIG_FILES,
    CONFIG_FILE,
    CONFIG_LOCK,
    CONNECTION_EVENTS,
    FORWARDER,
    WATCHER,
    POKES,
    POKE,
    TENANT_TRIGGERS,
    PIPELINE_EVENTS,
    PIPELINE_TRIGGERS,
    PIPELINE_MANAGEMENT,
    PIPELINE_RESULTS,
    LAYOUTS,
    LAYOUT,
    TRIGGER_LOCK,
    PIPELINE_LOCK_DIR,
    TENANT_LOCK,
    MANAGEMENT_RESULTS,
    MANAGEMENT_RESULT,
    SYSTEM_CONF,
    SYSTEM_CONF_LOCK,
    PIPELINE,
    DIRTY,
    QUEUES,
    QUEUE,
    ITEMS,
    ITEM,
    BUILDSETS,
    BUILDSET,
    REPO_STATE,
    JOBS,
    JOB,
    BUILDS,
    BUILD,
    REPORTS,
    REPORT,
];

const COUNT: usize = FOLDERS.len() + OURS.len() + executor::ALL.len() + merger::ALL.len();

const fn all() -> [ZnodeSpec; COUNT] {
    let parts = [FOLDERS, OURS, executor::ALL, merger::ALL];
    let mut specs = [FOLDERS[0]; COUNT];
    let (mut part, mut next) = (0, 0);
    while part < parts.len() {
        let mut at = 0;
        while at < parts[part].len() {
            specs[next] = parts[part][at];
            at += 1;
            next += 1;
        }
        part += 1;
    }
    specs
}

/// The specs of all znodes of pipelines.
pub const SPECS: &[ZnodeSpec] = &all();
