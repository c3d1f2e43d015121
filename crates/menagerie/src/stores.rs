//! The stores of a command: ZooKeeper for coordination, and the journals registered there for messages.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use menagerie_journal::token::TOKEN_FILE;
use menagerie_kernel::Session;
use menagerie_kernel::session::Rights;
use menagerie_queues::journals::{Access, Journals, TokenFiles};

use crate::client::{self, Client, ClientArgs};
use crate::commands::data::DataArgs;
use crate::config::{Chosen, Settings};
use crate::exit::{CliError, cannot};

/// Wait this long for a journal that was started a moment ago.
pub const JOURNAL_PATIENCE: Duration = Duration::from_secs(5);

/// Where ZooKeeper is, and by what journals and we know each other.
#[derive(Debug, Args)]
pub struct StoreArgs {
    /// Where ZooKeeper is.
    #[command(flatten)]
    pub client: ClientArgs,
    /// By what journals and we know each other.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// By what journals and we know each other. Nothing of it comes from ZooKeeper.
#[derive(Debug, Clone, Args)]
pub struct AccessArgs {
    /// Copy of the journal's token file, needed on other machines and by other users; may hold the tokens of several
    /// journals, one per line [env: MENAGERIE_JOURNAL_TOKEN_FILE] [default: the token that a local journal of the same
    /// user hands out, else journal/token in the data folder of this user, or of this machine].
    #[arg(long, global = true, value_name = "FILE", help_heading = "Journal")]
    journal_token_file: Option<PathBuf>,
    /// Certificate authority to trust, PEM; journals must then use TLS [env: MENAGERIE_JOURNAL_CA].
    #[arg(long, global = true, value_name = "FILE", help_heading = "Journal")]
    journal_ca: Option<PathBuf>,
}

impl AccessArgs {
    /// How to authenticate with journals: flags, else settings.
    pub fn access(&self, settings: &Settings) -> Access {
        let chosen = |flag: &Option<PathBuf>, setting: &Option<Chosen<PathBuf>>| {
            flag.clone().or_else(|| setting.as_ref().map(|chosen| chosen.value.clone()))
        };
        let tokens = chosen(&self.journal_token_file, &settings.journal_token_file);
        Access {
            tokens: tokens.map_or_else(|| TokenFiles::Local(local_tokens()), TokenFiles::Named),
            authority: chosen(&self.journal_ca, &settings.journal_ca),
        }
    }
}

/// Token files of journals on this machine: in our own data folder, then in the system's.
fn local_tokens() -> Vec<PathBuf> {
    let data = std::env::var_os("MENAGERIE_DATA").filter(|path| !path.is_empty()).map(PathBuf::from);
    let roots = DataArgs { data }.searched().into_iter();
    roots.map(|root| root.join("journal").join(TOKEN_FILE)).collect()
}

/// A session in the namespace, and the journals registered there.
pub struct Stores {
    /// The session.
    pub session: Session,
    /// The journals registered in the namespace.
    pub journals: Journals,
}

impl Stores {
    /// Uses an open session.
    pub async fn at(client: &Client, access: &AccessArgs) -> Result<Self, CliError> {
        let journals = Journals::registered(&client.session, access.access(&client.settings)).await;
        let journals = journals.map_err(cannot("look for journals"))?;
        Ok(Self { session: client.session.clone(), journals })
    }
}

impl StoreArgs {
    /// Opens the stores, works, and closes the session.
    pub fn run(
        self,
        rights: Rights,
        work: impl AsyncFnOnce(&Stores) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let access = self.access;
        client::run_within(self.client, rights, async |client| {
            let stores = Stores::at(client, &access).await?;
            work(&stores).await
        })
    }

    /// Works with owner's rights.
    pub fn change(self, work: impl AsyncFnOnce(&Stores) -> Result<(), CliError>) -> Result<(), CliError> {
        self.run(Rights::Owner, work)
    }

    /// Works with observer's rights: reads only.
    pub fn observe(self, work: impl AsyncFnOnce(&Stores) -> Result<(), CliError>) -> Result<(), CliError> {
        self.run(Rights::Observer, work)
    }
}
