//! `menagerie journal renew`: a new identity for a copied folder.

use clap::Args;
use menagerie_journal::RandomId;
use menagerie_journal::store::identity;

use crate::commands::data::DataArgs;
use crate::exit::{CliError, cannot};

/// Give a copied data folder an identity of its own. The journal must not be running. Queues whose messages are in the
/// folder continue with it. Of several copies, renew the one that is to continue: the others no longer start under the
/// shared identity.
#[derive(Debug, Args)]
pub struct Renew {
    /// Id of the folder whose queues continue with this one [default: this folder's previous id].
    #[arg(long, value_name = "FOLDER")]
    continues: Option<RandomId>,
    #[command(flatten)]
    data: DataArgs,
}

impl Renew {
    pub fn run(self) -> Result<(), CliError> {
        let folder = self.data.journal()?;
        let id = identity::renew(&folder, self.continues)
            .map_err(cannot(format!("renew {}", folder.display())))?;
        println!("{}: folder {id}", folder.display());
        Ok(())
    }
}
