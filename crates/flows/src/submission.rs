//! What a submitter does with a job before the coordinator sees it: checks its files, makes its output folders its own, and
//! gives them back if it is not submitted. The files are those of this process: of its machine, and of its user.
//!
//! # Promises
//! - A job that is refused leaves nothing behind: no znode, no folder.
//! - Submitted twice under one id, it is one job, whatever became of the first answer.

use std::borrow::Cow;
use std::fs::File;
use std::path::{Component, Path, PathBuf};

use menagerie_kernel::Term;
use menagerie_types::{Explain, Name, exit_code};
use serde_json::Value;
use thiserror::Error;

use crate::client::{Jobs, new_id};
use crate::core::JobId;
use crate::files::output::Unusable;
use crate::files::{input, output};
use crate::job::{Function, Job, Problem, read};
use crate::{FlowError, layout};

/// Longest id that a submitter may choose: it is a part of names of topics and files.
const ID_BYTES_MAX: usize = 64;

/// Why a job was not submitted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "fields of errors name themselves")]
pub enum SubmissionError {
    /// The job is wrong, or its files are.
    #[error("{0}")]
    Invalid(Problem),
    /// An output folder is another job's.
    #[error("{}", .0.why)]
    Unusable(Unusable),
    /// The chosen id is none.
    #[error("{id:?} cannot be the id of a job")]
    Id { id: String },
    /// The chosen id is another job's.
    #[error("there is another job with the id {id}")]
    Taken { id: JobId },
    /// It could not be written down.
    #[error(transparent)]
    Flow(#[from] FlowError),
}

impl Explain for SubmissionError {
    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Invalid(problem) => problem.help.clone().into(),
            Self::Unusable(unusable) => unusable.help.into(),
            Self::Id { .. } => {
                format!("use letters, digits, - and _, {ID_BYTES_MAX} at most; or leave it out").into()
            }
            Self::Taken { id } => {
                format!("choose another id, or leave it out; `menagerie flow show {id}` shows that job")
                    .into()
            }
            Self::Flow(error) => error.help(),
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Invalid(_) | Self::Unusable(_) | Self::Id { .. } => exit_code::USAGE,
            Self::Taken { .. } => exit_code::FAILED,
            Self::Flow(error) => error.exit_code(),
        }
    }
}

/// How a submission ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submitted {
    /// The job is new.
    Now(JobId),
    /// The same job was submitted under this id before.
    Before(JobId),
}

/// Submits a job that came as data, under an id of the submitter's choice or a new one. There is no folder at which relative
/// paths in it could begin, so they are refused.
pub async fn submit_value(
    jobs: &Jobs,
    id: Option<&str>,
    value: &Value,
) -> Result<Submitted, SubmissionError> {
    let id = id.map_or_else(|| Ok(new_id()), chosen_id)?;
    let job = read::job(value, Path::new("")).map_err(SubmissionError::Invalid)?;
    require_absolute(&job).map_err(SubmissionError::Invalid)?;
    if is_submitted(jobs, &id, &job).await? {
        return Ok(Submitted::Before(id));
    }
    let outcome = check_and_submit(jobs, &id, &job).await;
    match outcome {
        Ok(()) => Ok(Submitted::Now(id)),
        // The same request, sent twice at once: the other one has the folder.
        Err(_) if is_submitted(jobs, &id, &job).await? => Ok(Submitted::Before(id)),
        Err(error) => Err(error),
    }
}

async fn check_and_submit(jobs: &Jobs, id: &JobId, job: &Job) -> Result<(), SubmissionError> {
    let (checked, own) = (job.clone(), id.clone());
    blocking(move || check(&checked, Some(&own))).await.map_err(SubmissionError::Invalid)?;
    submit(jobs, id, job).await
}

/// Claims the output folders, and submits a checked job under this id.
pub async fn submit(jobs: &Jobs, id: &JobId, job: &Job) -> Result<(), SubmissionError> {
    let (claimed, own) = (job.clone(), id.clone());
    let mut claim = blocking(move || Claim::take(claimed, own)).await.map_err(SubmissionError::Unusable)?;
    jobs.submit(id, job).await?;
    claim.is_kept = true;
    Ok(())
}

/// An id that a submitter has chosen. No colon: topics of `a` would be those of `a:1-2`, too.
fn chosen_id(text: &str) -> Result<JobId, SubmissionError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let id = Some(text).filter(|text| text.len() <= ID_BYTES_MAX && text.chars().all(is_plain));
    id.and_then(|text| Name::new(text).ok()).ok_or_else(|| SubmissionError::Id { id: text.to_owned() })
}

fn require_absolute(job: &Job) -> Result<(), Problem> {
    for (index, entry) in job.catalog.iter().enumerate() {
        let path = match &entry.function {
            Function::JsonlInput { path } | Function::JsonlOutput { path } => path,
            Function::Identity | Function::Group { .. } | Function::Count => continue,
        };
        if !path.is_absolute() {
            let why =
                format!("the path {} is relative, and there is no folder where it begins", path.display());
            return Err(Problem::at(
                format!("catalog[{index}].path"),
                why,
                "write the whole path, from / on",
            ));
        }
    }
    Ok(())
}

/// Whether this job was submitted under this id.
async fn is_submitted(jobs: &Jobs, id: &JobId, job: &Job) -> Result<bool, SubmissionError> {
    let plan = jobs.deployment.plan(id);
    let read = async |term: Term| {
        layout::ensure(&term, &jobs.deployment).await?;
        Ok::<_, FlowError>(term.patient().read(&plan).await?)
    };
    match jobs.session.across_terms(read).await? {
        None => Ok(false),
        Some(plan) if plan.value.job == job.to_value() => Ok(true),
        Some(_) => Err(SubmissionError::Taken { id: id.clone() }),
    }
}

/// Whether inputs have files, and outputs a folder of their own. A folder that the job `id` has claimed is its own.
pub fn check(job: &Job, id: Option<&JobId>) -> Result<(), Problem> {
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
                if id.is_some_and(|id| output::is_claimed(path, id.as_str())) {
                    continue;
                }
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
        Function::JsonlInput { .. } | Function::Identity | Function::Group { .. } | Function::Count => None,
    })
}

/// Gives the output folders back, of a job that will not finish.
pub fn discard(job: &Job, id: &JobId) {
    outputs(job).for_each(|folder| output::discard(folder, id.as_str()));
}

/// Makes the output folders the job's own: of two jobs that want one, the second is refused.
fn claim(job: &Job, id: &JobId) -> Result<(), Unusable> {
    let mut claimed: Vec<&Path> = Vec::new();
    for folder in outputs(job) {
        if let Err(unusable) = output::claim(folder, id.as_str()) {
            claimed.into_iter().for_each(|folder| output::discard(folder, id.as_str()));
            return Err(unusable);
        }
        claimed.push(folder);
    }
    Ok(())
}

/// Claimed output folders. Dropped before the job is submitted, they are given back. If the submission had happened all the
/// same, unnoticed, the job fails, because its folder is not its own any more.
struct Claim {
    job: Job,
    id: JobId,
    is_kept: bool,
}

impl Claim {
    fn take(job: Job, id: JobId) -> Result<Self, Unusable> {
        // Then another request for the same job has claimed them, and may have submitted it already.
        let is_kept = outputs(&job).all(|folder| output::is_claimed(folder, id.as_str()));
        claim(&job, &id)?;
        Ok(Self { job, id, is_kept })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.is_kept {
            discard(&self.job, &self.id);
        }
    }
}

/// Works with files, which may be slow, beside the loops of this process.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only the end of the runtime cancels it.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(input: &str, output: &str) -> Job {
        let end =
            |name: &str, path: &str| json!({"name": name, "type": name, "plugin": "jsonl", "path": path});
        let value = json!({
            "name": "copy",
            "workflow": [["input", "output"]],
            "catalog": [end("input", input), end("output", output)],
        });
        read::job(&value, Path::new("")).unwrap()
    }

    #[test]
    fn relative_paths_are_refused_by_their_key() {
        require_absolute(&job("/in", "/out")).unwrap();
        assert_eq!(require_absolute(&job("in", "/out")).unwrap_err().key, "catalog[0].path");
        assert_eq!(require_absolute(&job("/in", "./out")).unwrap_err().key, "catalog[1].path");
    }

    #[test]
    fn ids_are_plain_and_short() {
        chosen_id("Nightly-2024_01").unwrap();
        for wrong in ["", "a:1-2", "a/b", "..", "é", "a b", &"x".repeat(65)] {
            assert!(chosen_id(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_folder_is_claimed_once_and_again_by_the_same_job() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("in"), "{}\n").unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let job = job(&at("in"), &at("out"));
        let (mine, other) = (Name::new("j1").unwrap(), Name::new("j2").unwrap());
        check(&job, None).unwrap();
        let first = Claim::take(job.clone(), mine.clone()).unwrap();
        check(&job, Some(&mine)).unwrap();
        drop(Claim::take(job.clone(), mine).unwrap());
        assert!(check(&job, Some(&other)).unwrap_err().why.contains("in use by job j1"));
        assert!(Claim::take(job.clone(), other.clone()).is_err());
        drop(first);
        Claim::take(job, other).unwrap();
    }
}
