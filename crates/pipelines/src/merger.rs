//! The merger: merges changes speculatively, and reads configuration files.
//!
//! All it makes are commits in this machine's caches, the same ones that everybody else would make; so whatever a dead
//! merger has left is simply done again. An answer says something about the repository and never about this machine: if
//! the disk is full, git is missing or a connection is not configured here, the request goes back to the others.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::try_join_all;
use menagerie_kernel::Session;
use menagerie_znodes::pipelines::{
    BranchState, CatParams, FilesRead, Id, JobQueue, Link, MergeParams, MergeResult, Outcome, Params, Sha,
    Source, TipsParams,
};
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::debug;

use crate::config::is_config_path;
use crate::error::PipelineError;
use crate::git::{Merge, Repository};
use crate::repositories::{Repositories, RepositoryError, patiently};
use crate::requests::{Answer, Claim, Consumer, Handling};
use crate::settings::{Folder, Settings};

/// Requests that a merger works on at a time. Most of the time it waits for git processes and remotes.
const REQUESTS_MAX: usize = 4;
/// Time that requests in flight have to end when the merger stops; after it they are given back.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);
/// A result event and the znode of its buildset hold the lists below, and a znode holds 1 MB. Both are counted as the
/// JSON that is stored. A longer list of changed paths is left out, and then every job's file matchers match.
const PATHS_BYTES_MAX: usize = 200 << 10;
/// More configuration than this in one branch cannot be tried.
const CONFIG_BYTES_MAX: usize = 256 << 10;

/// A merger.
#[derive(Debug, Clone)]
pub struct Merger {
    /// Its connection to ZooKeeper.
    pub session: Session,
    /// The connections whose repositories it may read.
    pub settings: Settings,
    /// Where it caches them.
    pub folder: Folder,
    /// Its name under `/components`.
    pub name: String,
}

impl Merger {
    /// Works until `stop`, and then until what is in flight is done. Calls `ready` when it has begun.
    ///
    /// # Errors
    /// If the session is closed, or ZooKeeper refuses. An outage is no error: it waits.
    pub async fn run(
        &self,
        ready: impl AsyncFnOnce(),
        stop: impl Future<Output = ()>,
    ) -> Result<(), PipelineError> {
        let mut stop = pin!(stop);
        let consumer = tokio::select! {
            consumer = Consumer::start(&self.session, JobQueue::Merger, &self.name) => consumer?,
            () = &mut stop => return Ok(()),
        };
        ready().await;
        let repositories = Repositories::new(&self.settings, &self.folder);
        let (is_stopping, stopping) = watch::channel(false);
        let stop = async {
            stop.await;
            is_stopping.send_replace(true);
        };
        let work = async |claim, params| self.work(&repositories, claim, params, stopping.clone()).await;
        consumer.run(REQUESTS_MAX, stop, work).await
    }

    async fn work(
        &self,
        repositories: &Repositories,
        claim: Claim,
        params: Params,
        mut stopping: watch::Receiver<bool>,
    ) -> Handling {
        debug!(request = %claim.id(), "request begun");
        let desk = Desk { repositories, host: &self.name };
        let too_late = async {
            // Its sender lives as long as the consumer runs.
            let _ = stopping.wait_for(|stopping| *stopping).await;
            sleep(DRAIN_LIMIT).await;
        };
        let answer = tokio::select! {
            biased;
            answer = desk.answer(claim.id(), &params) => answer,
            () = claim.withdrawn() => {
                claim.give_back().await;
                return Handling::Done;
            }
            () = too_late => Err("the merger stops".to_owned()),
        };
        match answer {
            Ok(answer) => {
                claim.finish(answer).await;
                Handling::Done
            }
            Err(why) => {
                claim.give_back().await;
                Handling::GivenBack { why }
            }
        }
    }
}

/// What a merger needs to answer a request.
struct Desk<'a> {
    repositories: &'a Repositories,
    /// This merger's name, for messages.
    host: &'a str,
}

impl Desk<'_> {
    async fn open(&self, source: &Source) -> Result<Repository, RepositoryError> {
        self.repositories.open(source, self.host).await
    }

    /// The answer to a request; the error says why this machine cannot give one.
    async fn answer(&self, request: &Id, params: &Params) -> Result<Answer, String> {
        let request = request.clone();
        Ok(match params {
            Params::Merge(params) => {
                let merged = answerable(patiently(async || self.try_merge(params).await).await)?;
                let result = merged.unwrap_or_else(|message| MergeResult::Failed { message });
                Answer::Outcome(Outcome::Merge { request, buildset: params.buildset.clone(), result })
            }
            Params::Tips(params) => {
                let tips = answerable(self.tips(params).await)?;
                Answer::Outcome(Outcome::Tips { request, buildset: params.buildset.clone(), tips })
            }
            Params::Cat(params) => {
                Answer::Files(FilesRead { files: answerable(self.read_config(params).await)? })
            }
            Params::Build(_) => return Err("it is a build, which mergers do not run".to_owned()),
        })
    }

    async fn try_merge(&self, params: &MergeParams) -> Result<MergeResult, RepositoryError> {
        let MergeParams { source, change, patchset, onto, .. } = params;
        let repository = self.open(source).await?;
        let mut state = match onto {
            Some(state) => state.clone(),
            None => {
                let refs = repository.remote_refs().await?;
                let base = branch_tip(&refs, source, &change.target)?;
                BranchState { base, links: Vec::new() }
            }
        };
        repository.require(&[&state.base, patchset]).await?;
        let parent = repository.replay(&state.base, &state.links).await?;
        let commit = match repository.merge(&parent, change, patchset).await? {
            Merge::Commit(commit) => commit,
            Merge::Conflict { message } => return Ok(MergeResult::Conflict { message }),
        };
        let files = repository.changed_files(&parent, &commit).await?;
        let config = match files.iter().any(|file| is_config_path(file)) {
            true => Some(repository.files(&commit, is_config_path).await?),
            false => None,
        };
        if stored_bytes(&config) > CONFIG_BYTES_MAX {
            let limit_kb = CONFIG_BYTES_MAX >> 10;
            return Err(RepositoryError::Unfit {
                what: format!("the configuration files of {} exceed {limit_kb} KB together", source.project),
                help: "Shorten them, or move jobs to another project.",
            });
        }
        let files = (stored_bytes(&files) <= PATHS_BYTES_MAX).then_some(files);
        state.links.push(Link { change: change.clone(), patchset: patchset.clone(), commit });
        Ok(MergeResult::Merged { state, parent, files, config })
    }

    /// Where branches are now, in the order in which they were asked for.
    async fn tips(&self, params: &TipsParams) -> Result<Vec<(String, String, Sha)>, RepositoryError> {
        let mut sources: Vec<&Source> = params.wanted.iter().map(|(source, _)| source).collect();
        sources.sort_unstable();
        sources.dedup();
        let looks = sources.into_iter().map(|source| async move {
            let look = async || Ok(self.open(source).await?.remote_refs().await?);
            Ok::<_, RepositoryError>((source, patiently(look).await?))
        });
        let refs: BTreeMap<&Source, BTreeMap<String, Sha>> = try_join_all(looks).await?.into_iter().collect();
        let tip = |(source, branch): &(Source, String)| {
            let sha = branch_tip(&refs[source], source, branch)?;
            Ok((source.project.clone(), branch.clone(), sha))
        };
        params.wanted.iter().map(tip).collect()
    }

    async fn read_config(&self, params: &CatParams) -> Result<BTreeMap<String, String>, RepositoryError> {
        let read = async || {
            let repository = self.open(&params.source).await?;
            repository.require(&[&params.commit]).await?;
            Ok(repository.files(&params.commit, is_config_path).await?)
        };
        patiently(read).await
    }
}

/// What to answer: a result, or a failure that any merger would meet. The error is a fault of this machine.
fn answerable<T>(result: Result<T, RepositoryError>) -> Result<Result<T, String>, String> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error) if error.is_local() => Err(error.message()),
        Err(error) => Ok(Err(error.message())),
    }
}

/// The size of a value in a znode.
fn stored_bytes(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX, |json| json.len())
}

/// Where a branch is, among the refs of its remote.
fn branch_tip(refs: &BTreeMap<String, Sha>, source: &Source, branch: &str) -> Result<Sha, RepositoryError> {
    refs.get(&format!("refs/heads/{branch}")).cloned().ok_or_else(|| RepositoryError::Unfit {
        what: format!("{} has no branch {branch}", source.project),
        help: "Push the branch, or drop what needs it.",
    })
}
