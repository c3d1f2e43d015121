//! `menagerie zk`: a shell for any ensemble. Paths are full paths from its root.

mod acl;
mod body;
mod create;
mod export;
mod get;
mod import;
mod ls;
mod marks;
pub mod path;
mod payload;
mod rm;
mod set;
mod stat;
mod tree;
mod watch;

use clap::{Args, Subcommand};

use crate::client::ClientArgs;
use crate::exit::CliError;

/// Inspect and change any ZooKeeper ensemble. Paths are absolute from the ensemble's root, not from the namespace.
#[derive(Debug, Args)]
pub struct Zk {
    #[command(flatten)]
    client: ClientArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Ls(ls::Ls),
    Tree(tree::Tree),
    Get(get::Get),
    Set(set::Set),
    Create(create::Create),
    Rm(rm::Rm),
    Stat(stat::Stat),
    Watch(watch::Watch),
    Acl(acl::Acl),
    Export(export::Export),
    Import(import::Import),
}

impl Zk {
    pub fn run(self) -> Result<(), CliError> {
        let client = self.client;
        match self.verb {
            Verb::Ls(verb) => verb.run(client),
            Verb::Tree(verb) => verb.run(client),
            Verb::Get(verb) => verb.run(client),
            Verb::Set(verb) => verb.run(client),
            Verb::Create(verb) => verb.run(client),
            Verb::Rm(verb) => verb.run(client),
            Verb::Stat(verb) => verb.run(client),
            Verb::Watch(verb) => verb.run(client),
            Verb::Acl(verb) => verb.run(client),
            Verb::Export(verb) => verb.run(client),
            Verb::Import(verb) => verb.run(client),
        }
    }
}
