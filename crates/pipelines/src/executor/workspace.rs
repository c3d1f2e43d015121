//! The folder of a build: repositories at their speculative state, the program, and what it is told.
//!
//! `BUILDS/ID/work/src/HOST/PROJECT` are the repositories; `ID/trusted` and `ID/untrusted` have the repository with the
//! program, if that is to be taken from another state. `BUILDS/ID.lock` is locked while the build runs, so that the next
//! executor of this machine can tell what a dead one has left.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::thread;
use std::time::Duration;

use futures_util::future::try_join_all;
use menagerie_znodes::pipelines::{BranchState, BuildParams, Checkout, Id, Sha};
use rustix::fs::{FlockOperation, flock};
use tokio::task::spawn_blocking;
use tracing::{info, warn};

use super::build::{End, aborted};
use crate::git::{BranchTip, Repository};
use crate::repositories::{Repositories, RepositoryError, patiently};
use crate::settings::Folder;

/// The end of the names of lock files.
const LOCK_ENDING: &str = ".lock";
/// Processes that were told to end may still write for a moment; a folder that fills again is emptied this often.
const REMOVALS_MAX: u32 = 10;
/// The pause between two of these.
const REMOVAL_PAUSE: Duration = Duration::from_millis(50);

/// The folder of a build, which is ours as long as this lives.
#[derive(Debug)]
pub(super) struct Workspace {
    root: PathBuf,
    /// Held until it is dropped.
    _lock: File,
}

/// A program that can be started.
#[derive(Debug)]
pub(super) struct Prepared {
    /// Its file.
    pub(super) program: PathBuf,
    /// Where it runs: the repository of what is tested.
    pub(super) directory: PathBuf,
}

/// A work tree that a build needs.
struct Tree<'a> {
    checkout: &'a Checkout,
    folder: PathBuf,
    /// Whether the changes that are merged onto its branches are in it.
    has_changes: bool,
}

/// Makes the folders of an executor, and removes what dead executors of this machine have left in them.
pub(super) async fn prepare_folder(folder: &Folder) -> io::Result<()> {
    let (builds, logs) = (folder.builds(), folder.logs());
    let work = move || {
        make_folder(&logs)?;
        make_folder(&builds)?;
        sweep(&builds)
    };
    spawn_blocking(work).await.unwrap_or_else(|stopped| Err(io::Error::other(stopped)))
}

fn sweep(builds: &Path) -> io::Result<()> {
    for entry in builds.read_dir()?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let root = builds.join(name.strip_suffix(LOCK_ENDING).unwrap_or(&name));
        // Both the folder and its lock file come here; whichever is first removes both.
        let Ok(lock) = open_lock(&root) else { continue };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            info!(path = %root.display(), "removing what a build has left");
            remove(&root);
        }
    }
    Ok(())
}

impl Workspace {
    /// Makes the folder of a build. What an earlier attempt left in it is removed.
    pub(super) fn create(folder: &Folder, build: &Id) -> io::Result<Self> {
        make_folder(&folder.builds())?;
        make_folder(&folder.logs())?;
        let root = std::path::absolute(folder.builds().join(build.as_str()))?;
        let lock = loop {
            let lock = open_lock(&root)?;
            flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            // An executor that starts at this moment may have removed it as a leftover.
            if lock.metadata()?.nlink() > 0 {
                break lock;
            }
        };
        if root.exists() {
            remove_tree(&root)?;
        }
        let workspace = Self { root, _lock: lock };
        make_folder(&workspace.src())?;
        Ok(workspace)
    }

    /// What the program sees as its own.
    pub(super) fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    fn src(&self) -> PathBuf {
        self.work().join("src")
    }

    /// The file with the variables of the job.
    pub(super) fn vars_file(&self) -> PathBuf {
        self.root.join("vars.json")
    }

    pub(super) fn write_vars(&self, text: &str) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(self.vars_file())?.write_all(text.as_bytes())
    }

    /// Checks out all repositories, and finds the program.
    pub(super) async fn prepare(
        &self,
        repositories: &Repositories,
        params: &BuildParams,
        host: &str,
    ) -> Result<Prepared, End> {
        let job = &params.job;
        let run_from = params.run_from.as_ref().ok_or_else(|| {
            End::Error(format!(
                "the job {} runs {} of {}, which the tenant has lost",
                job.name, job.run, job.project
            ))
        })?;
        let mut trees = Vec::new();
        for checkout in &params.checkouts {
            trees.push(Tree::new(checkout, &self.src(), true)?);
        }
        let subject = params.subject.project();
        let directory = trees.iter().find(|tree| tree.checkout.source.project == subject);
        let directory = directory.map(|tree| tree.folder.clone()).ok_or_else(|| {
            End::Error(format!("the build of {subject} was requested without its repository"))
        })?;
        let run_folder = match trees.iter().find(|tree| !job.is_trusted && tree.checkout == run_from) {
            Some(tree) => tree.folder.clone(),
            None => {
                let name = if job.is_trusted { "trusted" } else { "untrusted" };
                let tree = Tree::new(run_from, &self.root.join(name), !job.is_trusted)?;
                let folder = tree.folder.clone();
                trees.push(tree);
                folder
            }
        };
        try_join_all(trees.iter().map(|tree| tree.check_out(repositories, params, host))).await?;
        let program = find_program(&run_folder, params, run_from)?;
        Ok(Prepared { program, directory })
    }

    /// Removes all of it.
    pub(super) async fn remove(self) {
        let work = move || remove(&self.root);
        // It fails only if the runtime ends; then the next executor does it.
        let _ = spawn_blocking(work).await;
    }
}

impl<'a> Tree<'a> {
    fn new(checkout: &'a Checkout, parent: &Path, has_changes: bool) -> Result<Self, End> {
        let place = Path::new(&checkout.host).join(&checkout.source.project);
        // They come from configuration, but nothing may lead out of the folder.
        if !place.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(End::Error(format!("{} is no place for a repository", place.display())));
        }
        Ok(Self { checkout, folder: parent.join(place), has_changes })
    }

    async fn check_out(
        &self,
        repositories: &Repositories,
        params: &BuildParams,
        host: &str,
    ) -> Result<(), End> {
        let parent = self.folder.parent().unwrap_or(&self.folder);
        make_folder(parent).map_err(aborted("make a folder"))?;
        let attempt = async || {
            let repository = repositories.open(&self.checkout.source, host).await?;
            let tips = self.tips(&repository, params).await?;
            Ok(repository.check_out(&self.folder, &tips, &self.checkout.branch).await?)
        };
        Ok(patiently(attempt).await?)
    }

    /// Makes sure that the cache has all commits, and returns the branches.
    async fn tips(
        &self,
        repository: &Repository,
        params: &BuildParams,
    ) -> Result<Vec<BranchTip>, RepositoryError> {
        let Checkout { source, branch: head, .. } = self.checkout;
        let none = Default::default();
        let branches = params.state.0.get(&source.project).unwrap_or(&none);
        let commit: Option<Sha> = head.parse().ok();
        if commit.is_none() && !branches.contains_key(head) {
            return Err(RepositoryError::Unfit {
                what: format!("the state of the branch {head} of {} is not known", source.project),
                help: "Enqueue the change again; if that does not help, tell whoever runs the scheduler.",
            });
        }
        let is_plain = |state: &&BranchState| !self.has_changes || state.links.is_empty();
        let bases = branches.values().filter(is_plain).map(|state| &state.base);
        // Those below changes come with them.
        repository.require(&bases.chain(&commit).collect::<Vec<_>>()).await?;
        let mut tips = Vec::with_capacity(branches.len());
        for (branch, state) in branches {
            let links = if self.has_changes { state.links.as_slice() } else { &[] };
            let commit = repository.replay(&state.base, links).await?;
            tips.push(BranchTip { branch: branch.clone(), commit, base: state.base.clone() });
        }
        Ok(tips)
    }
}

/// The file to run, which must be an executable within its repository.
fn find_program(folder: &Path, params: &BuildParams, run_from: &Checkout) -> Result<PathBuf, End> {
    let (run, project, branch) = (&params.job.run, &run_from.source.project, &run_from.branch);
    let missing = || End::Error(format!("{project} has no file {run} on {branch}"));
    let folder = folder.canonicalize().map_err(aborted("use the work tree"))?;
    // Repositories may have symbolic links to anywhere.
    let program = folder.join(run).canonicalize().map_err(|_| missing())?;
    if !program.starts_with(&folder) {
        return Err(End::Error(format!("{run} of {project} leads out of the repository")));
    }
    let metadata = program.metadata().map_err(|_| missing())?;
    if !metadata.is_file() {
        return Err(missing());
    }
    if metadata.permissions().mode() & 0o111 == 0 {
        return Err(End::Error(format!(
            "{run} of {project} on {branch} is not executable. Try: git update-index --chmod=+x {run}"
        )));
    }
    Ok(program)
}

/// The lock file of a build's folder.
fn lock_path(root: &Path) -> PathBuf {
    let mut path = root.as_os_str().to_owned();
    path.push(LOCK_ENDING);
    path.into()
}

fn open_lock(root: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(lock_path(root))
}

/// Makes a folder that nobody else may enter.
fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Removes a build's folder, and then its lock file, which must be locked by the caller.
fn remove(root: &Path) {
    match remove_tree(root) {
        Ok(()) => drop(fs::remove_file(lock_path(root))),
        Err(error) => {
            warn!(path = %root.display(), %error, "cannot remove what a build has left; the next start tries again");
        }
    }
}

/// Removes a folder with all in it, even if programs have made parts of it read-only. Blocks.
fn remove_tree(root: &Path) -> io::Result<()> {
    for _ in 1..REMOVALS_MAX {
        match fs::remove_dir_all(root) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => make_writable(root)?,
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => thread::sleep(REMOVAL_PAUSE),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            removed => return removed,
        }
    }
    fs::remove_dir_all(root)
}

fn make_writable(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    for entry in folder.read_dir()? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_writable(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, Folder) {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder(temp.path().to_owned());
        (temp, folder)
    }

    #[tokio::test]
    async fn what_dead_executors_left_is_removed_and_what_runs_is_not() {
        let (_temp, folder) = folder();
        let [dead, alive] = ["dead", "alive"].map(|name| Id::new(name).unwrap());
        let workspace = Workspace::create(&folder, &alive).unwrap();
        fs::create_dir_all(folder.builds().join("dead/work/src/deep")).unwrap();
        let read_only = fs::Permissions::from_mode(0o500);
        fs::set_permissions(folder.builds().join("dead/work/src"), read_only).unwrap();
        prepare_folder(&folder).await.unwrap();
        let names = || {
            let mut names: Vec<String> = folder
                .builds()
                .read_dir()
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(), ["alive", "alive.lock"]);
        let again = Workspace::create(&folder, &dead).unwrap();
        assert_eq!(fs::metadata(again.work()).unwrap().permissions().mode() & 0o777, 0o700);
        workspace.remove().await;
        again.remove().await;
        assert_eq!(names(), [""; 0]);
    }
}
