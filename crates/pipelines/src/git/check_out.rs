//! Work trees for jobs, which borrow the cache's objects instead of copying them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::cache::Repository;
use super::error::GitError;
use super::names::{InvalidName, Sha, is_ref_name};
use super::run::{Git, Scope};

/// Jobs must not talk to the remote by accident: what they get is the speculative state, and that is all here.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\
     \tlogallrefupdates = true\n[remote \"origin\"]\n\turl = file:///dev/null\n\
     \tfetch = +refs/heads/*:refs/remotes/origin/*\n[gc]\n\tauto = 0\n";

/// A branch of a job's work tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BranchTip {
    /// The branch, without `refs/heads/`.
    pub branch: String,
    /// The speculative commit to test.
    pub commit: Sha,
    /// Where the branch is at the remote: becomes `refs/remotes/origin/BRANCH`, so that jobs can see what changes.
    pub base: Sha,
}

impl Repository {
    /// Makes a work tree in `folder`, which must not exist yet: the given branches, and `head` checked out (one of the
    /// branches, or the hash of a commit). All commits must be in the cache, and the cache must outlive the work tree.
    /// Nothing is left behind on failure.
    pub async fn check_out(&self, folder: &Path, branches: &[BranchTip], head: &str) -> Result<(), GitError> {
        let doing = format!("check out {head} in {}", folder.display());
        for tip in branches {
            if !is_ref_name(&tip.branch) {
                return Err(InvalidName::new("branch name", &tip.branch).into());
            }
        }
        let folder = std::path::absolute(folder).map_err(GitError::io(&doing))?;
        let head_file = if branches.iter().any(|tip| tip.branch == head) {
            format!("ref: refs/heads/{head}\n")
        } else {
            let commit: Sha = head.parse().map_err(|_| InvalidName::new("branch of this work tree", head))?;
            format!("{commit}\n")
        };
        let objects = self.cache.join("objects");
        let (tree, tips) = (folder.clone(), branches.to_vec());
        fs::create_dir(&folder).map_err(GitError::io(&doing))?;
        let filled =
            match off_loop(move || write_git_folder(&tree.join(".git"), &objects, &tips, &head_file)).await {
                Ok(()) => self.fill(&folder, branches, &doing).await,
                Err(error) => Err(GitError::io(&doing)(error)),
            };
        if filled.is_err() {
            // The first error is the one to tell.
            let _ = off_loop(move || fs::remove_dir_all(folder)).await;
        }
        filled
    }

    async fn fill(&self, folder: &Path, branches: &[BranchTip], doing: &str) -> Result<(), GitError> {
        let checkout = Git::new(Scope::Local, folder, doing)
            .args(["--git-dir=.git", "--work-tree=.", "read-tree", "--reset", "-u", "HEAD"])
            .succeed();
        let commits: Vec<&Sha> = branches.iter().flat_map(|tip| [&tip.commit, &tip.base]).collect();
        let (missing, checked_out) = tokio::join!(self.missing(&commits), checkout);
        if let Some(sha) = missing?.into_iter().next() {
            return Err(GitError::Missing { sha });
        }
        checked_out.map(drop)
    }
}

/// Writes what `git init` and `git update-ref` would, without starting them: a few small files in a format that
/// every git reads. Folders that git makes itself when it needs them are left out, as each costs about a millisecond
/// on a slow disk.
fn write_git_folder(git: &Path, objects: &Path, branches: &[BranchTip], head_file: &str) -> io::Result<()> {
    for folder in ["objects/info", "refs"] {
        fs::create_dir_all(git.join(folder))?;
    }
    let mut refs = BTreeMap::new();
    for tip in branches {
        refs.insert(format!("refs/heads/{}", tip.branch), &tip.commit);
        refs.insert(format!("refs/remotes/origin/{}", tip.branch), &tip.base);
    }
    let mut packed = String::from("# pack-refs with: sorted \n");
    for (name, sha) in refs {
        let _ = writeln!(packed, "{sha} {name}");
    }
    let mut alternates = objects.as_os_str().as_encoded_bytes().to_vec();
    alternates.push(b'\n');
    fs::write(git.join("objects/info/alternates"), alternates)?;
    fs::write(git.join("packed-refs"), packed)?;
    fs::write(git.join("config"), CONFIG)?;
    fs::write(git.join("HEAD"), head_file)
}

/// Runs file operations where they cannot hold up other loops.
async fn off_loop(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|stopped| Err(io::Error::other(stopped)))
}
