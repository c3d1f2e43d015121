//! Slots: freeze and thaw a pool, release a slot.

use std::sync::Arc;

use menagerie_slots::view::{self, HolderView};
use menagerie_slots::{SlotsError, admin, poll};
use menagerie_types::Name;
use menagerie_znodes::slots::Frozen;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Done, Nothing};
use crate::audit::Actor;
use crate::params::Params;
use crate::problem::Problem;
use crate::reads::now_ms;
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
    /// `since_ms` of the holder: refused if it has got another slot since.
    #[serde(default)]
    pub since_ms: Option<i64>,
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
    let Release { holder, force, since_ms } = body;
    if let Some(since_ms) = since_ms {
        let view = view::show(session, &pool, now_ms()).await?;
        let is_meant = |held: &HolderView| held.holder.holder == holder && held.since_ms == since_ms;
        if !view.holders.iter().any(is_meant) {
            let what =
                format!("{holder} has not held a slot of pool {pool} since then: it is another one, or none");
            return Err(Problem::new(409, what, "look at the pool again"));
        }
    }
    if force {
        let slot = admin::force_release(session, &pool, &holder, &actor.by()).await?;
        return Ok(Done::new(format!("slot {slot} of pool {pool} is free")));
    }
    match poll::release(session, &pool, &holder, None).await? {
        true => Ok(Done::new(format!("the slot of {holder} in pool {pool} is free"))),
        false => Err(SlotsError::NotHeld { pool: pool.to_string(), holder }.into()),
    }
}
