//! `menagerie flow submit FILE`

use std::path::PathBuf;

use clap::Args;
use menagerie_flows::client::new_id;
use menagerie_kernel::session::Rights::Owner;
use menagerie_znodes::Name;

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
            if !self.wait {
                return Ok(());
            }
            let goes_on = GoesOn(&id);
            let help =
                format!("`menagerie flow show {id}` shows its tasks; correct the cause, and submit it again");
            let ended = waiting::wait(jobs, &id, &job, &help).await;
            // It was not interrupted.
            std::mem::forget(goes_on);
            ended
        })
    }
}

/// Dropped when the wait is interrupted.
struct GoesOn<'a>(&'a Name);

impl Drop for GoesOn<'_> {
    fn drop(&mut self) {
        eprintln!("the job goes on; `menagerie flow kill {}` ends it", self.0);
    }
}
