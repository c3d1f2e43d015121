//! `menagerie pipeline logs BUILD`: asks the executors for it.

use std::time::Duration;

use clap::Args;
use menagerie_kernel::Term;
use menagerie_kernel::session::Rights::Observer;
use menagerie_pipelines::client::logs::{self, BuildId, Search};
use menagerie_types::exit_code;
use menagerie_znodes::pipelines::{JobQueue, RequestState};

use crate::client::{self, ClientArgs};
use crate::exit::{CliError, cannot};
use crate::output::{reader_gone, write_bytes};

/// Interval of `-f`.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(300);

/// Print the log of a build: all that its program has written.
#[derive(Debug, Args)]
pub struct Logs {
    /// Build, as `pipeline history -o json` and `pipeline status -o json` call it: 32 hexadecimal digits.
    build: BuildId,
    /// Keep printing until the build has ended.
    #[arg(short, long)]
    follow: bool,
}

impl Logs {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        client::run_within(client, Observer, async |client| {
            let term = client.term();
            tokio::select! {
                printed = self.print(&term) => printed,
                gone = reader_gone() => Err(gone),
            }
        })
    }

    async fn print(&self, term: &Term) -> Result<(), CliError> {
        let (executor, mut chunk) = loop {
            let asked = logs::find(term, &self.build, 0).await;
            match asked.map_err(cannot("look for executors"))? {
                Search::Found(executor, chunk) => break (executor, chunk),
                Search::Nowhere(silent) => self.require_expected(term, &silent).await?,
            }
            tokio::time::sleep(FOLLOW_INTERVAL).await;
        };
        loop {
            write_bytes(&chunk.bytes)?;
            if chunk.bytes.is_empty() {
                if !(self.follow && chunk.is_running) {
                    return Ok(());
                }
                tokio::time::sleep(FOLLOW_INTERVAL).await;
            }
            let asked = executor.read(&self.build, chunk.end).await;
            let lost = |source| CliError::Diagnosed {
                what: format!("executor {} does not answer any more", executor.name),
                because: Some(Box::new(source)),
                help: "try again: if it was restarted, it still has its logs".to_owned(),
                code: exit_code::UNAVAILABLE,
            };
            match asked.map_err(lost)? {
                Some(next) => chunk = next,
                None => return Ok(()),
            }
        }
    }

    /// Fails unless an executor is about to have the log, and we are to wait for that.
    async fn require_expected(&self, term: &Term, silent: &[String]) -> Result<(), CliError> {
        let build = &self.build;
        let request = term.read(&JobQueue::Executor.request(build.id()).maybe_damaged()).await;
        let request = request.map_err(cannot(format!("look for build {build}")))?;
        let state = request.and_then(|found| found.value.sound()).map(|request| request.state);
        let is_waiting = matches!(state, Some(RequestState::Requested | RequestState::Running));
        if is_waiting && self.follow {
            return Ok(());
        }
        let (what, help) = match (is_waiting, silent.is_empty()) {
            (true, _) => (
                format!("build {build} has not begun: it waits for an executor"),
                "say -f to wait for it, or see with `menagerie status` whether an executor runs".to_owned(),
            ),
            (false, true) => (
                format!("no executor has a log of build {build}"),
                "see the builds with `menagerie pipeline history -o json`; logs stay on the machine of their executor, \
                 which must run"
                    .to_owned(),
            ),
            (false, false) => (
                format!("no executor that answers has a log of build {build}"),
                format!("these do not answer: {}", silent.join(", ")),
            ),
        };
        Err(CliError::Diagnosed { what, because: None, help, code: exit_code::FAILED })
    }
}
