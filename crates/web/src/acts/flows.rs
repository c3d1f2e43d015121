//! Flows: kill a job.

use std::sync::Arc;

use menagerie_types::Name;

use super::{Done, Nothing};
use crate::audit::Actor;
use crate::params::Params;
use crate::problem::Problem;
use crate::sources::Sources;

/// Asks for the end of a job; the coordinator ends it.
pub async fn kill(sources: Arc<Sources>, _: Actor, params: Params, _: Nothing) -> Result<Done, Problem> {
    let job: Name = params.path("job")?;
    sources.jobs().kill(&job).await?;
    Ok(Done::new(format!("job {job} is being ended")))
}
