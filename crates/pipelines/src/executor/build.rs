//! One build, from its request to its result.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::pin::pin;

use menagerie_kernel::recipes::grant::Grant;
use menagerie_znodes::pipelines::{BuildParams, Id, Outcome, Params};
use tokio::sync::watch;
use tracing::info;

use super::Executor;
use super::environment::Surroundings;
use super::process::Process;
use super::workspace::{Prepared, Workspace};
use crate::repositories::{Repositories, RepositoryError};
use crate::requests::{Answer, Claim, Handling, now_ms};

/// What all builds of an executor share.
pub(super) struct Builder<'a> {
    pub(super) executor: &'a Executor,
    pub(super) repositories: &'a Repositories,
    /// The executor stops, and waits no longer for builds.
    pub(super) aborting: watch::Receiver<bool>,
}

/// How a build ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// The program ended well.
    Success,
    /// It did not; in words, unless its exit code says it.
    Failure(Option<String>),
    /// It took too long.
    TimedOut(String),
    /// It could not be run, and would not be elsewhere.
    Error(String),
    /// The scheduler does not want it any more.
    Canceled,
    /// This executor could not do it, or stops; another one may.
    Aborted(String),
    /// Our right to run it is lost: there is nothing to report.
    Lost,
}

impl End {
    /// As it is reported; `None` if it is not.
    fn result(self) -> Option<(&'static str, Option<String>)> {
        Some(match self {
            Self::Success => ("SUCCESS", None),
            Self::Failure(detail) => ("FAILURE", detail),
            Self::TimedOut(detail) => ("TIMED_OUT", Some(detail)),
            Self::Error(detail) => ("ERROR", Some(detail)),
            Self::Canceled => ("CANCELED", None),
            Self::Aborted(detail) => ("ABORTED", Some(detail)),
            Self::Lost => return None,
        })
    }
}

impl From<RepositoryError> for End {
    fn from(error: RepositoryError) -> Self {
        match error.is_local() {
            true => Self::Aborted(error.message()),
            false => Self::Error(error.message()),
        }
    }
}

/// For `map_err` after a file operation of ours: another machine may have room and rights.
pub(super) fn aborted(doing: impl Into<String>) -> impl FnOnce(io::Error) -> End {
    let doing = doing.into();
    move |error| End::Aborted(format!("the executor cannot {doing}: {error}"))
}

impl Builder<'_> {
    /// Runs a build and reports its result.
    pub(super) async fn build(&self, claim: Claim, params: Params) -> Handling {
        let build = claim.id().clone();
        let Params::Build(params) = params else {
            return Handling::GivenBack { why: "it is no build".to_owned() };
        };
        let (buildset, executor) = (params.buildset.clone(), self.executor.name.clone());
        info!(%build, job = params.job.name, pipeline = %params.pipeline, "build begun");
        let start_ms = now_ms();
        let mut workspace = None;
        let end = match self.run(&claim, &params, &mut workspace).await {
            Ok(end) | Err(end) => end,
        };
        match end.result() {
            Some((result, detail)) => {
                info!(%build, result, detail, "build ended");
                let (result, end_ms) = (result.to_owned(), now_ms());
                let outcome = Outcome::Build { build, buildset, result, start_ms, end_ms, executor, detail };
                claim.finish(Answer::Outcome(outcome)).await;
            }
            None => info!(%build, "build stopped: its lock is lost"),
        }
        if let Some(workspace) = workspace {
            workspace.remove().await;
        }
        Handling::Done
    }

    async fn run(
        &self,
        claim: &Claim,
        params: &BuildParams,
        workspace: &mut Option<Workspace>,
    ) -> Result<End, End> {
        let build = claim.id();
        let grant = &claim.grant();
        let mut interrupted = pin!(self.interrupted(claim, grant));
        let workspace = workspace
            .insert(Workspace::create(&self.executor.folder, build).map_err(aborted("make a folder"))?);
        let log = open_log(&self.executor.folder.log(build.as_str())).map_err(aborted("open the log"))?;
        let prepared = tokio::select! {
            biased;
            end = &mut interrupted => return Err(end),
            prepared = workspace.prepare(self.repositories, params, &self.executor.name) => prepared,
        };
        let started = match prepared {
            Ok(prepared) => self.start(build, params, grant, workspace, &prepared, &log).await,
            Err(end) => Err(end),
        };
        match started {
            Ok(process) => Ok(process.run(grant, interrupted).await),
            Err(end) => {
                explain(log, &end);
                Err(end)
            }
        }
    }

    async fn start(
        &self,
        build: &Id,
        params: &BuildParams,
        grant: &Grant,
        workspace: &Workspace,
        prepared: &Prepared,
        log: &File,
    ) -> Result<Process, End> {
        let (work, vars_file, fence) = (&workspace.work(), &workspace.vars_file(), grant.fence());
        let surroundings = Surroundings { build, params, work, vars_file, fence };
        let vars = surroundings.vars(&host_name());
        workspace.write_vars(&vars.to_string()).map_err(aborted("write the job's variables"))?;
        let log = log.try_clone().map_err(aborted("write the log"))?;
        let environment = surroundings.environment();
        Process::start(prepared, environment, log, grant, &params.job, &self.executor.guard).await
    }

    /// Waits until the build must stop, whatever it has come to.
    async fn interrupted(&self, claim: &Claim, grant: &Grant) -> End {
        let mut aborting = self.aborting.clone();
        tokio::select! {
            biased;
            _ = grant.lost() => End::Lost,
            () = claim.withdrawn() => End::Canceled,
            // Its sender lives as long as the executor runs.
            _ = aborting.wait_for(|aborting| *aborting) => End::Aborted("the executor was stopped".to_owned()),
        }
    }
}

/// Opens the log of a build, for its owner only: whoever may read logs asks the executor.
fn open_log(path: &std::path::Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// Writes into the log why no program ran.
fn explain(mut log: File, end: &End) {
    let (End::Error(why) | End::Aborted(why)) = end else { return };
    // The result says it, too.
    let _ = writeln!(log, "{why}");
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
