//! Data from the command line, stdin, or a file.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;

use clap::Args;

use crate::exit::CliError;

/// No server accepts this much; an endless pipe must not fill our memory.
const MAX: u64 = 64 * 1024 * 1024;

/// Servers refuse more by default, and all they do is hang up.
const USUAL_MAX: usize = 1_000_000;

/// What to write.
#[derive(Debug, Args)]
pub struct PayloadArgs {
    /// Data to write; `-` reads it from stdin.
    #[arg(allow_hyphen_values = true, conflicts_with = "file")]
    data: Option<String>,
    /// Read the data from this file.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl PayloadArgs {
    pub fn read(self) -> Result<Option<Vec<u8>>, CliError> {
        let data = match (self.data, self.file) {
            (None, None) => return Ok(None),
            (_, Some(path)) => {
                let doing = format!("read {}", path.display());
                let file = File::open(&path).map_err(CliError::io(doing.clone()))?;
                read_all(file).map_err(CliError::io(doing))?
            }
            (Some(data), None) if data == "-" => read_all(io::stdin()).map_err(CliError::io("read stdin"))?,
            (Some(data), None) => data.into_bytes(),
        };
        if data.len() as u64 > MAX {
            return Err(CliError::Usage {
                what: format!("there are more than {MAX} bytes of data"),
                help: "ZooKeeper stores small values: at most 1 MB, unless its operator has raised the limit"
                    .to_owned(),
            });
        }
        if data.len() > USUAL_MAX {
            eprintln!("{} bytes are more than most servers accept: they close the connection", data.len());
        }
        Ok(Some(data))
    }
}

fn read_all(source: impl io::Read) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    source.take(MAX + 1).read_to_end(&mut data)?;
    Ok(data)
}
