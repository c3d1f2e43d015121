//! `menagerie flow show JOB`

use clap::Args;
use menagerie_flows::FlowError;
use menagerie_flows::view::{JobView, Standing, TaskRow};
use menagerie_kernel::session::Rights::Observer;
use menagerie_znodes::Name;
use menagerie_znodes::flows::PeerState;

use super::DeploymentArg;
use super::list::took;
use crate::client::{self, ClientArgs};
use crate::exit::{CliError, cannot};
use crate::output::{self, OutputArgs, Table, escape_for_terminal};
use crate::stores::{AccessArgs, Stores};

/// Show a job: how it stands, its tasks, and the peers that work on them.
#[derive(Debug, Args)]
pub struct Show {
    /// Id of the job, as `flow submit` printed it.
    job: Name,
    #[command(flatten)]
    deployment: DeploymentArg,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    output: OutputArgs,
}

impl Show {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        let Self { job, deployment, access, output } = self;
        client::run_within(client, Observer, async |client| {
            let Stores { session, journals } = Stores::at(client, &access).await?;
            let jobs = deployment.jobs(&session);
            let show = async || {
                let mut view = jobs.show(&job).await?;
                jobs.measure(&journals, &job, &mut view).await?;
                Ok(view)
            };
            output.print(async || show().await.map_err(cannot::<FlowError>(format!("show job {job}")))).await
        })
    }
}

impl output::Show for JobView {
    fn show(&self) -> String {
        let job = &self.job;
        let mut text = format!("{} {}: {}", job.id, escape_for_terminal(Some(&job.name)), job.state.as_str());
        if job.ended_ms.is_some() {
            text.push_str(&format!(" after {}", took(job)));
        }
        if let Some(why) = &job.why {
            text.push_str(&format!(": {}", escape_for_terminal(Some(why))));
        }
        text.push('\n');
        let mut table = Table::new(["TASK", "NAME", "TYPE", "PARTITIONS", "STATE", "PEERS"]);
        for task in &self.tasks {
            table.row([
                task.number.to_string(),
                escape_for_terminal(Some(&task.name)),
                task.task_type.clone(),
                task.partitions.to_string(),
                state(task, job.state == Standing::Running).to_owned(),
                task.peers.len().to_string(),
            ]);
        }
        text.push_str(&table.text());
        text
    }
}

fn state(task: &TaskRow, is_running: bool) -> &'static str {
    match (task.is_complete, is_running) {
        (true, _) => "complete",
        (false, false) => "-",
        (false, true) if task.peers.contains(&PeerState::Sealing) => "sealing",
        (false, true) if task.peers.is_empty() => "waits for peers",
        (false, true) => "active",
    }
}
