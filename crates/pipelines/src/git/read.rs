//! Reads what a repository holds: refs of the remote, and messages, paths and files of commits in the cache.

use std::collections::{BTreeMap, BTreeSet};

use super::cache::Repository;
use super::error::GitError;
use super::names::Sha;

/// Proposals with more commits than this are cut off: nobody reads more messages for `Depends-On`.
const MESSAGES_MAX: &str = "--max-count=1000";
/// No configuration file is larger.
const FILE_MAX: u64 = 1 << 20;
/// The files of one commit that are read together.
const FILES_MAX: u64 = 8 << 20;
/// The ref whose commits hold votes and reports.
pub(super) const NOTES_REF: &str = "refs/notes/menagerie";
const HEADS: &str = "refs/heads/";
const TAGS: &str = "refs/tags/";
const MERGED: &str = "refs/menagerie/merged/";

impl Repository {
    /// All refs of the remote that matter to pipelines: branches, tags, our notes, and merged proposals. Annotated
    /// tags stand for the commit they point to. Does not touch the cache.
    pub async fn remote_refs(&self) -> Result<BTreeMap<String, Sha>, GitError> {
        let patterns = ["refs/heads/*", "refs/tags/*", NOTES_REF, "refs/menagerie/merged/*"];
        let mut refs = self.list_remote(&patterns).await?;
        // Patterns match at the end of a name, so others may come along.
        refs.retain(|name, _| {
            name == NOTES_REF || [HEADS, TAGS, MERGED].iter().any(|prefix| name.starts_with(prefix))
        });
        Ok(refs)
    }

    /// Refs of the remote whose names end in one of the patterns.
    pub(super) async fn list_remote<T: AsRef<str>>(
        &self,
        patterns: &[T],
    ) -> Result<BTreeMap<String, Sha>, GitError> {
        let listed = self
            .remote(format!("list the refs of {}", self.shown_url()))
            .args(["ls-remote", "--quiet", "--"])
            .arg(&*self.url)
            .args(patterns.iter().map(AsRef::as_ref))
            .succeed()
            .await?;
        let mut refs = BTreeMap::new();
        for line in String::from_utf8_lossy(&listed).lines() {
            let Some((Ok(sha), name)) = line.split_once('\t').map(|(sha, name)| (sha.parse::<Sha>(), name))
            else {
                continue;
            };
            // `NAME^{}` follows `NAME` and tells the commit behind a tag.
            refs.insert(name.strip_suffix("^{}").unwrap_or(name).to_owned(), sha);
        }
        Ok(refs)
    }

    /// The full messages of a proposal's commits that are not on its target, newest first, at most 1,000.
    pub async fn messages(&self, target_tip: &Sha, patchset: &Sha) -> Result<Vec<String>, GitError> {
        let log = self
            .local("read the messages of a proposal")
            .args(["log", "-z", "--format=%B", "--encoding=UTF-8", MESSAGES_MAX])
            .args([patchset.as_str(), "--not", target_tip.as_str(), "--"])
            .succeed()
            .await?;
        let messages = log.strip_suffix(b"\0").unwrap_or(&log);
        if log.is_empty() {
            return Ok(Vec::new());
        }
        Ok(messages.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned()).collect())
    }

    /// The paths that differ between two commits. A rename is two paths.
    pub async fn changed_files(&self, from: &Sha, to: &Sha) -> Result<Vec<String>, GitError> {
        let paths = self
            .local("compare two commits")
            .args(["diff-tree", "-r", "-z", "--name-only", "--no-renames"])
            .args([from.as_str(), to.as_str(), "--"])
            .succeed()
            .await?;
        Ok(records(&paths).map(|path| String::from_utf8_lossy(path).into_owned()).collect())
    }

    /// The text files of a commit whose path `wanted` takes, at most 1 MiB each and 8 MiB together. Symbolic links,
    /// submodules and binary files are left out; bytes that are no UTF-8 become replacement characters.
    pub async fn files(
        &self,
        commit: &Sha,
        wanted: impl Fn(&str) -> bool + Send,
    ) -> Result<BTreeMap<String, String>, GitError> {
        let listed = self
            .local("list the files of a commit")
            .args(["ls-tree", "-r", "-z", "-l", "--full-tree", commit.as_str()])
            .succeed()
            .await?;
        let mut chosen = Vec::new();
        let mut size_total = 0;
        for file in records(&listed).filter_map(ListedFile::parse).filter(|file| wanted(&file.path)) {
            size_total += file.size;
            if file.size > FILE_MAX {
                return Err(GitError::TooLarge { what: file.path, limit_bytes: FILE_MAX });
            }
            if size_total > FILES_MAX {
                let what = format!("the sum of the files to read from {commit}");
                return Err(GitError::TooLarge { what, limit_bytes: FILES_MAX });
            }
            chosen.push(file);
        }
        let blobs: BTreeSet<&str> = chosen.iter().map(|file| file.blob.as_str()).collect();
        let contents = self.objects(&blobs.iter().collect::<Vec<_>>()).await?;
        let contents: BTreeMap<&str, Vec<u8>> =
            blobs.into_iter().zip(contents).filter_map(|(blob, content)| Some((blob, content?))).collect();
        let mut files = BTreeMap::new();
        for file in &chosen {
            let content = contents
                .get(file.blob.as_str())
                .ok_or_else(|| GitError::Missing { sha: file.blob.clone() })?;
            if !content.contains(&0) {
                files.insert(file.path.clone(), String::from_utf8_lossy(content).into_owned());
            }
        }
        Ok(files)
    }

    /// The contents of objects by name, in order; `None` for one that is not there.
    pub(super) async fn objects<T: AsRef<str>>(&self, names: &[T]) -> Result<Vec<Option<Vec<u8>>>, GitError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let input: String = names.iter().map(|name| format!("{}\n", name.as_ref())).collect();
        let doing = "read objects from the cache";
        let answer = self.local(doing).args(["cat-file", "--batch"]).input(input).succeed().await?;
        let garbled =
            || GitError::Failed { doing: doing.into(), why: "git's answer is garbled".into(), exit: Some(0) };
        let mut rest = answer.as_slice();
        let mut contents = Vec::with_capacity(names.len());
        for _ in names {
            let line_end = rest.iter().position(|byte| *byte == b'\n').ok_or_else(garbled)?;
            let (header, after) = (&rest[..line_end], &rest[line_end + 1..]);
            rest = after;
            if header.ends_with(b" missing") {
                contents.push(None);
                continue;
            }
            let header = String::from_utf8_lossy(header);
            let size: usize =
                header.rsplit(' ').next().and_then(|size| size.parse().ok()).ok_or_else(garbled)?;
            if rest.len() <= size {
                return Err(garbled());
            }
            contents.push(Some(rest[..size].to_vec()));
            rest = &rest[size + 1..];
        }
        Ok(contents)
    }
}

/// The parts of an answer to a command with `-z`.
pub(super) fn records(answer: &[u8]) -> impl Iterator<Item = &[u8]> {
    answer.split(|byte| *byte == 0).filter(|record| !record.is_empty())
}

/// A line of `ls-tree -l` that names a regular file.
struct ListedFile {
    blob: Sha,
    size: u64,
    path: String,
}

impl ListedFile {
    /// `MODE blob SHA SIZE\tPATH`; `None` for symbolic links and submodules.
    fn parse(record: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(record);
        let (facts, path) = text.split_once('\t')?;
        let mut facts = facts.split_ascii_whitespace();
        let mode = facts.next()?;
        let blob = facts.nth(1)?.parse().ok()?;
        let size = facts.next()?.parse().ok()?;
        mode.starts_with("100").then(|| Self { blob, size, path: path.to_owned() })
    }
}
