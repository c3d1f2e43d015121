//! Votes and reports: git notes on patchsets, one JSON object a line, in `refs/notes/menagerie` of the remote.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::cache::{Repository, unique_name};
use super::error::GitError;
use super::merge::{as_menagerie, parse_sha};
use super::names::Sha;
use super::push::{PUSH, met_another_push, refused_because};
use super::read::{NOTES_REF, records};

/// Races with other machines are lost this often before we give up.
const ATTEMPTS: u32 = 20;
/// The pause after the first lost race; each next one is longer by as much.
const PAUSE: Duration = Duration::from_millis(10);
/// The longest pause after a lost race.
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// Git spreads many notes over folders named after the first digits: `aa/bb/cc…`. Three levels hold 16 million.
const FAN_OUT_MAX: usize = 3;

/// What became of a new commit of notes.
enum NotesPush {
    Done,
    LostRace,
}

/// Hashes of the blobs that hold the notes on one patchset, in two commits of the notes.
#[derive(Default)]
struct NoteBlobs<'a> {
    before: Vec<&'a [u8]>,
    after: Vec<&'a [u8]>,
}

impl Repository {
    /// The notes on a patchset, oldest first; lines that are no JSON objects are left out. `notes` is a commit of
    /// `refs/notes/menagerie` that is in the cache.
    pub async fn notes(&self, notes: &Sha, patchset: &Sha) -> Result<Vec<Value>, GitError> {
        Ok(json_lines(&self.notes_text(notes, patchset).await?))
    }

    /// The patchsets whose notes differ between two commits of the notes, in order of their hash. Without an old
    /// commit, or if it cannot be had any more because somebody has rewritten the notes: all that have notes.
    pub async fn noted_since(&self, old: Option<&Sha>, new: &Sha) -> Result<Vec<Sha>, GitError> {
        let doing = "compare notes";
        let mut old = old;
        if let Some(sha) = old {
            match self.require(&[sha]).await {
                Err(GitError::Missing { .. }) => old = None,
                required => required?,
            }
        }
        let Some(old) = old else {
            let command =
                self.local(doing).args(["ls-tree", "-r", "-z", "--name-only", "--full-tree", new.as_str()]);
            let listed = command.succeed().await?;
            let mut noted: Vec<Sha> = records(&listed).filter_map(noted_patchset).collect();
            noted.sort_unstable();
            noted.dedup();
            return Ok(noted);
        };
        let differences = self
            .local(doing)
            .args([
                "diff-tree",
                "-r",
                "-z",
                "--raw",
                "--no-abbrev",
                "--no-renames",
                old.as_str(),
                new.as_str(),
                "--",
            ])
            .succeed()
            .await?;
        // When git changes its fan-out, every note moves to another path but few differ: compare by patchset.
        let mut differing: BTreeMap<Sha, NoteBlobs<'_>> = BTreeMap::new();
        let mut parts = records(&differences);
        while let (Some(facts), Some(path)) = (parts.next(), parts.next()) {
            let Some(patchset) = noted_patchset(path) else { continue };
            let mut hashes = facts.split(|byte| *byte == b' ').skip(2);
            let blobs = differing.entry(patchset).or_default();
            blobs.before.extend(hashes.next().filter(|hash| is_object(hash)));
            blobs.after.extend(hashes.next().filter(|hash| is_object(hash)));
        }
        differing.retain(|_, blobs| blobs.before != blobs.after);
        Ok(differing.into_keys().collect())
    }

    /// Appends a line to the notes on a patchset and pushes it, unless `is_there` finds it among those that stand
    /// there. Returns whether it was added. Others may write at the same time, here and on other machines: whoever
    /// loses the race reads again and tries again.
    pub async fn append_note(
        &self,
        patchset: &Sha,
        line: &Value,
        is_there: impl Fn(&[Value]) -> bool + Send,
    ) -> Result<bool, GitError> {
        // Writers of one machine take turns; only machines race.
        let _lock = self.lock("notes.lock").await?;
        let mut remembered = self.remembered_tip().await?;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep((PAUSE * attempt).min(PAUSE_MAX)).await;
            }
            let is_from_memory = remembered.is_some();
            let tip = match remembered.take() {
                Some(tip) => Some(tip),
                None => self.remote_notes_tip().await?,
            };
            let mut text = match &tip {
                Some(tip) => self.notes_text(tip, patchset).await?,
                None => Vec::new(),
            };
            if is_there(&json_lines(&text)) {
                if is_from_memory {
                    continue; // Somebody may have taken it away since: ask the remote.
                }
                return Ok(false);
            }
            if !text.is_empty() && !text.ends_with(b"\n") {
                text.push(b'\n');
            }
            text.extend_from_slice(line.to_string().as_bytes());
            text.push(b'\n');
            let commit = self.write_notes(tip.as_ref(), patchset, text).await?;
            match self.push_notes(tip.as_ref(), &commit).await? {
                NotesPush::Done => {
                    self.remember_tip(commit);
                    return Ok(true);
                }
                NotesPush::LostRace => {}
            }
        }
        Err(GitError::Failed {
            doing: format!("add a note to {patchset}"),
            why: format!("others changed {NOTES_REF} first, {ATTEMPTS} times"),
            exit: None,
        })
    }

    /// All that is noted on a patchset, wherever the fan-out has put it.
    async fn notes_text(&self, notes: &Sha, patchset: &Sha) -> Result<Vec<u8>, GitError> {
        let mut names = vec![notes.to_string()];
        for depth in 0..=FAN_OUT_MAX {
            let (folders, rest) = patchset.as_str().split_at(2 * depth);
            let folders: String =
                (0..depth).map(|level| format!("{}/", &folders[2 * level..2 * level + 2])).collect();
            names.push(format!("{notes}:{folders}{rest}"));
        }
        let mut contents = self.objects(&names).await?.into_iter();
        // A commit that is not there must not look like a patchset without notes.
        if contents.next().flatten().is_none() {
            return Err(GitError::Missing { sha: notes.clone() });
        }
        Ok(contents.flatten().collect::<Vec<_>>().join(&b'\n'))
    }

    /// Makes a commit of notes on top of another one. Git's own command knows about fan-out, but wants a ref; this one
    /// has a name that nobody else uses and is gone afterwards.
    async fn write_notes(&self, tip: Option<&Sha>, patchset: &Sha, text: Vec<u8>) -> Result<Sha, GitError> {
        let name = format!("refs/notes/{}", unique_name("draft"));
        let doing = "write notes";
        if let Some(tip) = tip {
            self.local(doing).args(["update-ref", &name, tip.as_str()]).succeed().await?;
        }
        let added = async {
            let command = self
                .local(doing)
                .args(["notes", "--ref", &name, "add", "--force", "--file=-", patchset.as_str()])
                .input(text);
            as_menagerie(command, None).succeed().await?;
            let commit = self.local(doing).args(["rev-parse", "--verify", &name]).succeed().await?;
            parse_sha(&commit, doing)
        }
        .await;
        let removed = self.local(doing).args(["update-ref", "-d", &name]).succeed().await;
        let commit = added?;
        removed?;
        Ok(commit)
    }

    async fn push_notes(&self, tip: Option<&Sha>, commit: &Sha) -> Result<NotesPush, GitError> {
        let doing = format!("push notes to {}", self.shown_url());
        let answer = self
            .remote(&doing)
            .args(PUSH)
            .arg(format!("--force-with-lease={NOTES_REF}:{}", tip.map_or("", Sha::as_str)))
            .args(["--", &self.url])
            .arg(format!("{commit}:{NOTES_REF}"))
            .answer()
            .await?;
        if answer.status.success() {
            return Ok(NotesPush::Done);
        }
        // What stands at the remote decides: our push may have succeeded although its reply was lost.
        let now = self.list_remote(&[NOTES_REF]).await?.remove(NOTES_REF);
        if now.as_ref() == Some(commit) {
            return Ok(NotesPush::Done);
        }
        if now.as_ref() != tip || met_another_push(&answer) {
            return Ok(NotesPush::LostRace);
        }
        let exit = answer.status.code();
        Err(match refused_because(&answer) {
            Some(why) => GitError::Failed { doing, why, exit },
            None => GitError::from_stderr(&doing, &answer.stderr, exit),
        })
    }

    /// The remote's newest commit of notes, fetched; `None` if there are no notes yet.
    async fn remote_notes_tip(&self) -> Result<Option<Sha>, GitError> {
        let tip = self.list_remote(&[NOTES_REF]).await?.remove(NOTES_REF);
        if let Some(tip) = &tip {
            self.require(&[tip]).await?;
        }
        Ok(tip)
    }

    /// Where this process left the notes last, if the cache still knows.
    async fn remembered_tip(&self) -> Result<Option<Sha>, GitError> {
        let tip = self.notes_tips().get(&*self.cache).cloned();
        match tip {
            Some(tip) if self.missing(&[&tip]).await?.is_empty() => Ok(Some(tip)),
            _ => Ok(None),
        }
    }

    fn remember_tip(&self, tip: Sha) {
        self.notes_tips().insert(self.cache.to_path_buf(), tip);
    }

    fn notes_tips(&self) -> std::sync::MutexGuard<'_, std::collections::HashMap<std::path::PathBuf, Sha>> {
        // A map of hints stays usable whatever a panicking thread did to it.
        self.shared.notes_tips.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn json_lines(text: &[u8]) -> Vec<Value> {
    text.split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
        .filter(Value::is_object)
        .collect()
}

/// The patchset that a path of the notes' tree belongs to.
fn noted_patchset(path: &[u8]) -> Option<Sha> {
    String::from_utf8_lossy(path).replace('/', "").parse().ok()
}

fn is_object(hash: &[u8]) -> bool {
    hash.iter().any(|digit| *digit != b'0')
}
