//! Slots: pools, and what happened in them.

use std::sync::Arc;

use menagerie_slots::SlotsError;
use menagerie_slots::view::{self, EventView, PoolView};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Listing, now_ms};
use crate::params::Params;
use crate::problem::Problem;
use crate::sources::Sources;

/// A pool in the list of all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PoolRow {
    /// Its name.
    pub pool: String,
    /// Its state; `null` if it is damaged.
    pub view: Option<PoolView>,
    /// Why it cannot be shown.
    pub error: Option<String>,
}

/// All pools, by name.
pub async fn pools(sources: Arc<Sources>, params: Params) -> Result<Listing<PoolRow>, Problem> {
    let mut rows = Vec::new();
    for (pool, view) in view::all(&sources.session, now_ms()).await? {
        let pool = pool.to_string();
        rows.push(match view {
            Ok(view) => PoolRow { pool, view: Some(view), error: None },
            // It must not hide the others.
            Err(error @ (SlotsError::Damaged { .. } | SlotsError::Missing { .. })) => {
                PoolRow { pool, view: None, error: Some(error.to_string()) }
            }
            Err(error) => return Err(error.into()),
        });
    }
    rows.retain(|row| params.wants(&row.pool));
    rows.sort_by(|one, other| one.pool.cmp(&other.pool));
    Ok(Listing::page(rows, |row| row.pool.clone(), &params))
}

/// One pool.
pub async fn pool(sources: Arc<Sources>, params: Params) -> Result<PoolView, Problem> {
    Ok(view::show(&sources.session, &params.path("pool")?, now_ms()).await?)
}

/// What happened in a pool, newest first.
pub async fn history(sources: Arc<Sources>, params: Params) -> Result<Listing<EventView>, Problem> {
    let mut events = view::history(&sources.session, &params.path("pool")?).await?;
    events.reverse();
    let before = params.query::<i64>("cursor")?;
    events.retain(|event| before.is_none_or(|before| event.zxid < before));
    Ok(Listing::cut(events, |event| event.zxid.to_string(), &params))
}
