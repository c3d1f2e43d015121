//! Bare caches of remote repositories, and how commits come into them.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::error::{GitError, without_secrets};
use super::lock::{FileLock, remove_if_stale, remove_stale_locks};
use super::names::{InvalidName, Sha, is_project_name, is_repository_url};
use super::run::{Git, Scope};

/// The first fetch of a large repository must come to its end: an aborted one starts from nothing.
const FETCH_LIMIT: Duration = Duration::from_secs(20 * 60);
/// Whoever waits for a cache's lock outlasts one fetch of somebody else.
const LOCK_LIMIT: Duration = Duration::from_secs(21 * 60);
/// Each fetch adds a pack. Git looks through all of them for each object, so they are joined now and then.
const PACKS_MAX: usize = 50;

/// What a fetch brings, and where the cache keeps it. Not `refs/heads`: the cache's `HEAD` must stay unborn, because
/// some versions of git read merge attributes from it. A refspec with `*` does not mind when there is no such ref.
const REFSPECS: [&str; 4] = [
    "+refs/heads/*:refs/origin/heads/*",
    "+refs/tags/*:refs/origin/tags/*",
    "+refs/notes/menagerie*:refs/origin/notes/menagerie*",
    "+refs/menagerie/merged/*:refs/origin/merged/*",
];

/// Makes names of temporary folders and refs unique within this process.
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// A name that nobody else on this machine uses.
pub(super) fn unique_name(prefix: &str) -> String {
    format!("{prefix}-{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed))
}

/// Bare caches of repositories below one folder, `ROOT/CONNECTION/PROJECT.git`, shared by the processes of this
/// machine. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Caches {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    root: PathBuf,
    /// Where this process last left the notes of a cache: an append starts there and saves the round trip of asking.
    pub(super) notes_tips: Mutex<HashMap<PathBuf, Sha>>,
}

/// One repository: its remote, and this machine's cache of it. Cheap to clone; any number of loops may use it at once.
#[derive(Clone)]
pub struct Repository {
    pub(super) shared: Arc<Shared>,
    pub(super) cache: Arc<Path>,
    pub(super) url: Arc<str>,
}

impl fmt::Debug for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repository").field("cache", &self.cache).field("url", &self.shown_url()).finish()
    }
}

impl Caches {
    /// Caches below a folder, which is created when the first repository is.
    pub fn new(root: PathBuf) -> Self {
        // Work trees of jobs name the cache from elsewhere. Only an empty path has no absolute form.
        let root = std::path::absolute(&root).unwrap_or(root);
        Self { shared: Arc::new(Shared { root, notes_tips: Mutex::default() }) }
    }

    /// The repository of a project, with an empty cache if this machine has none yet. Does not talk to the remote.
    /// The URL is not stored: whoever asks next may give another one.
    pub async fn repository(
        &self,
        connection: &str,
        project: &str,
        url: &str,
    ) -> Result<Repository, GitError> {
        if !is_project_name(connection) || connection.contains('/') {
            return Err(InvalidName::new("connection name", connection).into());
        }
        if !is_project_name(project) {
            return Err(InvalidName::new("project name", project).into());
        }
        if !is_repository_url(url) {
            return Err(InvalidName::new("repository URL", &without_secrets(url)).into());
        }
        let cache = self.shared.root.join(connection).join(format!("{project}.git"));
        if !cache.join("HEAD").is_file() {
            create_cache(&cache).await?;
        }
        Ok(Repository { shared: self.shared.clone(), cache: cache.into(), url: url.into() })
    }
}

/// Creates a cache under another name and renames it, so that nobody sees half of one.
async fn create_cache(cache: &Path) -> Result<(), GitError> {
    let doing = || format!("create the git cache {}", cache.display());
    let parent = cache.parent().unwrap_or(cache);
    let draft = parent.join(unique_name(".new"));
    DirBuilder::new().recursive(true).mode(0o700).create(&draft).map_err(GitError::io(doing()))?;
    let made = Git::new(Scope::Local, parent, doing())
        .args(["init", "--bare", "--quiet", "--template=", "--initial-branch=none"])
        .arg(&draft)
        .succeed()
        .await;
    let placed = made.and_then(|_| place_cache(&draft, cache).map_err(GitError::io(doing())));
    if placed.is_err() {
        let _ = fs::remove_dir_all(&draft);
    }
    placed
}

fn place_cache(draft: &Path, cache: &Path) -> io::Result<()> {
    // For people who run git in there by hand: a clean-up would take objects that running jobs borrow.
    let config = fs::read_to_string(draft.join("config"))? + "[gc]\n\tauto = 0\n";
    fs::write(draft.join("config"), config)?;
    match fs::rename(draft, cache) {
        Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) => {
            fs::remove_dir_all(draft) // Somebody else was quicker.
        }
        renamed => renamed,
    }
}

impl Repository {
    /// Makes sure that these commits are in the cache, and fetches if one is not. [`GitError::Missing`] if one cannot
    /// be had.
    pub async fn require(&self, commits: &[&Sha]) -> Result<(), GitError> {
        if self.missing(commits).await?.is_empty() {
            return Ok(());
        }
        let _lock = self.lock("fetch.lock").await?;
        // Somebody else may have fetched them while we waited.
        if self.missing(commits).await?.is_empty() {
            return Ok(());
        }
        self.fetch_all().await?;
        for sha in self.missing(commits).await? {
            // A patchset that was replaced has no ref any more, but most remotes still hand it out.
            self.fetch(&[sha.as_str()]).await.map_err(|error| match error {
                GitError::Failed { .. } | GitError::Unreachable { .. } => {
                    GitError::Missing { sha: sha.clone() }
                }
                other => other,
            })?;
        }
        self.join_packs().await;
        Ok(())
    }

    /// Those of the commits that the cache does not have. Packs arrive whole, so a commit that is there is complete.
    pub(super) async fn missing(&self, commits: &[&Sha]) -> Result<Vec<Sha>, GitError> {
        if commits.is_empty() {
            return Ok(Vec::new());
        }
        let input: String = commits.iter().map(|sha| format!("{sha}\n")).collect();
        let answer = self
            .local("look for commits in the cache")
            .args(["cat-file", "--batch-check=%(objecttype)"])
            .input(input)
            .succeed()
            .await?;
        let answer = String::from_utf8_lossy(&answer);
        let lines = answer.lines().zip(commits);
        Ok(lines.filter(|(line, _)| line.ends_with(" missing")).map(|(_, sha)| (*sha).clone()).collect())
    }

    async fn fetch_all(&self) -> Result<(), GitError> {
        match self.fetch(&REFSPECS).await {
            Err(GitError::Failed { why, .. }) if why.contains(".lock") => {
                remove_stale_locks(&self.cache.join("refs"));
                remove_if_stale(&self.cache.join("packed-refs.lock"));
                self.fetch(&REFSPECS).await
            }
            fetched => fetched,
        }
    }

    async fn fetch(&self, refspecs: &[&str]) -> Result<(), GitError> {
        self.remote(format!("fetch {}", self.shown_url()))
            // Loose objects would arrive one by one, and a commit could be there without its files.
            .args(["-c", "fetch.unpackLimit=1", "-c", "fetch.writeCommitGraph=false"])
            .args(["fetch", "--quiet", "--force", "--prune", "--no-tags", "--no-recurse-submodules"])
            .args(["--no-write-fetch-head", "--no-auto-maintenance", "--no-show-forced-updates", "--"])
            .arg(&*self.url)
            .args(refspecs)
            .time_limit(FETCH_LIMIT)
            .succeed()
            .await
            .map(drop)
    }

    /// Joins small packs when there are many. It drops no object, so nobody who borrows from the cache notices.
    async fn join_packs(&self) {
        let is_pack =
            |entry: &fs::DirEntry| entry.path().extension().is_some_and(|extension| extension == "pack");
        let packs =
            self.cache.join("objects/pack").read_dir().map(|all| all.flatten().filter(is_pack).count());
        if packs.unwrap_or_default() <= PACKS_MAX {
            return;
        }
        let joined = self
            .local("join the packs of the cache")
            .args(["-c", "repack.writeBitmaps=false", "repack", "--geometric=2", "-d", "-q"])
            .time_limit(FETCH_LIMIT)
            .succeed()
            .await;
        if let Err(error) = joined {
            tracing::warn!(path = %self.cache.display(), %error, "packs of a git cache could not be joined");
        }
    }

    /// A lock file of this cache, shared by all processes of the machine.
    pub(super) async fn lock(&self, name: &str) -> Result<FileLock, GitError> {
        FileLock::acquire(&self.cache.join(name), LOCK_LIMIT).await
    }

    /// A command on the cache alone, which no setting of the user can change.
    pub(super) fn local(&self, doing: impl Into<String>) -> Git {
        Git::new(Scope::Local, &self.cache, doing).arg("--git-dir=.")
    }

    /// A command that talks to the remote.
    pub(super) fn remote(&self, doing: impl Into<String>) -> Git {
        Git::new(Scope::Remote, &self.cache, doing).arg("--git-dir=.")
    }

    /// The URL for messages and logs, without passwords.
    pub(super) fn shown_url(&self) -> String {
        without_secrets(&self.url)
    }
}
