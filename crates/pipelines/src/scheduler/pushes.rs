//! Merges: what was tested is pushed. The item says that it is being pushed before it is; whoever finds that looks first what
//! became of it.

use std::time::Duration;

use menagerie_kernel::Session;
use menagerie_kernel::recipes::grant::Grant;
use menagerie_znodes::pipelines::{Change, Id, Sha};
use tracing::{info, warn};

use super::watcher::poke_watcher;
use crate::PipelineError;
use crate::core::{Input, PushResult};
use crate::git::{Caches, GitError, Merge, Push};
use crate::settings::Connection;

/// Attempts, if the repository is away; the pauses between them grow up to a minute in all. Then whoever stands by may try: only
/// the repository's own answer ends a push, because it may have happened although nobody could tell us.
const ATTEMPTS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(500);

/// A merge to be pushed.
#[derive(Debug, Clone)]
pub struct MergePush {
    /// The buildset whose commit it is.
    pub buildset: Id,
    /// Name of the connection.
    pub connection_name: String,
    /// The connection.
    pub connection: Connection,
    /// The change.
    pub change: Change,
    /// Its patchset.
    pub patchset: Sha,
    /// What it was merged into.
    pub parent: Sha,
    /// What was tested.
    pub commit: Sha,
}

/// Pushes, and says how it ended.
pub async fn push(
    session: Session,
    caches: Caches,
    grant: Grant,
    merge: MergePush,
) -> Result<Input, PipelineError> {
    let mut pause = PAUSE;
    let mut attempt = 1;
    let result = loop {
        match try_push(&caches, &grant, &merge).await {
            Ok(result) => break result,
            Err(error) if attempt < ATTEMPTS => {
                warn!(change = %merge.change, %error, attempt, ?pause, "cannot push a merge; trying again");
                tokio::time::sleep(pause).await;
                pause *= 2;
                attempt += 1;
            }
            Err(error) => return Err(error.into()),
        }
    };
    info!(change = %merge.change, commit = %merge.commit, ?result, "push");
    if result == PushResult::Merged {
        poke_watcher(&session, &merge.connection_name, &merge.change.project).await;
    }
    Ok(Input::Pushed { buildset: merge.buildset, result })
}

async fn try_push(caches: &Caches, grant: &Grant, merge: &MergePush) -> Result<PushResult, GitError> {
    let MergePush { connection_name, connection, change, patchset, parent, commit, .. } = merge;
    let url = connection.url(&change.project);
    let repository = caches.repository(connection_name, &change.project, &url).await?;
    // Somebody may have pushed it before us.
    let found = repository.look_up_merge(change, patchset, parent, commit).await?;
    if found != Push::NotYet {
        return Ok(told(found));
    }
    repository.require(&[parent, patchset]).await?;
    match repository.merge(parent, change, patchset).await? {
        Merge::Commit(ours) if ours == *commit => {}
        Merge::Commit(ours) => {
            let why =
                format!("this machine makes {ours} of what was tested as {commit}: are all of one version?");
            return Ok(PushResult::Refused(why));
        }
        Merge::Conflict { message } => return Ok(PushResult::Refused(message)),
    }
    if !grant.is_valid() {
        // Whoever holds the lock now goes on.
        return std::future::pending().await;
    }
    Ok(told(repository.push_merge(change, patchset, parent, commit).await?))
}

fn told(push: Push) -> PushResult {
    match push {
        Push::Merged => PushResult::Merged,
        Push::NotYet | Push::TargetMoved { .. } => PushResult::TargetMoved,
        Push::ProposalMoved { head: Some(_) } => {
            PushResult::Refused("a new patchset was proposed".to_owned())
        }
        Push::ProposalMoved { head: None } => PushResult::Refused("the proposal was deleted".to_owned()),
        Push::Refused { why } => PushResult::Refused(why),
    }
}
