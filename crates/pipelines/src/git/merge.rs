//! Speculative merges: pure functions of their arguments, so that each machine makes the same commit.

use menagerie_znodes::pipelines::Link;

use super::cache::Repository;
use super::error::GitError;
use super::names::{Change, Sha, validate};
use super::read::records;
use super::run::Git;

/// The author and committer of every merge and note.
pub const IDENTITY_NAME: &str = "Menagerie";
/// The author's and committer's address. Together with the name it is part of what a merge's hash depends on.
pub const IDENTITY_EMAIL: &str = "menagerie@localhost";
/// This many files of a conflict are named; the rest is counted.
const NAMED_FILES_MAX: usize = 10;

/// What came of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merge {
    /// The merge commit, which is in the cache now.
    Commit(Sha),
    /// Both sides changed the same lines; a person has to decide.
    Conflict {
        /// Which files clash, for the report.
        message: String,
    },
}

/// What `merge-tree` says.
enum MergedTree {
    Clean(String),
    Conflict(String),
}

impl Repository {
    /// Merges a patchset into a base, both of which must be in the cache. Makes a merge commit (first parent `base`)
    /// even where git would fast-forward or say that nothing is to do: the branch's history then names each change.
    /// The commit depends on the arguments alone; its dates are the later one of its parents'.
    pub async fn merge(&self, base: &Sha, change: &Change, patchset: &Sha) -> Result<Merge, GitError> {
        validate(change)?;
        let (date, tree) =
            tokio::try_join!(self.latest_date(base, patchset), self.merge_trees(base, patchset))?;
        let tree = match tree {
            MergedTree::Clean(tree) => tree,
            MergedTree::Conflict(message) => return Ok(Merge::Conflict { message }),
        };
        let trailers = format!("Menagerie-Change: {change}\nMenagerie-Patchset: {patchset}");
        let command = self
            .local(format!("commit the merge of {change}"))
            .args(["commit-tree", "-p", base.as_str(), "-p", patchset.as_str()])
            .args(["-m", &format!("Merge {change}"), "-m", &trailers, &tree]);
        let commit = as_menagerie(command, Some(date)).succeed().await?;
        parse_sha(&commit, "commit a merge").map(Merge::Commit)
    }

    /// Makes a chain of merges again that another machine has made, and returns its last commit (`base` if the chain
    /// is empty). Fetches the patchsets that are missing. What the cache has already is not made again.
    pub async fn replay(&self, base: &Sha, links: &[Link]) -> Result<Sha, GitError> {
        let commits: Vec<&Sha> = links.iter().map(|link| &link.commit).collect();
        let missing = self.missing(&commits).await?;
        // A commit that is there has its parents, so only what follows the last one that is there is to be made.
        let made_count =
            links.iter().rposition(|link| !missing.contains(&link.commit)).map_or(0, |index| index + 1);
        let (made, to_make) = links.split_at(made_count);
        let mut tip = made.last().map_or(base, |link| &link.commit);
        if !to_make.is_empty() {
            let needed: Vec<&Sha> =
                std::iter::once(tip).chain(to_make.iter().map(|link| &link.patchset)).collect();
            self.require(&needed).await?;
        }
        for link in to_make {
            let made = match self.merge(tip, &link.change, &link.patchset).await? {
                Merge::Commit(commit) if commit == link.commit => {
                    tip = &link.commit;
                    continue;
                }
                Merge::Commit(commit) => commit.to_string(),
                Merge::Conflict { message } => message,
            };
            let change = link.change.to_string();
            return Err(GitError::Differs { change, expected: link.commit.clone(), made });
        }
        Ok(tip.clone())
    }

    async fn merge_trees(&self, base: &Sha, patchset: &Sha) -> Result<MergedTree, GitError> {
        let doing = format!("merge {patchset} into {base}");
        let answer = self
            .local(&doing)
            .args(["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages"])
            .args([base.as_str(), patchset.as_str()])
            .answer()
            .await?;
        let mut parts = records(&answer.stdout).map(|part| String::from_utf8_lossy(part).into_owned());
        match (answer.status.code(), parts.next()) {
            (Some(0), Some(tree)) => Ok(MergedTree::Clean(tree)),
            (Some(1), Some(_)) => Ok(MergedTree::Conflict(describe_conflict(&parts.collect::<Vec<_>>()))),
            (code, _) => {
                if String::from_utf8_lossy(&answer.stderr).contains("unrelated histories") {
                    let message = "the proposal has no commit in common with its target branch".to_owned();
                    return Ok(MergedTree::Conflict(message));
                }
                Err(GitError::from_stderr(&doing, &answer.stderr, code))
            }
        }
    }

    /// The later one of two commits' committer dates, in seconds since 1970.
    async fn latest_date(&self, one: &Sha, other: &Sha) -> Result<u64, GitError> {
        let dates = self
            .local("read the dates of two commits")
            .args(["log", "--no-walk=unsorted", "--format=%ct", one.as_str(), other.as_str(), "--"])
            .succeed()
            .await?;
        // Dates before 1970 exist in imported histories; git cannot write them.
        Ok(String::from_utf8_lossy(&dates).lines().filter_map(|date| date.parse().ok()).max().unwrap_or(0))
    }
}

/// Lets a command commit under our name, at a given time (seconds since 1970) or now.
pub(super) fn as_menagerie(mut git: Git, date: Option<u64>) -> Git {
    for role in ["AUTHOR", "COMMITTER"] {
        git = git
            .env(&format!("GIT_{role}_NAME"), IDENTITY_NAME)
            .env(&format!("GIT_{role}_EMAIL"), IDENTITY_EMAIL);
        if let Some(date) = date {
            git = git.env(&format!("GIT_{role}_DATE"), format!("@{date} +0000"));
        }
    }
    git
}

/// The hash that a command printed.
pub(super) fn parse_sha(answer: &[u8], doing: &str) -> Result<Sha, GitError> {
    let text = String::from_utf8_lossy(answer);
    text.trim().parse().map_err(|_| GitError::Failed {
        doing: doing.to_owned(),
        why: "git printed no commit hash".to_owned(),
        exit: Some(0),
    })
}

fn describe_conflict(files: &[String]) -> String {
    let named = files.iter().take(NAMED_FILES_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match files.len().saturating_sub(NAMED_FILES_MAX) {
        0 => format!("merge conflict in {named}"),
        more => format!("merge conflict in {named} and {more} more"),
    }
}
