//! Waiting for a job, with a line on stderr for each progress.

use menagerie_flows::FlowError;
use menagerie_flows::client::{Ended, Jobs, Progress};
use menagerie_flows::job::Job;
use menagerie_flows::submission::{self, SubmissionError};
use menagerie_types::exit_code;
use menagerie_znodes::Name;

use crate::exit::{CliError, cannot};
use crate::output::count;

/// Exit code of a wait for a job that was killed.
const KILLED: u8 = 3;

/// Claims the output folders, and submits the job under this id.
pub async fn submit(jobs: &Jobs, id: &Name, job: &Job) -> Result<(), CliError> {
    submission::submit(jobs, id, job).await.map_err(|error| match error {
        SubmissionError::Unusable(unusable) => {
            CliError::Usage { what: unusable.why, help: unusable.help.to_owned() }
        }
        error => cannot("submit the job")(error),
    })
}

/// Waits until a job is complete; every other end is an error, with this help.
pub async fn wait(jobs: &Jobs, id: &Name, job: &Job, help: &str) -> Result<(), CliError> {
    let ended = jobs.wait(id, |progress| eprintln!("{}", line(progress))).await;
    let failed =
        |what: String, code| CliError::Diagnosed { what, because: None, help: help.to_owned(), code };
    let ended = ended.map_err(cannot("wait for the job"))?;
    if ended != Ended::Complete {
        submission::discard(job, id);
    }
    match ended {
        Ended::Complete => {
            eprintln!("complete");
            Ok(())
        }
        Ended::Failed(why) => Err(failed(format!("job {} failed: {why}", job.name), exit_code::FAILED)),
        Ended::Killed => Err(failed(format!("job {} was killed", job.name), KILLED)),
        Ended::Refused(why) => Err(cannot("run the job")(FlowError::Refused { why })),
    }
}

fn line(progress: &Progress) -> String {
    match progress {
        Progress::Submitted => "submitted; waiting for a coordinator and a journal".to_owned(),
        Progress::Running { complete, tasks, peers: 0 } => {
            format!("{complete} of {tasks} tasks complete; waiting for peers")
        }
        Progress::Running { complete, tasks, peers } => {
            format!("{complete} of {tasks} tasks complete; {} at work", count(*peers as u64, "peer"))
        }
    }
}
