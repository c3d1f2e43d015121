//! Pipelines: connections, tenants, their pipelines, and the requests to mergers and executors (seed 003).

mod names;
mod payloads;
mod specs;

use crate::Name;
use crate::payload::Raw;
use crate::quote::Quoted;
use crate::spec::ZnodeSpec;
use crate::znode::{Dir, Znode};

pub use names::{Change, ChangeError, Sha, ShaError, is_ref_name};
pub use payloads::*;
pub use specs::SPECS;

/// An id that we draw: 32 hexadecimal digits.
pub type Id = Name;

/// The refs of a connection's repositories as they were seen last, and its open changes: [`ConnectionRefs`] as a blob.
pub fn branches(connection: &str) -> Znode<Raw> {
    specs::BRANCHES.at(&[&Quoted(connection)])
}

/// The cached configuration files of a branch; `project` is its canonical name.
pub fn config_branch(project: &str, branch: &str) -> Znode<BranchFiles> {
    specs::CONFIG_BRANCH.at(&[&Quoted(project), &Quoted(branch)])
}

/// The directory of these files.
pub fn config_files(project: &str, branch: &str) -> Znode<()> {
    specs::CONFIG_FILES.at(&[&Quoted(project), &Quoted(branch)])
}

/// A configuration file, a blob.
pub fn config_file(project: &str, branch: &str, file: &str) -> Znode<Raw> {
    specs::CONFIG_FILE.at(&[&Quoted(project), &Quoted(branch), &Quoted(file)])
}

/// The lock of a project's cached configuration.
pub fn config_lock(project: &str) -> Znode<Dir> {
    specs::CONFIG_LOCK.at(&[&Quoted(project)])
}

/// The event queue of a connection.
pub fn connection_events(connection: &str) -> Znode<Dir> {
    specs::CONNECTION_EVENTS.at(&[&Quoted(connection)])
}

/// Who forwards a connection's events.
pub fn forwarder_election(connection: &str) -> Znode<Dir> {
    specs::FORWARDER.at(&[&Quoted(connection)])
}

/// Who watches a connection's repositories.
pub fn watcher_election(connection: &str) -> Znode<Dir> {
    specs::WATCHER.at(&[&Quoted(connection)])
}

/// All pokes of a connection.
pub fn pokes(connection: &str) -> Znode<()> {
    specs::POKES.at(&[&Quoted(connection)])
}

/// Its change makes the watcher look at a repository.
pub fn poke(connection: &str, project: &str) -> Znode<()> {
    specs::POKE.at(&[&Quoted(connection), &Quoted(project)])
}

/// All layouts.
pub fn layouts() -> Znode<()> {
    specs::LAYOUTS.at(&[])
}

/// The current layout of a tenant.
pub fn layout(tenant: &Name) -> Znode<LayoutRecord> {
    specs::LAYOUT.at(&[tenant])
}

/// The trigger events of a tenant.
pub fn tenant_triggers(tenant: &Name) -> Znode<Dir> {
    specs::TENANT_TRIGGERS.at(&[tenant])
}

/// Whoever holds it handles the trigger events of the tenant.
pub fn trigger_lock(tenant: &Name) -> Znode<Dir> {
    specs::TRIGGER_LOCK.at(&[tenant])
}

/// Whoever changes the tenant's layout holds it.
pub fn tenant_lock(tenant: &Name) -> Znode<Dir> {
    specs::TENANT_LOCK.at(&[tenant])
}

/// All pipelines that a tenant has, or had.
pub fn tenant_pipelines(tenant: &Name) -> Znode<()> {
    specs::TENANT_PIPELINES.at(&[tenant])
}

/// The answer to a management event.
pub fn management_result(request: &Id) -> Znode<ManagementAnswer> {
    specs::MANAGEMENT_RESULT.at(&[request])
}

/// All such answers.
pub fn management_results() -> Znode<()> {
    specs::MANAGEMENT_RESULTS.at(&[])
}

/// What all schedulers must agree on.
pub fn system_conf() -> Znode<SystemConf> {
    specs::SYSTEM_CONF.at(&[])
}

/// Held while [`system_conf`] is changed.
pub fn system_conf_lock() -> Znode<Dir> {
    specs::SYSTEM_CONF_LOCK.at(&[])
}

macro_rules! znodes {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) -> $holds:ty = $spec:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(&self $(, $argument: $type)*) -> Znode<$holds> {
            specs::$spec.at(&[&self.tenant, &self.pipeline $(, $argument)*])
        }
    )*};
}

/// The znodes of one pipeline of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PipelineZnodes {
    /// The tenant.
    pub tenant: Name,
    /// The pipeline.
    pub pipeline: Name,
}

impl PipelineZnodes {
    znodes! {
        /// Whoever holds it makes the passes.
        lock() -> Dir = PIPELINE_LOCK_DIR;
        /// All event queues of the pipeline.
        events() -> () = PIPELINE_EVENTS;
        /// Its trigger events.
        triggers() -> Dir = PIPELINE_TRIGGERS;
        /// Its management events.
        management() -> Dir = PIPELINE_MANAGEMENT;
        /// Its result events.
        results() -> Dir = PIPELINE_RESULTS;
        /// The pipeline itself.
        root() -> PipelineRecord = PIPELINE;
        /// A pass is due or was interrupted.
        dirty() -> () = DIRTY;
        /// All queues.
        queues() -> () = QUEUES;
        /// A queue.
        queue(queue: &Id) -> QueueRecord = QUEUE;
        /// All items.
        items() -> () = ITEMS;
        /// An item.
        item(item: &Id) -> ItemRecord = ITEM;
        /// The buildsets of an item: one.
        buildsets(item: &Id) -> () = BUILDSETS;
        /// A buildset.
        buildset(item: &Id, buildset: &Id) -> BuildsetRecord = BUILDSET;
        /// The state of all repositories that a buildset sees.
        repo_state(item: &Id, buildset: &Id) -> RepoState = REPO_STATE;
        /// All jobs of a buildset.
        jobs(item: &Id, buildset: &Id) -> () = JOBS;
        /// All reports that are still to be made.
        reports() -> () = REPORTS;
        /// A report that is still to be made.
        report(report: &Id) -> ReportRecord = REPORT;
    }

    /// A job of a buildset.
    pub fn job(&self, item: &Id, buildset: &Id, job: &str) -> Znode<JobRecord> {
        specs::JOB.at(&[&self.tenant, &self.pipeline, item, buildset, &Quoted(job)])
    }

    /// All builds of a job.
    pub fn builds(&self, item: &Id, buildset: &Id, job: &str) -> Znode<()> {
        specs::BUILDS.at(&[&self.tenant, &self.pipeline, item, buildset, &Quoted(job)])
    }

    /// A build of a job.
    pub fn build(&self, item: &Id, buildset: &Id, job: &str, build: &Id) -> Znode<BuildRecord> {
        specs::BUILD.at(&[&self.tenant, &self.pipeline, item, buildset, &Quoted(job), build])
    }
}

/// A job request queue of the seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobQueue {
    /// Builds.
    Executor,
    /// Merges, and files to read.
    Merger,
}

impl JobQueue {
    fn pick(self, executor: ZnodeSpec, merger: ZnodeSpec) -> ZnodeSpec {
        match self {
            Self::Executor => executor,
            Self::Merger => merger,
        }
    }

    /// All requests.
    pub fn requests(self) -> Znode<()> {
        self.pick(specs::executor::REQUESTS, specs::merger::REQUESTS).at(&[])
    }

    /// A request.
    pub fn request(self, request: &Id) -> Znode<Request> {
        self.pick(specs::executor::REQUEST, specs::merger::REQUEST).at(&[request])
    }

    /// Tells whoever works on the request to stop.
    pub fn cancel(self, request: &Id) -> Znode<()> {
        self.pick(specs::executor::CANCEL, specs::merger::CANCEL).at(&[request])
    }

    /// The locks of all requests.
    pub fn locks(self) -> Znode<()> {
        self.pick(specs::executor::LOCKS, specs::merger::LOCKS).at(&[])
    }

    /// Whoever holds it works on the request.
    pub fn lock(self, request: &Id) -> Znode<Dir> {
        self.pick(specs::executor::LOCK, specs::merger::LOCK).at(&[request])
    }

    /// The parameters of all requests.
    pub fn params(self) -> Znode<()> {
        self.pick(specs::executor::PARAMS, specs::merger::PARAMS).at(&[])
    }

    /// The parameters of a request.
    pub fn param(self, request: &Id) -> Znode<Params> {
        self.pick(specs::executor::PARAM, specs::merger::PARAM).at(&[request])
    }

    /// The result of a request whose submitter waits for it: a blob.
    pub fn result_data(self, request: &Id) -> Znode<Raw> {
        self.pick(specs::executor::RESULT_DATA, specs::merger::RESULT_DATA).at(&[request])
    }

    /// The result is there.
    pub fn result(self, request: &Id) -> Znode<()> {
        self.pick(specs::executor::RESULT, specs::merger::RESULT).at(&[request])
    }

    /// Somebody waits for the result.
    pub fn waiter(self, request: &Id) -> Znode<()> {
        self.pick(specs::executor::WAITER, specs::merger::WAITER).at(&[request])
    }

    /// All its directories.
    pub fn directories(self) -> Vec<Znode<()>> {
        use specs::{executor, merger};
        [
            self.pick(executor::REQUESTS, merger::REQUESTS),
            self.pick(executor::LOCKS, merger::LOCKS),
            self.pick(executor::PARAMS, merger::PARAMS),
            self.pick(executor::RESULTS_DATA_DIR, merger::RESULTS_DATA_DIR),
            self.pick(executor::RESULTS_DIR, merger::RESULTS_DIR),
            self.pick(executor::WAITERS_DIR, merger::WAITERS_DIR),
        ]
        .map(|spec| spec.at(&[]))
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_seed() {
        let name = |text: &str| Name::new(text).unwrap();
        let gate = PipelineZnodes { tenant: name("main"), pipeline: name("gate") };
        assert_eq!(gate.lock().path(), "/locks/pipeline/main/gate");
        assert_eq!(gate.results().path(), "/events/tenant/main/pipelines/gate/result");
        assert_eq!(
            gate.build(&name("i"), &name("s"), "unit/tests", &name("b")).path(),
            "/tenant/main/pipeline/gate/item/i/buildset/s/job/unit%2Ftests/build/b"
        );
        assert_eq!(JobQueue::Executor.lock(&name("r")).path(), "/executor/unzoned/locks/r");
        assert_eq!(JobQueue::Merger.waiter(&name("r")).path(), "/merger/waiters/r");
        assert_eq!(
            config_branch("localhost/org/app", "main").path(),
            "/config/cache/localhost%2Forg%2Fapp/main"
        );
    }

    #[test]
    fn the_most_specific_spec_is_found() {
        let found = crate::lookup::find("/events/connection/local/events/election").unwrap().1;
        assert_eq!(found.pattern, "/events/connection/<connection>/events/election");
    }
}
