//! `menagerie zk acl get|set PATH`

use clap::{Args, Subcommand};
use menagerie_kernel::session::Access;
use serde::Serialize;

use super::path::{self};
use crate::client::{self, Client, ClientArgs};
use crate::exit::{CliError, cannot};
use crate::output::{OutputArgs, Show, Table};

/// Show or replace the access list of a znode.
#[derive(Debug, Args)]
pub struct Acl {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show who may do what with a znode.
    Get(Get),
    /// Replace the access list of a znode.
    Set(Set),
}

#[derive(Debug, Args)]
struct Get {
    /// Path of the znode.
    #[arg(value_parser = path::parse)]
    path: String,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct Set {
    /// Path of the znode.
    #[arg(value_parser = path::parse)]
    path: String,
    /// Entries SCHEME:ID:PERMISSIONS; permissions are letters of cdrwa (create, delete, read, write, administer):
    /// world:anyone:r, digest:USER:HASH:cdrwa, auth::cdrwa for the identity of this session.
    #[arg(required = true, value_name = "SCHEME:ID:PERMISSIONS")]
    access: Vec<Access>,
    /// Only if the list still has this version.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    version: Option<i32>,
}

#[derive(Debug, Serialize)]
struct List {
    path: String,
    version: i32,
    access: Vec<Line>,
}

#[derive(Debug, Serialize)]
struct Line {
    scheme: String,
    id: String,
    permissions: String,
}

impl Acl {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        match self.verb {
            Verb::Get(get) => get.run(client),
            Verb::Set(set) => set.run(client),
        }
    }
}

impl Get {
    fn run(self, client: ClientArgs) -> Result<(), CliError> {
        client::run(client, async |client| self.output.print(async || self.read_list(client).await).await)
    }

    async fn read_list(&self, client: &Client) -> Result<List, CliError> {
        let found = client.term().access(&self.path).await;
        let (access, stat) = found.map_err(cannot(format!("read the access list of {}", self.path)))?;
        let line = |Access { scheme, id, permissions }| Line { scheme, id, permissions };
        let access = access.into_iter().map(line).collect();
        Ok(List { path: self.path.clone(), version: stat.aversion, access })
    }
}

impl Set {
    fn run(self, client: ClientArgs) -> Result<(), CliError> {
        client::run(client, async |client| {
            let set = client.term().set_access(&self.path, &self.access, self.version).await;
            set.map(drop).map_err(cannot(format!("write the access list of {}", self.path)))
        })
    }
}

impl Show for List {
    fn show(&self) -> String {
        let mut table = Table::new(["SCHEME", "ID", "PERMISSIONS"]);
        for Line { scheme, id, permissions } in &self.access {
            table.row([scheme.clone(), id.clone(), permissions.clone()]);
        }
        table.text()
    }
}
