//! `menagerie completions SHELL`: shell completion scripts.

use clap::{Args, CommandFactory as _};

use crate::cli::Cli;
use crate::exit::CliError;
use crate::output;

/// Print shell completions, e.g. `menagerie completions bash > /etc/bash_completion.d/menagerie`.
#[derive(Debug, Args)]
pub struct Completions {
    /// Shell to complete for.
    shell: clap_complete::Shell,
}

impl Completions {
    pub fn run(self) -> Result<(), CliError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "menagerie", &mut script);
        output::write_bytes(&script)
    }
}
