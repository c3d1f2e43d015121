//! `menagerie flow check FILE`

use std::path::PathBuf;

use clap::Args;

use super::job_file;
use crate::exit::CliError;
use crate::output::{count, write};

/// Check a job file, its input files and its output folders, without running anything.
#[derive(Debug, Args)]
pub struct Check {
    /// Job, TOML or JSON.
    file: PathBuf,
}

impl Check {
    pub fn run(self) -> Result<(), CliError> {
        let job = job_file::load(&self.file)?;
        write(&format!(
            "{}: {} with {}\n",
            self.file.display(),
            job.name,
            count(job.catalog.len() as u64, "task")
        ))
    }
}
