//! `menagerie flow run FILE`: everything that a job needs, in this process.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use menagerie_flows::client::new_id;
use menagerie_flows::job::Job;
use menagerie_flows::submission;
use menagerie_journal_directory::{Journals, register};
use menagerie_kernel::Session;
use menagerie_znodes::Name;
use serde_json::Map;
use signal_hook::consts::SIGTERM;

use super::{DeploymentArg, JournalSource, job_file, waiting};
use crate::commands::data::DataArgs;
use crate::commands::journal::serve as journal;
use crate::commands::keeper::serve as keeper;
use crate::commands::up::servers::Servers;
use crate::commands::{coordinator, peer};
use crate::exit::CliError;
use crate::files::Shares;
use crate::output::write;
use crate::role::host::Signals;
use crate::role::{Host, Role};

/// Run a job by itself, with all that it needs in this process: keeper, journal, coordinator and peers.
///
/// Prints the output folders when it is complete; exit code 0 if it is complete, 1 if it failed, 3 if it was killed.
#[derive(Debug, Args)]
pub struct Run {
    /// Job, TOML or JSON. Relative paths in it begin at its folder.
    file: PathBuf,
    /// Number of virtual peers.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=i64::from(peer::COUNT_MAX)))]
    peers: u16,
    /// Folder for the data of keeper and journal [default: a temporary one].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl Run {
    pub fn run(self) -> Result<(), CliError> {
        let job = job_file::load(&self.file)?;
        let temporary = match self.data {
            Some(_) => None,
            None => Some(tempfile::tempdir().map_err(CliError::io("make a temporary folder"))?),
        };
        let root = self.data.or_else(|| Some(temporary.as_ref()?.path().to_owned()));
        let data = DataArgs { data: root };
        let mut host = Host::new(None, false, Signals::Host)?;
        let (id, outcome) = (new_id(), Outcome::default());
        let served = serve(&mut host, &data, &job, &id, self.peers, outcome.clone());
        let signal = host.stopped_by();
        let ended = host.end(served).and_then(|()| {
            let outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
            outcome.unwrap_or(Err(CliError::Interrupted { signal: signal.unwrap_or(SIGTERM) }))
        });
        if ended.is_err() {
            // Nobody writes to them any more.
            submission::discard(&job, &id);
        }
        ended?;
        submission::outputs(&job).try_for_each(|folder| write(&format!("{}\n", folder.display())))
    }
}

/// What became of the job; nothing if it was interrupted. It is not the role's own: a job that fails is no reason for the
/// servers to stop in haste.
type Outcome = Arc<Mutex<Option<Result<(), CliError>>>>;

fn serve(
    host: &mut Host,
    data: &DataArgs,
    job: &Job,
    id: &Name,
    peers: u16,
    outcome: Outcome,
) -> Result<(), CliError> {
    let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let servers = Servers {
        data,
        keeper_listen: anywhere,
        keeper_words: &[],
        journal_listen: anywhere,
        is_open: false,
    };
    let shares = Shares::of(&[keeper::PORT, journal::PORT]);
    let (keeper, local) = servers.start_keeper(&data.root()?, &shares, &mut host.registry)?;
    let journal = servers.start_journal(&shares, &mut host.registry)?;
    let journals = Journals::from([(register::NAME.to_owned(), Arc::new(journal.store.clone()) as _)]);
    let deployment = DeploymentArg { deployment: Name::new("default").expect("it is a name") };
    let in_process = || JournalSource::InProcess(journals.clone());
    let flow = {
        let (job, id, deployment) = (job.clone(), id.clone(), deployment.clone());
        let submit_and_wait = async move |session: &Session, life: &crate::role::Life| {
            let jobs = deployment.jobs(session);
            let help = "correct the cause, and run the job again";
            tokio::select! {
                ended = async {
                    waiting::submit(&jobs, &id, &job).await?;
                    waiting::wait(&jobs, &id, &job, help).await
                } => *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended),
                () = life.stopping() => {}
            }
            Ok(())
        };
        Role::with_session("flow", local.connection(), Map::new(), submit_and_wait)
    };
    let roles = [
        keeper::role(keeper, None),
        journal::role(journal, None),
        coordinator::role(local.connection(), in_process(), deployment.deployment()),
        peer::role(local.connection(), in_process(), deployment.deployment(), peers),
    ];
    for role in roles {
        if host.start(role)?.is_none() {
            return Ok(());
        }
    }
    // It is never ready: it ends, with the job.
    host.start(flow).map(drop)
}
