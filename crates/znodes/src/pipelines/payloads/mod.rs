//! What the znodes of pipelines and the entries of their queues hold.
//!
//! - `configuration.rs`: configuration and repositories. `events.rs`: what happened. `state.rs`: a pipeline. `requests.rs`: work
//!   for mergers and executors. `reports.rs`: what is told when an item ends.

mod configuration;
mod events;
mod reports;
mod requests;
mod state;

pub use configuration::*;
pub use events::*;
pub use reports::*;
pub use requests::*;
pub use state::*;

use crate::payload::Json;

macro_rules! json {
    ($($type:ty: $what:literal),* $(,)?) => {$(
        impl Json for $type {
            const WHAT: &'static str = $what;
        }
    )*};
}

json!(
    BranchFiles: "the cached configuration of a branch",
    LayoutRecord: "a layout",
    ManagementAnswer: "the answer to a management event",
    SystemConf: "the system configuration",
    PipelineRecord: "a pipeline",
    QueueRecord: "a queue of a pipeline",
    ItemRecord: "an item of a pipeline",
    BuildsetRecord: "a buildset",
    RepoState: "the state of repositories",
    JobRecord: "a frozen job",
    BuildRecord: "a build",
    ReportRecord: "a report",
    Request: "a job request",
    Params: "the parameters of a job request",
    ConnectionRefs: "the refs of a connection",
    Events: "events of a connection",
    Triggers: "trigger events of a pipeline",
    Management: "a management event of a pipeline",
    Outcome: "a result event of a pipeline",
    FilesRead: "the files that a merger has read",
);
