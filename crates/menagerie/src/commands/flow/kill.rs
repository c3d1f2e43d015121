//! `menagerie flow kill JOB`

use clap::Args;
use menagerie_kernel::session::Rights::Owner;
use menagerie_znodes::Name;

use super::{DeploymentArg, with_jobs};
use crate::client::ClientArgs;
use crate::exit::{CliError, cannot};

/// End a job: its peers turn to other jobs, and its links are deleted.
///
/// What it has written stays hidden in its output folder, unless `flow submit --wait` waits for it and removes it.
#[derive(Debug, Args)]
pub struct Kill {
    /// Id of the job, as `flow submit` printed it.
    job: Name,
    #[command(flatten)]
    deployment: DeploymentArg,
}

impl Kill {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        with_jobs(client, Owner, &self.deployment, async |jobs| {
            jobs.kill(&self.job).await.map_err(cannot(format!("kill job {}", self.job)))
        })
    }
}
