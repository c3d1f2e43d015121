//! `menagerie flow submit FILE`

use std::path::PathBuf;

use clap::Args;
use menagerie_flows::client::new_id;
use menagerie_kernel::session::Rights::Owner;

use super::{DeploymentArg, job_file, waiting, with_jobs};
use crate::client::ClientArgs;
use crate::exit::CliError;
use crate::output::write;

/// Submit a job to the coordinator, and print its id.
#[derive(Debug, Args)]
pub struct Submit {
    /// Job, TOML or JSON. Relative paths in it begin at its folder.
    file: PathBuf,
    /// Wait until the job has ended: exit code 0 if it is complete, 1 if it failed, 2 if it was refused, 3 if it was killed.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    deployment: DeploymentArg,
}

impl Submit {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        let job = job_file::load(&self.file)?;
        with_jobs(client, Owner, &self.deployment, async |jobs| {
            let id = new_id();
            waiting::submit(jobs, &id, &job).await?;
            write(&format!("{id}\n"))?;
            if self.wait { waiting::wait(jobs, &id, &job).await } else { Ok(()) }
        })
    }
}
