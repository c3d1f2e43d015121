//! `menagerie flow`: jobs over segments.
//!
//! One file per verb. `job_file.rs`: a job from a file, checked. `waiting.rs`: waiting for a job, with progress.

mod check;
mod job_file;
mod kill;
mod list;
mod run;
mod show;
mod submit;
mod waiting;

use clap::{Args, Subcommand};
use menagerie_flows::client::Jobs;
use menagerie_journal_directory::{Access, Journals};
use menagerie_kernel::Session;
use menagerie_kernel::session::Rights;
use menagerie_znodes::Name;
use menagerie_znodes::flows::Deployment;

use crate::client::{self, ClientArgs};
use crate::exit::{CliError, cannot};

/// Run jobs over segments: a catalogue of tasks and a workflow between them.
#[derive(Debug, Args)]
pub struct Flow {
    #[command(flatten)]
    client: ClientArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Check(check::Check),
    Submit(submit::Submit),
    List(list::List),
    Show(show::Show),
    Kill(kill::Kill),
    Run(run::Run),
}

impl Flow {
    pub fn run(self) -> Result<(), CliError> {
        let client = self.client;
        match self.verb {
            Verb::Check(verb) => verb.run(),
            Verb::Submit(verb) => verb.run(client),
            Verb::List(verb) => verb.run(client),
            Verb::Show(verb) => verb.run(client),
            Verb::Kill(verb) => verb.run(client),
            Verb::Run(verb) => verb.run(),
        }
    }
}

/// Which deployment.
#[derive(Debug, Clone, Args)]
pub struct DeploymentArg {
    /// Deployment: coordinators, peers and jobs of different ones do not see each other.
    #[arg(long, value_name = "NAME", default_value = "default", env = "MENAGERIE_DEPLOYMENT")]
    deployment: Name,
}

impl DeploymentArg {
    /// Its znodes.
    pub fn deployment(&self) -> Deployment {
        Deployment::new(self.deployment.clone())
    }

    /// Its jobs.
    fn jobs(&self, session: &Session) -> Jobs {
        Jobs { session: session.clone(), deployment: self.deployment() }
    }
}

/// Where a role finds the journals that have links.
pub enum JournalSource {
    /// Those in this process.
    InProcess(Journals),
    /// Those that are registered in ZooKeeper.
    Registered(Access),
}

impl JournalSource {
    /// The journals.
    pub async fn open(self, session: &Session) -> Result<Journals, CliError> {
        match self {
            Self::InProcess(journals) => Ok(journals),
            Self::Registered(access) => {
                Journals::registered(session, access).await.map_err(cannot("look for journals"))
            }
        }
    }
}

/// Works with the jobs of a deployment.
fn with_jobs(
    client: ClientArgs,
    rights: Rights,
    deployment: &DeploymentArg,
    work: impl AsyncFnOnce(&Jobs) -> Result<(), CliError>,
) -> Result<(), CliError> {
    client::run_within(client, rights, async |client| work(&deployment.jobs(&client.session)).await)
}
