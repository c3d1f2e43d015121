//! `menagerie queue import-qdo`

use clap::Args;
use menagerie_queues::admin::import::{self, Imported};

use super::create::JournalArg;
use crate::client::{self, Client};
use crate::exit::{CliError, cannot};
use crate::output::{FormatArg, Row, Rows};
use crate::stores::StoreArgs;

/// Take over qdo's progress: create its queues here, with their cursors where qdo's stood, or slightly earlier.
#[derive(Debug, Args)]
pub struct ImportQdo {
    /// Path of qdo's znodes, from the ensemble's root.
    #[arg(long, value_name = "PATH", default_value = "/mozilla-qdo")]
    from: String,
    #[command(flatten)]
    journal: JournalArg,
    /// Only print what would happen.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    format: FormatArg,
}

impl ImportQdo {
    /// Imports qdo's cursors and reports what became of each.
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        let settings = stores.client.clone().settings()?;
        let found = client::block_on(async {
            let client = client::until_stopped(Client::connect(settings)).await?;
            let found = client::until_stopped(async {
                import::find(&client.term(), &self.from).await.map_err(cannot(format!("read {}", self.from)))
            })
            .await;
            client::close(client.session).await;
            found
        })?;
        if found.is_empty() {
            return Err(CliError::Refused {
                what: format!("there are no cursors of qdo below {}", self.from),
                help: "name the root that its connection string ends with, by --from".to_owned(),
            });
        }
        if self.dry_run {
            return stores.observe(async |stores| {
                let preview = import::preview(&stores.session, &found).await;
                self.format.print(&Rows(preview.map_err(cannot("look at cursors that are there"))?))
            });
        }
        stores.change(async |stores| {
            let journal = self.journal.name(stores).await?;
            let imported = import::import(&stores.session, &stores.journals, &journal, &found).await;
            let imported = imported.map_err(cannot(format!("import {}", self.from)))?;
            self.format.print(&Rows(imported))
        })
    }
}

impl Row for Imported {
    const HEADS: &[&str] = &["FROM", "PARTITION", "OLD", "NEW", "WHAT"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.from.clone(),
            self.partition.as_ref().map_or("-".to_owned(), ToString::to_string),
            self.old.escape_debug().to_string(),
            self.new.clone().unwrap_or_else(|| "-".to_owned()),
            self.what.clone(),
        ]
    }
}
