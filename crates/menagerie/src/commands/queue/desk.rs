//! What every command about queues works with: a session, and the journals that are registered there.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use menagerie_kernel::Session;
use menagerie_kernel::session::Role;
use menagerie_queues::journals::{Access, Journals};

use super::failed;
use crate::client::{self, ClientArgs};
use crate::exit::CliError;

/// A journal that was started a moment ago is waited for.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Where ZooKeeper is, and by what journals know us.
#[derive(Debug, Args)]
pub struct DeskArgs {
    #[command(flatten)]
    pub client: ClientArgs,
    #[command(flatten)]
    pub access: AccessArgs,
}

/// By what journals know us.
#[derive(Debug, Clone, Args)]
pub struct AccessArgs {
    /// The journal's token, on machines other than its own [default: the file that the journal names].
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "MENAGERIE_JOURNAL_TOKEN_FILE",
        help_heading = "Journal"
    )]
    journal_token_file: Option<PathBuf>,
    /// Whom to trust, PEM, if the journal speaks TLS.
    #[arg(long, global = true, value_name = "FILE", env = "MENAGERIE_JOURNAL_CA", help_heading = "Journal")]
    journal_ca: Option<PathBuf>,
}

impl AccessArgs {
    /// The same for the library.
    pub fn access(self) -> Access {
        Access { token_file: self.journal_token_file, authority: self.journal_ca }
    }
}

/// A session and the journals.
pub struct Desk {
    /// The session.
    pub session: Session,
    /// What is registered there.
    pub journals: Journals,
}

impl Desk {
    /// In an open session.
    pub async fn at(session: &Session, access: Access) -> Result<Self, CliError> {
        let journals = Journals::registered(session, access).await;
        let journals = journals.map_err(|error| failed("look for journals")(error.into()))?;
        Ok(Self { session: session.clone(), journals })
    }
}

impl DeskArgs {
    /// Works, and takes leave.
    pub fn run(
        self,
        role: Role,
        work: impl AsyncFnOnce(&Desk) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let access = self.access.access();
        client::run_within(self.client, role, async |client| {
            let desk = Desk::at(&client.session, access).await?;
            work(&desk).await
        })
    }

    /// Changes something.
    pub fn change(self, work: impl AsyncFnOnce(&Desk) -> Result<(), CliError>) -> Result<(), CliError> {
        self.run(Role::Owner, work)
    }

    /// Only looks.
    pub fn look(self, work: impl AsyncFnOnce(&Desk) -> Result<(), CliError>) -> Result<(), CliError> {
        self.run(Role::Observer, work)
    }
}
