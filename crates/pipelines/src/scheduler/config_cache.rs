//! The configuration files of branches, cached in ZooKeeper: mergers read them, schedulers make layouts of them.

use std::collections::{BTreeMap, BTreeSet};

use menagerie_kernel::recipes::blob::{Blob, Expect};
use menagerie_kernel::recipes::lock::{Lock, LockGuard};
use menagerie_kernel::session::now_ms;
use menagerie_kernel::{Session, retry};
use menagerie_znodes::pipelines::{
    BranchFiles, Sha, Source, config_branch, config_file, config_files, config_lock,
};
use menagerie_znodes::{Kind, MaybeDamaged, Raw, Znode};

use crate::{PipelineError, submit};

/// The files of a branch.
pub type Files = BTreeMap<String, String>;

/// Reads what is cached of a branch; `None` if nothing is, or it is being written.
pub async fn read(
    session: &Session,
    project: &str,
    branch: &str,
) -> Result<Option<(BranchFiles, Files)>, PipelineError> {
    // It has no data yet while its files are written for the first time.
    let (term, znode) = (session.term(), config_branch(project, branch).maybe_damaged());
    let Some(before) = term.read(&znode).await? else { return Ok(None) };
    let MaybeDamaged::Sound(record) = before.value.clone() else { return Ok(None) };
    let mut files = Files::new();
    for file in &record.files {
        let blob = Blob::new(session, config_file(project, branch, file));
        let Some((text, _)) = blob.read().await? else { return Ok(None) };
        files.insert(file.clone(), String::from_utf8_lossy(&text).into_owned());
    }
    let after = term.read(&znode).await?;
    Ok((after.as_ref() == Some(&before)).then_some((record, files)))
}

/// Brings the cache of a branch up to date; returns its edition.
pub async fn refresh(
    session: &Session,
    project: &str,
    source: Source,
    branch: &str,
    tip: &Sha,
) -> Result<u64, PipelineError> {
    let known = session.term().read(&config_branch(project, branch).maybe_damaged()).await?;
    if let Some(known) = known.and_then(|known| known.value.sound()).filter(|known| known.commit == *tip) {
        return Ok(known.edition);
    }
    let files = submit::cat(session, source, tip.clone()).await?;
    let lock = Lock::new(session, config_lock(project)).acquire().await?;
    let known = read(session, project, branch).await?;
    let edition = match &known {
        Some((record, same)) if *same == files => record.edition,
        Some((record, _)) => (record.edition + 1).max(now_ms()),
        None => now_ms(),
    };
    let znode = config_branch(project, branch);
    retry::ensure(lock.term(), config_files(project, branch).path(), b"").await?;
    if known.as_ref().is_none_or(|(_, same)| *same != files) {
        // Until the record is written again, nobody takes old and new files together for one edition.
        lock.transaction()
            .set(&Znode::<Raw>::foreign(znode.path(), Kind::Persistent), &Raw(Vec::new()), None)
            .commit()
            .await?;
        write_files(session, &lock, project, branch, &files).await?;
    }
    let record = BranchFiles { commit: tip.clone(), files: files.into_keys().collect(), edition };
    lock.transaction().set(&znode, &record, None).commit().await?;
    lock.release().await?;
    Ok(edition)
}

async fn write_files(
    session: &Session,
    lock: &LockGuard,
    project: &str,
    branch: &str,
    files: &Files,
) -> Result<(), PipelineError> {
    let folder = config_files(project, branch);
    let mut kept = BTreeSet::new();
    for (file, text) in files {
        let znode = config_file(project, branch, file);
        kept.insert(znode.path().to_owned());
        Blob::new(session, znode).write_fenced(lock.transaction(), text.as_bytes(), Expect::Anything).await?;
    }
    for name in lock.term().children(folder.path()).await? {
        let znode = folder.child::<Raw>(&name, Kind::Persistent);
        if !kept.contains(znode.path()) {
            Blob::new(session, znode).delete_fenced(lock.transaction(), Expect::Anything).await?;
        }
    }
    Ok(())
}
