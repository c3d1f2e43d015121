//! `menagerie zk set PATH DATA`

use clap::Args;
use serde::Serialize;

use super::path::{self};
use super::payload::PayloadArgs;
use crate::client::{self, ClientArgs};
use crate::exit::{CliError, cannot};
use crate::output::{FormatArg, Show};

/// Write the data of a znode, and print its new version.
#[derive(Debug, Args)]
pub struct Set {
    /// Path of the znode.
    #[arg(value_parser = path::parse)]
    path: String,
    #[command(flatten)]
    payload: PayloadArgs,
    /// Only if the znode still has this version.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    version: Option<i32>,
    #[command(flatten)]
    format: FormatArg,
}

#[derive(Debug, Serialize)]
struct Written {
    path: String,
    version: i32,
}

impl Set {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        let Some(data) = self.payload.read()? else {
            return Err(CliError::Usage {
                what: "there is no data to write".to_owned(),
                help: "give it after the path, with --file, or as - to read stdin; '' empties the znode"
                    .to_owned(),
            });
        };
        let (path, version) = (self.path, self.version);
        client::run(client, async |client| {
            let stat =
                client.term().set(&path, &data, version).await.map_err(cannot(format!("write {}", path)))?;
            self.format.print(&Written { path, version: stat.version })
        })
    }
}

impl Show for Written {
    fn show(&self) -> String {
        format!("{}\n", self.version)
    }
}
