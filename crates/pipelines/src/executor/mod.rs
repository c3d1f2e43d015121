//! The executor: runs the programs of jobs, each in work trees of its own.
//!
//! # Layout
//! - `build.rs`: one build, from its request to its result.
//! - `workspace.rs`: its folder, with the repositories and the program. `environment.rs`: what the program is told (pure).
//! - `process.rs`: the program under its guard.
//!
//! # Invariants
//! - Nothing of a build outlives the lock of its request: the guard ends it with the lease.
//! - A program inherits nothing by which git reaches remotes in the executor's name: neither `GIT_*` nor an ssh agent.
//! - A log holds what the program wrote and nothing of ours; only if no program ran it says why.

mod build;
mod environment;
mod process;
mod workspace;

use std::future::{Future, pending};
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use menagerie_kernel::Session;
use menagerie_znodes::pipelines::JobQueue;
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::info;

use self::build::Builder;
use crate::error::PipelineError;
use crate::repositories::Repositories;
use crate::requests::Consumer;
use crate::settings::{Folder, Settings};

/// Time that running builds have to end when the executor is told to stop; after it they are stopped, and run again
/// elsewhere.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(30);

/// An executor.
#[derive(Debug, Clone)]
pub struct Executor {
    /// Its connection to ZooKeeper.
    pub session: Session,
    /// The connections whose repositories it may read.
    pub settings: Settings,
    /// Where it keeps caches, work trees and logs.
    pub folder: Folder,
    /// Its name under `/components`.
    pub name: String,
    /// Builds that it runs at a time.
    pub jobs: usize,
    /// The guard's executable: [`this_program`](menagerie_kernel::guard::this_program), as a rule.
    pub guard: PathBuf,
}

impl Executor {
    /// Runs builds until `stop`; those in flight then have [`DRAIN_LIMIT`] to end. Calls `ready` when it has begun.
    ///
    /// # Errors
    /// If its folder cannot be used, the session is closed, or ZooKeeper refuses. An outage is no error: it waits.
    pub async fn run(
        &self,
        ready: impl AsyncFnOnce(),
        stop: impl Future<Output = ()>,
    ) -> Result<(), PipelineError> {
        let doing = format!("prepare the folder {}", self.folder.0.display());
        workspace::prepare_folder(&self.folder).await.map_err(PipelineError::io(doing))?;
        let mut stop = pin!(stop);
        let consumer = tokio::select! {
            consumer = Consumer::start(&self.session, JobQueue::Executor, &self.name) => consumer?,
            () = &mut stop => return Ok(()),
        };
        ready().await;
        let repositories = Repositories::new(&self.settings, &self.folder);
        let (is_stopping, mut stopping) = watch::channel(false);
        let (is_aborting, aborting) = watch::channel(false);
        let stop = async {
            stop.await;
            is_stopping.send_replace(true);
        };
        let abort_late = async {
            // Its sender lives as long as this function.
            let _ = stopping.wait_for(|stopping| *stopping).await;
            sleep(DRAIN_LIMIT).await;
            info!("builds have not ended in time; stopping them");
            is_aborting.send_replace(true);
            pending().await
        };
        let builder = &Builder { executor: self, repositories: &repositories, aborting };
        tokio::select! {
            ended = consumer.run(self.jobs, stop, async |claim, params| builder.build(claim, params).await) => ended,
            never = abort_late => never,
        }
    }
}
