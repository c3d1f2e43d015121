//! `menagerie keeper restore FILE`: a new data folder from a backup.

use std::path::PathBuf;
use std::time::SystemTime;

use clap::Args;
use menagerie_keeper::store;
use menagerie_kernel::session::now_ms;
use menagerie_kernel::transfer;

use crate::commands::data::DataArgs;
use crate::exit::CliError;

/// Restore a backup into a folder that holds no keeper data, while no keeper runs there. Ends the backup's sessions,
/// starts a new zxid epoch, and raises the generation of each namespace.
#[derive(Debug, Args)]
pub struct Restore {
    /// Backup file to read.
    file: PathBuf,
    #[command(flatten)]
    data: DataArgs,
}

impl Restore {
    pub fn run(self) -> Result<(), CliError> {
        let folder = self.data.keeper()?;
        let now_ms = now_ms();
        let revise = |path: &str, data: &[u8]| transfer::revise(path, data, now_ms);
        let restored = store::restore(&self.file, &folder, SystemTime::now(), &revise).map_err(CliError::data(
            format!("restore {}", self.file.display()),
            "name a whole file that `menagerie keeper backup` wrote, and a --data folder without keeper data",
        ))?;
        println!("{}: {} znodes, zxid {:#x}", folder.display(), restored.znodes, restored.zxid);
        for path in restored.revised {
            println!("{path}: raised, so that fences keep rising");
        }
        Ok(())
    }
}
