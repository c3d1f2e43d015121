//! `menagerie journal renew`: an identity of its own for a folder that was copied.

use clap::Args;
use menagerie_journal::RandomId;
use menagerie_journal::store::identity;

use crate::commands::data::DataArgs;
use crate::exit::{CliError, cannot};

/// Give a data folder an identity of its own, after it was copied. Offline: the journal must not run. Queues whose messages
/// are in the folder go on with it. Of several copies, renew the one that is to go on: the others do not start any more under
/// the identity that they share.
#[derive(Debug, Args)]
pub struct Renew {
    /// The folder whose queues are to go on with this one [default: what this one was before].
    #[arg(long, value_name = "FOLDER")]
    continues: Option<RandomId>,
    #[command(flatten)]
    data: DataArgs,
}

impl Renew {
    /// Draws it.
    pub fn run(self) -> Result<(), CliError> {
        let folder = self.data.journal()?;
        let id = identity::renew(&folder, self.continues)
            .map_err(cannot(format!("renew {}", folder.display())))?;
        println!("{}: folder {id}", folder.display());
        Ok(())
    }
}
