//! The audit trail.

use std::sync::Arc;

use super::Listing;
use crate::audit::{self, EntryView};
use crate::params::Params;
use crate::problem::Problem;
use crate::sources::Sources;

/// Changes over the web interface, the newest first.
pub async fn trail(sources: Arc<Sources>, params: Params) -> Result<Listing<EntryView>, Problem> {
    let before = params.query::<u32>("cursor")?;
    let entries = audit::list(&sources.session, before, params.limit() + 1).await?;
    Ok(Listing::cut(entries, |entry| entry.number.to_string(), &params))
}
