//! Slots: freeze and thaw a pool, release a slot.

use std::sync::Arc;

use menagerie_slots::{SlotsError, admin, poll};
use menagerie_types::Name;
use menagerie_znodes::slots::Frozen;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Done, Nothing};
use crate::audit::Actor;
use crate::params::Params;
use crate::problem::Problem;
use crate::sources::Sources;

/// Whose slot to release.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// The holder, as the pool shows it.
    pub holder: String,
    /// Also if a command runs or ran under the slot. Only if you know that the command is gone.
    #[serde(default)]
    pub force: bool,
}

/// How to stop.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Freeze {
    /// Why, for those who wait.
    #[serde(default)]
    pub reason: Option<String>,
    /// Also send SIGTERM to the commands that run under the pool's slots.
    #[serde(default)]
    pub tell: bool,
}

/// Emergency stop: admits nobody from now on.
pub async fn freeze(
    sources: Arc<Sources>,
    actor: Actor,
    params: Params,
    body: Freeze,
) -> Result<Done, Problem> {
    let pool: Name = params.path("pool")?;
    let reason = body.reason.filter(|reason| !reason.is_empty());
    let frozen = Frozen { by: actor.by(), reason, tell: body.tell };
    admin::freeze(&sources.session, &pool, frozen).await?;
    Ok(Done::new(format!("pool {pool} is frozen: nobody is admitted")))
}

/// Ends the emergency stop.
pub async fn thaw(sources: Arc<Sources>, actor: Actor, params: Params, _: Nothing) -> Result<Done, Problem> {
    let pool: Name = params.path("pool")?;
    admin::thaw(&sources.session, &pool, &actor.by()).await?;
    Ok(Done::new(format!("pool {pool} is open again")))
}

/// Releases a slot.
pub async fn release(
    sources: Arc<Sources>,
    actor: Actor,
    params: Params,
    body: Release,
) -> Result<Done, Problem> {
    let (pool, session): (Name, _) = (params.path("pool")?, &sources.session);
    let Release { holder, force } = body;
    if force {
        let slot = admin::force_release(session, &pool, &holder, &actor.by()).await?;
        return Ok(Done::new(format!("slot {slot} of pool {pool} is free")));
    }
    match poll::release(session, &pool, &holder, None).await? {
        true => Ok(Done::new(format!("the slot of {holder} in pool {pool} is free"))),
        false => Err(SlotsError::NotHeld { pool: pool.to_string(), holder }.into()),
    }
}
