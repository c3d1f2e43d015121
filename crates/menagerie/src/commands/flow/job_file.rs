//! A job from a file: read, checked, with absolute paths.

use std::path::Path;

use menagerie_flows::job::{Document, Job, Problem, read};
use menagerie_flows::submission;

use crate::exit::CliError;

/// Reads a job and checks it, its input files, and its output folders.
pub fn load(file: &Path) -> Result<Job, CliError> {
    let text = std::fs::read_to_string(file).map_err(|error| CliError::Usage {
        what: format!("cannot read {}: {error}", file.display()),
        help: "name a job file, TOML or JSON; docs/flows.md has an example".to_owned(),
    })?;
    let document = Document::parse(&text).map_err(|unreadable| CliError::Usage {
        what: format!("{}:{}: {}", file.display(), unreadable.line, unreadable.why),
        help: "a job is TOML, or JSON if it begins with {".to_owned(),
    })?;
    let refuse = |problem: Problem| CliError::Usage {
        what: format!("{}{}{}", file.display(), document.place(&problem.key), problem.why),
        help: problem.help,
    };
    let absolute = std::path::absolute(file).map_err(CliError::io("find the job file's folder"))?;
    let folder = absolute.parent().unwrap_or(Path::new("/"));
    let job = read::job(&document.value, folder).map_err(refuse)?;
    submission::check(&job, None).map_err(refuse)?;
    Ok(job)
}
