//! Data folders.

use std::path::PathBuf;

use clap::Args;

use crate::exit::CliError;

/// Default data folder for root.
const SYSTEM_ROOT: &str = "/var/lib/menagerie";

/// The root of all data of this machine; each role has a folder below it.
#[derive(Debug, Clone, Args)]
pub struct DataArgs {
    /// Data folder, shared by all roles [default: /var/lib/menagerie for root, else ~/.local/share/menagerie].
    #[arg(long, value_name = "DIR", env = "MENAGERIE_DATA")]
    pub data: Option<PathBuf>,
}

impl DataArgs {
    /// The folder given, or the default.
    pub fn root(&self) -> Result<PathBuf, CliError> {
        if let Some(data) = &self.data {
            return Ok(data.clone());
        }
        if rustix::process::geteuid().is_root() {
            return Ok(PathBuf::from(SYSTEM_ROOT));
        }
        std::env::home_dir().map(|home| home.join(".local/share/menagerie")).ok_or_else(|| CliError::Usage {
            what: "there is no home folder to keep data in".to_owned(),
            help: "name a folder with --data".to_owned(),
        })
    }

    /// Where clients on this machine search: our own data folder, then the system's.
    pub fn searched(&self) -> Vec<PathBuf> {
        let mut roots: Vec<PathBuf> = self.root().into_iter().chain([PathBuf::from(SYSTEM_ROOT)]).collect();
        roots.dedup();
        roots
    }

    pub fn journal(&self) -> Result<PathBuf, CliError> {
        Ok(self.root()?.join("journal"))
    }

    pub fn keeper(&self) -> Result<PathBuf, CliError> {
        Ok(self.root()?.join("keeper"))
    }
}
