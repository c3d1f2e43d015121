//! `menagerie zk rm PATH`

use std::io::{self, BufRead as _, IsTerminal as _};

use clap::Args;
use menagerie_kernel::{Term, subtree};

use super::path::{self};
use crate::client::{self, ClientArgs};
use crate::exit::{CliError, cannot};
use crate::output;
use crate::progress::Meter;

/// Delete a znode.
#[derive(Debug, Args)]
pub struct Rm {
    /// Path of the znode.
    #[arg(value_parser = path::parse)]
    path: String,
    /// Delete the whole subtree.
    #[arg(short, long)]
    recursive: bool,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,
    /// Only if the znode still has this version.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..), conflicts_with = "recursive")]
    version: Option<i32>,
}

impl Rm {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        self.refuse_what_is_the_servers()?;
        client::run(client, async |client| {
            let term = client.term();
            if self.recursive {
                return self.remove_all(&term).await;
            }
            term.delete(&self.path, self.version).await.map_err(cannot(format!("delete {}", self.path)))
        })
    }

    fn refuse_what_is_the_servers(&self) -> Result<(), CliError> {
        let below = |root: &str| self.path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'));
        // Operators create quotas there, and nothing else removes them.
        let theirs = (self.path == "/zookeeper" || below("/zookeeper")) && !below("/zookeeper/quota");
        if !theirs && self.path != "/" {
            return Ok(());
        }
        Err(CliError::Usage {
            what: format!("{} belongs to the server itself", self.path),
            help: "delete what is yours: `menagerie zk ls /` shows what is there; quotas are below /zookeeper/quota"
                .to_owned(),
        })
    }

    async fn remove_all(&self, term: &Term) -> Result<(), CliError> {
        let doing = || cannot(format!("delete {}", self.path));
        let levels = subtree::levels(term, &self.path, usize::MAX).await.map_err(doing())?;
        let count = levels.iter().flatten().count() as u64;
        let ephemerals = levels.iter().flatten().filter(|seen| seen.stat.ephemeral_owner != 0).count();
        if !self.yes && count > 1 {
            self.confirm(count - 1, ephemerals).await?;
        }
        let mut meter = Meter::new();
        subtree::remove(term, levels, |done| meter.show("deleted", done, Some(count))).await.map_err(doing())
    }

    async fn confirm(&self, below: u64, ephemerals: usize) -> Result<(), CliError> {
        let below = output::count(below, "znode");
        let question = format!("{} has {below} below it, {ephemerals} of them ephemeral", self.path);
        if !io::stdin().is_terminal() {
            return Err(CliError::Usage {
                what: format!("{question}, and nobody is there to ask"),
                help: "say --yes to delete them all".to_owned(),
            });
        }
        eprint!("{question}. Delete them all? [y/N] ");
        let answer = answer().await.map_err(CliError::io("read the answer"))?;
        if matches!(answer.trim(), "y" | "Y" | "yes") {
            return Ok(());
        }
        Err(CliError::Refused {
            what: "nothing was deleted".to_owned(),
            help: "answer y, or say --yes".to_owned(),
        })
    }
}

/// Reads a line from the terminal, on a thread of its own, so that Ctrl-C works and the session stays alive
/// meanwhile.
async fn answer() -> io::Result<String> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut answer = String::new();
        let read = io::stdin().lock().read_line(&mut answer);
        // We may have been stopped meanwhile.
        let _ = sender.send(read.map(|_| answer));
    });
    receiver.await.unwrap_or_else(|_| Err(io::ErrorKind::UnexpectedEof.into()))
}
