//! `menagerie zk import FILE`

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use menagerie_kernel::transfer::{self, Imported, Options, Progress};
use tempfile::NamedTempFile;

use crate::client::{self, ClientArgs};
use crate::exit::{CliError, cannot};
use crate::output;
use crate::progress::Meter;

/// Import an export into the namespace. After a crash, run it again with the same file to continue. No engine can use
/// the namespace until the import is done; fences then start a new generation.
#[derive(Debug, Args)]
pub struct Import {
    /// File that `menagerie zk export` wrote; `-` is stdin.
    file: PathBuf,
    /// Delete the contents of the namespace first.
    #[arg(long)]
    replace: bool,
    /// Continue the sequence numbers of all znodes, even where only ephemerals are numbered. Costs one write per child
    /// that a znode ever had.
    #[arg(long)]
    all_counters: bool,
}

impl Import {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        // The file is read twice, the first time to verify that it is complete.
        let spooled = if self.file == Path::new("-") { Some(spool()?) } else { None };
        let file = spooled.as_ref().map_or(self.file.as_path(), NamedTempFile::path);
        let options = Options { replace: self.replace, all_counters: self.all_counters };
        client::run(client, async |client| {
            let (term, namespace) = (client.term(), client.namespace());
            if namespace == "/" {
                return Err(CliError::Usage {
                    what: "the root of the tree is not a namespace".to_owned(),
                    help: "name one with --namespace".to_owned(),
                });
            }
            let mut meter = Meter::new();
            let mut progress = |at: Progress| meter.show(at.step, at.done, at.total);
            let imported = transfer::import(&term, namespace, file, options, &mut progress).await;
            let imported = imported.map_err(cannot(format!("import {}", self.shown())))?;
            let Imported { znodes, generation, resumed } = imported;
            drop(meter);
            let how = if resumed { ", continuing an earlier attempt" } else { "" };
            let znodes = output::count(znodes, "znode");
            output::write(&format!("{namespace}: {znodes}, generation {generation}{how}\n"))
        })
    }
}

impl Import {
    fn shown(&self) -> String {
        if self.file == Path::new("-") { "stdin".to_owned() } else { self.file.display().to_string() }
    }
}

fn spool() -> Result<NamedTempFile, CliError> {
    let mut file = NamedTempFile::new().map_err(CliError::io("make a temporary file"))?;
    io::copy(&mut io::stdin().lock(), &mut file).map_err(CliError::io("read stdin"))?;
    Ok(file)
}
