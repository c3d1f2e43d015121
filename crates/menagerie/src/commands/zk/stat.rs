//! `menagerie zk stat PATH`

use clap::Args;
use menagerie_kernel::{CallError, session};
use serde::Serialize;

use super::path::{self};
use crate::client::{self, Client, ClientArgs};
use crate::clock;
use crate::exit::{CliError, cannot};
use crate::output::{OutputArgs, Show, Table};

/// Show the metadata of a znode: versions, times, zxids, owner.
#[derive(Debug, Args)]
pub struct Stat {
    /// Path of the znode.
    #[arg(value_parser = path::parse)]
    path: String,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
struct Facts {
    path: String,
    stat: session::Stat,
}

impl Stat {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        client::run(client, async |client| self.output.print(async || self.read_stat(client).await).await)
    }

    async fn read_stat(&self, client: &Client) -> Result<Facts, CliError> {
        let found = client.term().stat(&self.path).await;
        let found = found.and_then(|stat| stat.ok_or_else(|| CallError::NoZnode { path: self.path.clone() }));
        Ok(Facts { path: self.path.clone(), stat: found.map_err(cannot(format!("look at {}", self.path)))? })
    }
}

impl Show for Facts {
    fn show(&self) -> String {
        let session::Stat {
            czxid,
            mzxid,
            pzxid,
            ctime_ms,
            mtime_ms,
            version,
            cversion,
            aversion,
            ephemeral_owner,
            data_length,
            children,
        } = self.stat;
        let owner = match ephemeral_owner {
            0 => "-".to_owned(),
            session => format!("session {session:#x}"),
        };
        let mut table = Table::default();
        for (fact, value) in [
            ("path", self.path.clone()),
            ("created", format!("{}  zxid {czxid:#x}", clock::utc(ctime_ms))),
            ("changed", format!("{}  zxid {mzxid:#x}", clock::utc(mtime_ms))),
            ("children changed", format!("zxid {pzxid:#x}")),
            ("version", version.to_string()),
            ("children version", cversion.to_string()),
            ("access version", aversion.to_string()),
            ("bytes", data_length.to_string()),
            ("children", children.to_string()),
            ("ephemeral owner", owner),
        ] {
            table.row([fact.to_owned(), value]);
        }
        table.text()
    }
}
