//! `menagerie flow list`

use std::time::Duration;

use clap::Args;
use menagerie_flows::view::JobRow;
use menagerie_kernel::session::Rights::Observer;

use super::{DeploymentArg, with_jobs};
use crate::client::ClientArgs;
use crate::exit::{CliError, cannot};
use crate::output::{OutputArgs, Row, Rows, escape_for_terminal};
use crate::{clock, durations};

/// List jobs, the newest first: how each of them stands, and how many of its tasks are complete.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    deployment: DeploymentArg,
    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        let Self { deployment, output } = self;
        with_jobs(client, Observer, &deployment, async |jobs| {
            output.print(async || Ok(Rows(jobs.list().await.map_err(cannot("list jobs"))?))).await
        })
    }
}

impl Row for JobRow {
    const HEADS: &[&str] = &["JOB", "NAME", "STATE", "TASKS", "AGE", "TOOK", "WHY"];
    const NONE: Option<&str> = Some("no jobs yet: `menagerie flow submit FILE` submits one");

    fn cells(&self) -> Vec<String> {
        vec![
            self.id.clone(),
            escape_for_terminal(Some(&self.name)),
            self.state.as_str().to_owned(),
            format!("{}/{}", self.complete, self.tasks),
            self.submitted_ms.map_or("-".to_owned(), |ms| durations::age(clock::since(ms as i64))),
            took(self),
            escape_for_terminal(self.why.as_deref()),
        ]
    }
}

/// From submission to the end.
pub fn took(job: &JobRow) -> String {
    match (job.submitted_ms, job.ended_ms) {
        (Some(submitted), Some(ended)) => {
            let took = Duration::from_millis(ended.saturating_sub(submitted));
            format!("{:.1}s", took.as_secs_f64())
        }
        _ => "-".to_owned(),
    }
}
