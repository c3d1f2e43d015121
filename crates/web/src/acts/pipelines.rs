//! Pipelines: enqueue and dequeue a change, vote on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use menagerie_pipelines::client::{self, Approval, ChangeName};
use menagerie_types::Name;
use menagerie_znodes::pipelines::{Action, Sha};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Done;
use crate::audit::Actor;
use crate::params::Params;
use crate::problem::Problem;
use crate::reads::pipelines::require_tenant;
use crate::sources::Sources;

/// A change.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WhichChange {
    /// `PROJECT:propose/TARGET/TOPIC`.
    pub change: String,
}

/// A vote on a change.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vote {
    /// `PROJECT:propose/TARGET/TOPIC`.
    pub change: String,
    /// Refused if the branch of the change is not at this commit.
    #[serde(default)]
    pub patchset: Option<Sha>,
    /// Votes by label; without them those that a merge takes.
    #[serde(default)]
    pub votes: BTreeMap<String, i64>,
    /// For people, and for pipelines that are triggered by comments.
    #[serde(default)]
    pub comment: Option<String>,
}

fn change_name(text: &str) -> Result<ChangeName, Problem> {
    text.parse().map_err(|why| Problem::bad(format!("change: {why}"), "write PROJECT:propose/TARGET/TOPIC"))
}

/// Puts a change into a pipeline.
pub async fn enqueue(
    sources: Arc<Sources>,
    _: Actor,
    params: Params,
    body: WhichChange,
) -> Result<Done, Problem> {
    manage(&sources, &params, Action::Enqueue, &body).await
}

/// Takes a change out of a pipeline.
pub async fn dequeue(
    sources: Arc<Sources>,
    _: Actor,
    params: Params,
    body: WhichChange,
) -> Result<Done, Problem> {
    manage(&sources, &params, Action::Dequeue, &body).await
}

async fn manage(
    sources: &Sources,
    params: &Params,
    action: Action,
    body: &WhichChange,
) -> Result<Done, Problem> {
    let (tenant, pipeline): (Name, Name) = (params.path("tenant")?, params.path("pipeline")?);
    let name = change_name(&body.change)?;
    // A tenant whose configuration was not read yet is waited for, so one that does not exist must not be.
    require_tenant(sources, &tenant).await?;
    let change = client::manage(&sources.session, &tenant, &pipeline, action, &name).await?;
    let done = match action {
        Action::Enqueue => "is queued in",
        Action::Dequeue => "is out of",
    };
    Ok(Done::new(format!("{change} {done} {pipeline}")))
}

/// Votes on a change.
pub async fn approve(sources: Arc<Sources>, actor: Actor, _: Params, body: Vote) -> Result<Done, Problem> {
    let Some(git) = &sources.git else {
        let what = "this web server does not know where repositories are";
        return Err(Problem::new(409, what, "start it with the configuration that has [pipelines]"));
    };
    let change = change_name(&body.change)?;
    let comment = body.comment.filter(|comment| !comment.is_empty());
    let by = actor.who.to_string();
    let approval = Approval { change, patchset: body.patchset, votes: body.votes, comment, by };
    let approved = client::approve(&sources.session, &git.connections, &git.caches, approval).await?;
    let votes: Vec<String> = approved.votes.iter().map(|(label, value)| format!("{label}={value}")).collect();
    let votes = if votes.is_empty() { "a comment".to_owned() } else { votes.join(" ") };
    Ok(Done::new(format!("{} at {}: {votes} by {}", approved.change, approved.patchset.short(), approved.by)))
}
