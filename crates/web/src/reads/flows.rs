//! Flows: jobs and their tasks.

use std::sync::Arc;

use menagerie_flows::view::{JobRow, JobView};
use menagerie_types::Name;

use super::Listing;
use crate::params::Params;
use crate::problem::Problem;
use crate::sources::Sources;

/// All jobs, the newest first.
pub async fn jobs(sources: Arc<Sources>, params: Params) -> Result<Listing<JobRow>, Problem> {
    let mut jobs = sources.jobs().list().await?;
    let state = params.text("state");
    jobs.retain(|job| {
        (params.wants(&job.name) || params.wants(&job.id))
            && state.is_none_or(|state| job.state.as_str() == state)
    });
    // A cursor is the last job of the page before: those after it are older.
    let rest = match params.text("cursor") {
        Some(last) => match jobs.iter().position(|job| job.id == last) {
            Some(at) => jobs.split_off(at + 1),
            None => {
                return Err(Problem::bad(
                    format!("{last:?} is no cursor"),
                    "begin with the first page again",
                ));
            }
        },
        None => jobs,
    };
    Ok(Listing::cut(rest, |job| job.id.clone(), &params))
}

/// One job.
pub async fn job(sources: Arc<Sources>, params: Params) -> Result<JobView, Problem> {
    let (jobs, id) = (sources.jobs(), params.path::<Name>("job")?);
    let mut view = jobs.show(&id).await?;
    jobs.measure(&sources.journals, &id, &mut view).await?;
    Ok(view)
}
