//! `menagerie zk ls PATH`

use clap::Args;
use menagerie_kernel::session::Stat;
use menagerie_kernel::subtree::{self, SeenZnode};
use serde::Serialize;

use super::marks::Marks;
use super::path::{self};
use crate::client::{self, Client, ClientArgs};
use crate::exit::{CliError, cannot};
use crate::output::{OutputArgs, Show, Table};
use crate::{clock, durations};

/// List the children of a znode with their size, version, age and kind.
#[derive(Debug, Args)]
pub struct Ls {
    /// Znode whose children to list.
    #[arg(value_parser = path::parse, default_value = "/")]
    path: String,
    /// List the whole subtree, not only the children.
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Print only the names.
    #[arg(short, long)]
    names: bool,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
struct Listing {
    path: String,
    children: Vec<Child>,
    #[serde(skip)]
    names: bool,
}

#[derive(Debug, Serialize)]
struct Child {
    name: String,
    path: String,
    kind: Marks,
    stat: Stat,
}

impl Ls {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        client::run(client, async |client| self.output.print(async || self.list_children(client).await).await)
    }

    async fn list_children(&self, client: &Client) -> Result<Listing, CliError> {
        let depth = if self.recursive { usize::MAX } else { 1 };
        let levels = subtree::levels(&client.term(), &self.path, depth).await;
        let levels = levels.map_err(cannot(format!("list {}", self.path)))?;
        let mut children: Vec<Child> =
            levels.into_iter().skip(1).flatten().map(|seen| self.child(seen)).collect();
        children.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Listing { path: self.path.clone(), children, names: self.names })
    }

    fn child(&self, SeenZnode { path, stat }: SeenZnode) -> Child {
        let name = path.strip_prefix(&self.path).unwrap_or(&path).trim_start_matches('/').to_owned();
        Child { name, kind: Marks::of(&path, &stat), path, stat }
    }
}

impl Show for Listing {
    fn show(&self) -> String {
        if self.names {
            return self.children.iter().map(|child| format!("{}\n", child.name)).collect();
        }
        let mut table = Table::new(["NAME", "CHILDREN", "BYTES", "VERSION", "CHANGED", "KIND"]);
        for Child { name, kind, stat, .. } in &self.children {
            table.row([
                name.clone(),
                stat.children.to_string(),
                stat.data_length.to_string(),
                stat.version.to_string(),
                changed(stat),
                kind.words().to_owned(),
            ]);
        }
        table.text()
    }
}

/// The server's own znodes have no timestamps.
fn changed(stat: &Stat) -> String {
    match stat.mtime_ms {
        0 => "-".to_owned(),
        time => format!("{} ago", durations::age(clock::since(time))),
    }
}
