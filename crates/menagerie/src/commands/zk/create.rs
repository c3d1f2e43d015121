//! `menagerie zk create PATH [DATA]`

use clap::Args;
use menagerie_kernel::session::{IfLate, Stat};
use menagerie_kernel::{Term, retry};
use menagerie_znodes::Kind;
use serde::Serialize;

use super::path::{self};
use super::payload::PayloadArgs;
use crate::client::{self, ClientArgs};
use crate::exit::{CliError, cannot};
use crate::output::{FormatArg, Show};

/// Create a znode, and print its path.
#[derive(Debug, Args)]
pub struct Create {
    /// Path to create; with --sequence the server appends ten digits, and a trailing slash is kept.
    path: String,
    #[command(flatten)]
    payload: PayloadArgs,
    /// Create missing parents too.
    #[arg(short, long)]
    parents: bool,
    /// Let the server append a rising sequence number.
    #[arg(short, long, conflicts_with = "container")]
    sequence: bool,
    /// Create a container: the server removes it some time after its last child is gone.
    #[arg(short, long, conflicts_with = "ephemeral")]
    container: bool,
    /// Create an ephemeral znode, and hold it until Ctrl-C: it lives as long as this command's session.
    #[arg(short, long)]
    ephemeral: bool,
    #[command(flatten)]
    format: FormatArg,
}

#[derive(Debug, Serialize)]
struct Created {
    path: String,
    stat: Stat,
}

impl Create {
    fn kind(&self) -> Kind {
        match (self.ephemeral, self.sequence, self.container) {
            (false, false, false) => Kind::Persistent,
            (false, false, true) => Kind::Container,
            (true, false, _) => Kind::Ephemeral,
            (false, true, _) => Kind::PersistentSequence,
            (true, true, _) => Kind::EphemeralSequence,
        }
    }

    /// The path; a sequence without a name prefix ends with a slash.
    fn checked_path(&self) -> Result<String, CliError> {
        let nameless = self.sequence && self.path.ends_with('/');
        let checked = path::parse(&self.path).map(|path| match (nameless, path.as_str()) {
            (true, "/") | (false, _) => path,
            (true, _) => path + "/",
        });
        checked.map_err(|what| CliError::Usage {
            what,
            help: "give a full path from the ensemble's root, such as /a/b".to_owned(),
        })
    }

    /// Creates the znode, and stays connected if it is ephemeral.
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        let (kind, path, parents, hold) = (self.kind(), self.checked_path()?, self.parents, self.ephemeral);
        let data = self.payload.read()?.unwrap_or_default();
        client::run(client, async |client| {
            let term = client.term();
            if parents {
                ensure_parent(&term, &path).await?;
            }
            let created = term.create(&path, &data, kind, IfLate::Report).await;
            let created = created.map_err(|error| match parent(&path) {
                Some(parent) if error.is_no_znode() => orphan(&path, parent),
                _ => cannot(format!("create {}", path))(error),
            })?;
            self.format.print(&Created { path: created.path.clone(), stat: created.stat })?;
            if !hold {
                return Ok(());
            }
            eprintln!("{} lives until Ctrl-C", created.path);
            term.lost().await;
            Err(CliError::lost(created.path))
        })
    }
}

/// `None` for children of the root.
fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent).filter(|parent| !parent.is_empty())
}

async fn ensure_parent(term: &Term, path: &str) -> Result<(), CliError> {
    match parent(path) {
        None => Ok(()),
        Some(parent) => retry::ensure(term, parent, b"").await.map_err(cannot(format!("create {}", parent))),
    }
}

fn orphan(path: &str, parent: &str) -> CliError {
    CliError::Orphan { path: path.to_owned(), parent: parent.to_owned() }
}

impl Show for Created {
    fn show(&self) -> String {
        format!("{}\n", self.path)
    }
}
