//! A job from a file: read, checked, with absolute paths.

use std::fs::File;
use std::path::{Component, Path, PathBuf};

use menagerie_flows::files::{input, output};
use menagerie_flows::job::{Document, Function, Job, Problem, read};

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
    check_files(&job).map_err(refuse)?;
    Ok(job)
}

/// Whether inputs have files, and outputs a folder of their own.
fn check_files(job: &Job) -> Result<(), Problem> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for (index, entry) in job.catalog.iter().enumerate() {
        let key = format!("catalog[{index}].path");
        match &entry.function {
            Function::JsonlInput { path } => {
                let refuse = |why| Problem::at(&key, why, "correct the path; `*` stands for any name");
                let files = input::matching(path).map_err(refuse)?;
                let unreadable = files.iter().find_map(|file| Some((file, File::open(file).err()?)));
                if let Some((file, error)) = unreadable {
                    let why = format!("cannot read {file}: {error}");
                    return Err(Problem::at(&key, why, "let this user read it"));
                }
            }
            Function::JsonlOutput { path } => {
                let real = real_path(path);
                if folders.contains(&real) {
                    let why = format!("two outputs write to {}", real.display());
                    return Err(Problem::at(key, why, "give each output a folder of its own"));
                }
                folders.push(real);
                output::check(path).map_err(|unusable| Problem::at(key, unusable.why, unusable.help))?;
            }
            Function::Identity | Function::Group { .. } | Function::Count => {}
        }
    }
    Ok(())
}

/// A path without links, `.` and `..`, as far as it exists: two spellings of one folder are the same.
fn real_path(path: &Path) -> PathBuf {
    let existing = path.ancestors().find_map(|ancestor| Some((ancestor, ancestor.canonicalize().ok()?)));
    let Some((ancestor, mut real)) = existing else { return path.to_owned() };
    for part in path.strip_prefix(ancestor).into_iter().flat_map(Path::components) {
        match part {
            Component::ParentDir => drop(real.pop()),
            Component::CurDir => {}
            Component::Normal(name) => real.push(name),
            Component::RootDir | Component::Prefix(_) => {}
        }
    }
    real
}

/// The output folders of a job.
pub fn outputs(job: &Job) -> impl Iterator<Item = &Path> {
    job.catalog.iter().filter_map(|entry| match &entry.function {
        Function::JsonlOutput { path } => Some(path.as_path()),
        _ => None,
    })
}

/// Gives the output folders back, of a job that will not finish.
pub fn discard(job: &Job, id: &str) {
    outputs(job).for_each(|folder| output::discard(folder, id));
}

/// Makes the output folders the job's own: of two jobs that want one, the second is refused.
pub fn claim(job: &Job, id: &str) -> Result<(), CliError> {
    let mut claimed: Vec<&Path> = Vec::new();
    for folder in outputs(job) {
        if let Err(unusable) = output::claim(folder, id) {
            claimed.into_iter().for_each(|folder| output::discard(folder, id));
            return Err(CliError::Usage { what: unusable.why, help: unusable.help.to_owned() });
        }
        claimed.push(folder);
    }
    Ok(())
}
