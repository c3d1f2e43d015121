//! Pushes tested merges. What the remote holds afterwards decides, not what git printed: replies get lost, and
//! somebody else may have pushed the same merge.

use std::time::Duration;

use super::cache::Repository;
use super::error::{GitError, without_secrets};
use super::names::{Change, Sha, validate};
use super::run::Answer;

/// A push that met another one in the middle is tried again, this often in all.
const ATTEMPTS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(40);
/// At most this many characters of the remote's words are reported.
const WHY_MAX: usize = 2_000;

/// How a merge stands at the remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Push {
    /// The target contains the tested commit.
    Merged,
    /// Nothing has moved: the push can still be done.
    NotYet,
    /// The target is no longer where the merge was built on; it must be merged and tested again.
    TargetMoved {
        /// Where the target is now; `None` if it was deleted.
        tip: Option<Sha>,
    },
    /// The proposal has another patchset than the one that was tested.
    ProposalMoved {
        /// The proposal's head now; `None` if it was deleted.
        head: Option<Sha>,
    },
    /// A hook, or missing rights: only a person can help.
    Refused {
        /// The remote's words.
        why: String,
    },
}

/// The three refs that a merge moves, as the remote shows them.
struct Standing {
    target: Option<Sha>,
    proposal: Option<Sha>,
    merged: Option<Sha>,
}

impl Repository {
    /// Pushes a tested merge in one atomic step: moves the target from `parent` to `commit`, deletes the proposal's
    /// branch (which must still be at `patchset`), and records the merge. Repeating it is harmless. Never answers
    /// [`Push::NotYet`].
    pub async fn push_merge(
        &self,
        change: &Change,
        patchset: &Sha,
        parent: &Sha,
        commit: &Sha,
    ) -> Result<Push, GitError> {
        validate(change)?;
        // Usually no earlier proposal had this name, and asking first would cost a round trip.
        let mut record_before = None;
        let mut attempt = 1;
        loop {
            let doing = format!("push the merge of {change} to {}", self.shown_url());
            let answer =
                self.push_once(change, patchset, parent, commit, record_before.as_ref(), &doing).await?;
            if answer.status.success() {
                return Ok(Push::Merged);
            }
            let standing = self.standing(change).await?;
            let seen = standing.merged.clone();
            match self.judge(standing, patchset, parent, commit).await? {
                Push::NotYet if seen != record_before => record_before = seen,
                Push::NotYet if attempt < ATTEMPTS && met_another_push(&answer) => {
                    tokio::time::sleep(PAUSE * attempt).await;
                }
                Push::NotYet => return refusal(&answer, &doing),
                decided => return Ok(decided),
            }
            if attempt == ATTEMPTS {
                return refusal(&answer, &doing);
            }
            attempt += 1;
        }
    }

    /// How a merge stands at the remote, for whoever cannot know whether it was pushed.
    pub async fn look_up_merge(
        &self,
        change: &Change,
        patchset: &Sha,
        parent: &Sha,
        commit: &Sha,
    ) -> Result<Push, GitError> {
        validate(change)?;
        let standing = self.standing(change).await?;
        self.judge(standing, patchset, parent, commit).await
    }

    async fn push_once(
        &self,
        change: &Change,
        patchset: &Sha,
        parent: &Sha,
        commit: &Sha,
        record_before: Option<&Sha>,
        doing: &str,
    ) -> Result<Answer, GitError> {
        let (target, proposal, merged) = (change.target_ref(), change.proposal_ref(), change.merged_ref());
        let record_before = record_before.map_or("", Sha::as_str);
        self.remote(doing)
            .args(PUSH)
            .arg("--atomic")
            .arg(format!("--force-with-lease={target}:{parent}"))
            .arg(format!("--force-with-lease={proposal}:{patchset}"))
            .arg(format!("--force-with-lease={merged}:{record_before}"))
            .args(["--", &self.url])
            .args([format!("{commit}:{target}"), format!(":{proposal}"), format!("{commit}:{merged}")])
            .answer()
            .await
    }

    async fn standing(&self, change: &Change) -> Result<Standing, GitError> {
        let (target, proposal, merged) = (change.target_ref(), change.proposal_ref(), change.merged_ref());
        let mut refs = self.list_remote(&[&target, &proposal, &merged]).await?;
        Ok(Standing {
            target: refs.remove(&target),
            proposal: refs.remove(&proposal),
            merged: refs.remove(&merged),
        })
    }

    async fn judge(
        &self,
        standing: Standing,
        patchset: &Sha,
        parent: &Sha,
        commit: &Sha,
    ) -> Result<Push, GitError> {
        // The record alone proves nothing: the target may have been forced back since.
        let is_recorded = standing.merged.as_ref() == Some(commit);
        let proposal_stands = standing.proposal.as_ref() == Some(patchset);
        match standing.target {
            // Without a record somebody pushed the target by hand; a push of ours would still tidy up the proposal.
            Some(tip) if tip == *commit => {
                Ok(if proposal_stands && !is_recorded { Push::NotYet } else { Push::Merged })
            }
            Some(tip) if tip == *parent && proposal_stands => Ok(Push::NotYet),
            // The record may belong to a later proposal of the same name: then the history tells.
            Some(tip) if tip != *parent && self.contains(&tip, commit).await? => Ok(Push::Merged),
            _ if !proposal_stands => Ok(Push::ProposalMoved { head: standing.proposal }),
            tip => Ok(Push::TargetMoved { tip }),
        }
    }

    /// Whether a commit is part of the history of a tip at the remote.
    async fn contains(&self, tip: &Sha, commit: &Sha) -> Result<bool, GitError> {
        match self.require(&[tip]).await {
            // It has moved on since we asked; whoever looks next sees where to.
            Err(GitError::Missing { .. }) => return Ok(false),
            required => required?,
        }
        if !self.missing(&[commit]).await?.is_empty() {
            return Ok(false);
        }
        let doing = "look for a merge in the history of its target";
        let answer = self
            .local(doing)
            .args(["merge-base", "--is-ancestor", commit.as_str(), tip.as_str()])
            .answer()
            .await?;
        match answer.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            exit => Err(GitError::from_stderr(doing, &answer.stderr, exit)),
        }
    }
}

/// A push that does what its arguments say and nothing that the user's configuration adds.
pub(super) const PUSH: [&str; 7] = [
    "-c",
    "push.followTags=false",
    "push",
    "--porcelain",
    "--no-verify",
    "--no-signed",
    "--recurse-submodules=no",
];

/// Whether a failed push only met another one: then the same push may succeed a moment later.
pub(super) fn met_another_push(answer: &Answer) -> bool {
    rejected(answer).iter().any(|reason| {
        [
            "stale info",
            "lock",
            "incorrect old value",
            "failed to update ref",
            "fetch first",
            "non-fast-forward",
        ]
        .iter()
        .any(|phrase| reason.contains(phrase))
    })
}

/// The reasons that `push --porcelain` gives, one for each ref: `!\tFROM:TO\t[remote rejected] (REASON)`.
fn rejected(answer: &Answer) -> Vec<String> {
    let text = String::from_utf8_lossy(&answer.stdout);
    let mut reasons: Vec<String> = text
        .lines()
        .filter(|line| line.starts_with("!\t"))
        .filter_map(|line| Some(line.split('\t').nth(2)?.to_owned()))
        .collect();
    reasons.dedup();
    reasons
}

/// What to tell about a push that failed although nothing was in its way.
fn refusal(answer: &Answer, doing: &str) -> Result<Push, GitError> {
    match refused_because(answer) {
        Some(why) => Ok(Push::Refused { why }),
        None => Err(GitError::from_stderr(doing, &answer.stderr, answer.status.code())),
    }
}

/// The remote's words, if it refused a push.
pub(super) fn refused_because(answer: &Answer) -> Option<String> {
    let stderr = String::from_utf8_lossy(&answer.stderr);
    let reasons = rejected(answer);
    let lacks_rights = ["error: 403", "error: 401", "denied", "not allowed", "read-only"]
        .iter()
        .any(|word| stderr.contains(word));
    if reasons.is_empty() && !lacks_rights {
        return None;
    }
    let said = stderr.lines().filter_map(|line| line.strip_prefix("remote:")).map(str::trim);
    let own = stderr.lines().filter_map(|line| line.strip_prefix("fatal: ")).map(str::trim);
    let words: Vec<&str> =
        said.chain(own).chain(reasons.iter().map(String::as_str)).filter(|line| !line.is_empty()).collect();
    let printable: String = words.join("\n").chars().filter(|c| *c == '\n' || !c.is_control()).collect();
    Some(without_secrets(&printable).chars().take(WHY_MAX).collect())
}
