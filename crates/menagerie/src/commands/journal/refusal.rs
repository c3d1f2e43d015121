//! Why a journal must not serve.

use std::path::PathBuf;

use menagerie_znodes::journals::Server;

use crate::exit::CliError;

/// Another journal is in the way.
#[derive(Debug, Clone)]
pub enum Refusal {
    /// It has the name, and other data.
    Taken(Server),
    /// It has served a copy of the same folder.
    Copied {
        /// The id that both have.
        folder: String,
        /// Both.
        servers: Box<[Server; 2]>,
        /// Where our data is.
        data: PathBuf,
    },
}

impl Refusal {
    /// Two have served copies of one folder.
    pub fn copied(folder: &str, one: Server, other: Server, data: PathBuf) -> Self {
        Self::Copied { folder: folder.to_owned(), servers: Box::new([one, other]), data }
    }
}

impl From<Refusal> for CliError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Taken(Server { name, address, host, .. }) => Self::Refused {
                what: format!("journal {name:?} runs already, on {address} of {host}, with other data"),
                help: "give this one a name of its own with --name, or stop the other one".to_owned(),
            },
            Refusal::Copied { folder, servers, data } => {
                let [one, other] = servers.map(|server| format!("{} of {}", server.address, server.host));
                Self::Refused {
                    what: format!(
                        "folder {folder} was served on {one} and on {other}: one is a copy of the other, nobody can tell \
                         which of them has all messages, and so neither serves"
                    ),
                    help: format!(
                        "stop both and decide which one is to go on; there, run `menagerie journal renew --data {}` and start \
                         it again: queues go on with it. Remove the other one, or renew it and give it another --name",
                        data.display()
                    ),
                }
            }
        }
    }
}
