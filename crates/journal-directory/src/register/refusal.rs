//! Why a journal must not serve.

use std::borrow::Cow;
use std::path::PathBuf;

use menagerie_types::{Explain, exit_code};
use menagerie_znodes::journals::Server;
use thiserror::Error;

/// Another journal prevents this one from serving.
#[derive(Debug, Clone, Error)]
pub enum Refusal {
    /// It has the same name, and other data.
    #[error("journal {:?} runs already, on {} of {}, with other data", .0.name, .0.address, .0.host)]
    Taken(Server),
    /// It has served a copy of the same folder.
    #[error(
        "folder {folder} was served on {} of {} and on {} of {}: one is a copy of the other, nobody can tell which of them \
         has all messages, and so neither serves",
        servers[0].address, servers[0].host, servers[1].address, servers[1].host
    )]
    Copied {
        /// Id of the folder and its copy.
        folder: String,
        /// The two servers.
        servers: Box<[Server; 2]>,
        /// Our data folder.
        data: PathBuf,
    },
}

impl Refusal {
    /// Two servers have served copies of one folder.
    pub(super) fn copied(folder: &str, one: Server, other: Server, data: PathBuf) -> Self {
        Self::Copied { folder: folder.to_owned(), servers: Box::new([one, other]), data }
    }
}

impl Explain for Refusal {
    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Taken(_) => "give this one a name of its own with --name, or stop the other one".into(),
            Self::Copied { data, .. } => format!(
                "stop both and decide which one is to go on; there, run `menagerie journal renew --data {}` and start it \
                 again: queues go on with it. Remove the other one, or renew it and give it another --name",
                data.display()
            )
            .into(),
        }
    }

    fn exit_code(&self) -> u8 {
        exit_code::FAILED
    }
}
