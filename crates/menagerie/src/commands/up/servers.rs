//! Keeper and journal in this process, for roles beside them.

use std::net::SocketAddr;
use std::path::Path;

use menagerie_journal::server::Listen;
use menagerie_keeper::{Config, Keeper};
use menagerie_kernel::local_secret::{self, Owner};
use menagerie_kernel::session::Auth;
use prometheus_client::registry::Registry;
use tracing::warn;

use super::{access, secret};
use crate::client::{self, Connection};
use crate::commands::data::DataArgs;
use crate::commands::journal::serve::{self as journal, Running};
use crate::commands::keeper::{serve as keeper, words};
use crate::config::{Origin, Secret};
use crate::exit::CliError;
use crate::files::Shares;

/// Namespace of the engines on our own keeper.
pub const NAMESPACE: &str = "/menagerie";

/// How roles and demo reach the keeper in this process.
#[derive(Debug, Clone)]
pub struct Local {
    pub keeper: SocketAddr,
    /// `None`: the namespace is open to everybody.
    pub secret: Option<Secret>,
}

impl Local {
    /// Settings of a session in the namespace, with owner's rights.
    pub fn config(&self) -> menagerie_kernel::Config {
        let mut config = menagerie_kernel::Config::new(self.keeper.to_string(), NAMESPACE);
        config.auth = self.secret.clone().map(|Secret(digest)| Auth { digest });
        config
    }

    /// A connection for a role, with owner's rights in the namespace.
    pub fn connection(&self) -> Connection {
        Connection { config: self.config(), origin: Origin::Flag("--keeper-listen") }
    }

    /// Our user as access lists name it.
    pub fn digest(&self) -> Option<String> {
        self.secret.as_ref().map(|Secret(secret)| menagerie_keeper::digest(secret))
    }
}

/// Where keeper and journal listen, and where their data is.
#[derive(Debug, Clone)]
pub struct Servers<'a> {
    pub data: &'a DataArgs,
    pub keeper_listen: SocketAddr,
    pub keeper_words: &'a [String],
    pub journal_listen: SocketAddr,
    /// Whether anybody may use the namespace.
    pub is_open: bool,
}

impl Servers<'_> {
    /// Starts the keeper, and sets the namespace's access list before any role of ours connects.
    pub fn start_keeper(
        &self,
        root: &Path,
        shares: &Shares,
        registry: &mut Registry,
    ) -> Result<(Keeper, Local), CliError> {
        let folder = self.data.keeper()?;
        let fresh = !folder.exists();
        let secret = if self.is_open { None } else { Some(secret::load_or_draw(root)?) };
        let superuser = secret::random("super")?;
        let mut config = Config::new(folder, self.keeper_listen);
        config.words = words::allowed(self.keeper_words);
        config.connections_max = shares.connections(keeper::PORT);
        config.superuser_digest = Some(menagerie_keeper::digest(&superuser.0));
        let keeper = keeper::start(config, registry, "--keeper-listen")?;
        let local = Local { keeper: keeper.address(), secret };
        client::block_on(access::establish(&local, Auth { digest: superuser.0 }, fresh))?;
        if let Some(Secret(secret)) = local.secret.clone()
            && let Err(error) = local_secret::serve(&Owner::keeper(keeper.address()), secret)
        {
            let file = secret::path(root);
            warn!(%error, "commands of this user need MENAGERIE_ZOOKEEPER_AUTH_FILE={}", file.display());
        }
        Ok((keeper, local))
    }

    /// Starts the journal.
    pub fn start_journal(&self, shares: &Shares, registry: &mut Registry) -> Result<Running, CliError> {
        let listen = Listen {
            address: self.journal_listen,
            tls: None,
            connections_max: Some(shares.connections(journal::PORT)),
        };
        let config = menagerie_journal::Config::new(self.data.journal()?);
        Running::start(config, &listen, registry, "--journal-listen")
    }
}
