//! Which journal a command talks to.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use menagerie_journal::Client;
use menagerie_journal::client::Address;
use menagerie_journal::token::{TOKEN_FILE, Token};

use crate::client;
use crate::commands::data::DataArgs;
use crate::exit::CliError;

/// File in the data folder with the address of the running journal.
pub const ADDRESS_FILE: &str = "address";

/// Second line of that file if the journal speaks TLS.
pub const TLS: &str = "tls";

/// Where the journal is.
#[derive(Debug, Args)]
pub struct TargetArgs {
    /// Address of the journal [default: the journal that runs on --data].
    #[arg(long, value_name = "HOST:PORT", env = "MENAGERIE_JOURNAL")]
    journal: Option<String>,
    /// File with the journal's token [default: the one in --data].
    #[arg(long, value_name = "FILE", env = "MENAGERIE_JOURNAL_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// Connect with TLS and trust certificates signed by this authority, PEM.
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    #[command(flatten)]
    data: DataArgs,
}

impl TargetArgs {
    fn client(self) -> Result<Client, CliError> {
        let folder = self.data.journal()?;
        let address = match self.journal {
            Some(address) => address,
            None => {
                let text = fs::read_to_string(folder.join(ADDRESS_FILE))
                    .map_err(|source| CliError::not_running("journal", &folder, source))?;
                let (address, tls) = text.split_once('\n').unwrap_or((&text, ""));
                if tls.trim() == TLS && self.tls_ca.is_none() {
                    return Err(CliError::Usage {
                        what: format!(
                            "the journal on {} speaks TLS, and no authority to trust is given",
                            folder.display()
                        ),
                        help:
                            "name the authority that signed its certificate with --tls-ca, and give the name \
                               in the certificate with --journal HOST:PORT"
                                .to_owned(),
                    });
                }
                address.trim().to_owned()
            }
        };
        let file = self.token_file.unwrap_or_else(|| folder.join(TOKEN_FILE));
        let tokens = Token::read_all(&file);
        let tokens = tokens.map_err(CliError::io(format!("read the token {}", file.display())))?;
        Ok(Client::new(Address { address, tokens, authority: self.tls_ca, identity: None }))
    }

    /// Runs `work` with a client of the journal, until it is done or a signal stops it.
    pub fn run(self, work: impl AsyncFnOnce(&Client) -> Result<(), CliError>) -> Result<(), CliError> {
        let target = self.client()?;
        client::block_on(async move {
            tokio::select! {
                done = work(&target) => done,
                signal = client::stopped() => Err(CliError::Interrupted { signal: signal? }),
            }
        })
    }
}
