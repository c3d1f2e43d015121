//! Flows: submit and kill a job.

use std::sync::Arc;

use menagerie_flows::submission::{self, Submitted};
use menagerie_types::Name;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Done, Nothing};
use crate::audit::Actor;
use crate::params::Params;
use crate::problem::Problem;
use crate::sources::Sources;

/// A job to submit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewJob {
    /// The job, as `menagerie flow submit` takes it: `name`, `workflow` and `catalog`. Its paths are whole ones, from `/` on,
    /// and are those of the web server: of its machine, and with the rights of its user.
    pub job: Map<String, Value>,
    /// Its id: letters, digits, `-` and `_`, 64 at most. The same job sent twice under one id is one job. If it is left out,
    /// each request is a job of its own.
    #[serde(default)]
    pub id: Option<String>,
}

/// Submits a job: checks it, claims its output folders, and has the coordinator plan it. Input files and output folders are
/// those of the machine and of the user of the web server.
pub async fn submit(sources: Arc<Sources>, _: Actor, _: Params, body: NewJob) -> Result<Done, Problem> {
    let job = Value::Object(body.job);
    let (message, id) = match submission::submit_value(&sources.jobs(), body.id.as_deref(), &job).await? {
        Submitted::Now(id) => (format!("job {id} is submitted"), id),
        Submitted::Before(id) => (format!("job {id} was submitted before"), id),
    };
    Ok(Done { message, ids: vec![id.to_string()] })
}

/// Asks for the end of a job; the coordinator ends it.
pub async fn kill(sources: Arc<Sources>, _: Actor, params: Params, _: Nothing) -> Result<Done, Problem> {
    let job: Name = params.path("job")?;
    sources.jobs().kill(&job).await?;
    Ok(Done::new(format!("job {job} is being ended")))
}
