//! Writing and deleting: a claim, the shards, and one transaction that makes it so.
//!
//! | step | what is there | the value |
//! |---|---|---|
//! | 1 | the marker, empty if there was none | old |
//! | 2 | an ephemeral claim `<write>-writing` | old |
//! | 3 | the shards `<write>-NNNNNN` | old |
//! | 4 | the transaction: claim deleted, marker set if it still has the version that was read | new |
//! | 5 | the old shards deleted | new |
//!
//! A value that the marker carries, and whose version does not matter or is guarded by a fence, needs 1 and 4 only. The
//! claim does two things: it tells the living from the dead, and its name makes sure that step 4 finds the znode that was
//! looked at, and not one that was made anew with the same version.

use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use menagerie_znodes::Raw;

use super::format::{Draft, claim_name, shard_name};
use super::{Blob, BlobError, Expect, Found, LONG_BYTES, SHARDS_IN_FLIGHT, Version, beside};
use crate::error::CallError;
use crate::retry;
use crate::session::{Stat, Term};
use crate::transaction::{Transaction, TransactionError};
use crate::unique;

/// One write on its way. Dropped before it is done, it takes back what it has created.
struct Pending<'a> {
    blob: &'a Blob,
    term: Term,
    /// The name of this write.
    write: String,
    claimed: bool,
    done: bool,
}

/// How far a commit came.
enum Step {
    Done(Version),
    /// The blob was deleted under us, and with it what we had created. Begin again.
    Again,
}

pub async fn write(
    blob: &Blob,
    transaction: Transaction,
    content: &[u8],
    expect: Expect,
) -> Result<Version, BlobError> {
    let write = unique::hex();
    let draft = draft(blob, content, &write).await?;
    let claimed = draft.is_sharded() || needs_claim(&transaction, expect);
    let mut pending = Pending::new(blob, transaction.term(), write, claimed);
    loop {
        let mut found = pending.look_or_make().await?;
        blob.check(&found, expect)?;
        if found.has_others() {
            blob.collect_in(&pending.term).await?;
        }
        if claimed {
            if !pending.place(&draft).await? {
                continue;
            }
            let Some(again) = blob.look(&pending.term).await? else { continue };
            found = again;
        }
        match pending.commit(&transaction, &draft, expect, found).await? {
            Step::Done(version) => return Ok(version),
            Step::Again => {}
        }
    }
}

pub async fn delete(blob: &Blob, transaction: Transaction, expect: Expect) -> Result<bool, BlobError> {
    let claimed = needs_claim(&transaction, expect);
    let mut pending = Pending::new(blob, transaction.term(), unique::hex(), claimed);
    let term = pending.term.clone();
    loop {
        if claimed {
            pending.claim().await?;
        }
        let children = match term.children(blob.path()).await {
            Err(CallError::NoZnode { .. }) => Vec::new(),
            children => children?,
        };
        let Some(stat) = blob.stat_if(&term, expect).await? else {
            return blob.conflict_unless(!matches!(expect, Expect::Version(_))).map(|()| false);
        };
        let ours = transaction.parts();
        let removal = children
            .iter()
            .fold(transaction.clone(), |removal, name| removal.delete(&blob.child(name), None))
            .delete(&blob.znode, Some(stat.version));
        // Gone is gone, whoever did it; and what was made anew is another's.
        let term = &term;
        let proof = || async move {
            let now = term.stat(blob.path()).await?;
            Ok(now.is_none_or(|now| now.czxid != stat.czxid).then(Vec::new))
        };
        match retry::commit(removal, proof).await {
            Ok(_) => {
                pending.done = true;
                return Ok(true);
            }
            Err(error) => blob.only_overtaken(error, ours)?,
        }
    }
}

/// Without a fence, only something that goes with the znode tells whether it is still the one that was expected.
fn needs_claim(transaction: &Transaction, expect: Expect) -> bool {
    matches!(expect, Expect::Version(_)) && transaction.ticket().is_none()
}

async fn draft(blob: &Blob, content: &[u8], write: &str) -> Result<Arc<Draft>, BlobError> {
    let draft = if content.len() < LONG_BYTES {
        Draft::new(content, write)
    } else {
        let (content, write) = (content.to_vec(), write.to_owned());
        beside(move || Draft::new(&content, &write)).await
    };
    let bytes = content.len();
    draft.map(Arc::new).ok_or_else(|| BlobError::TooLong { path: blob.path().to_owned(), bytes })
}

impl Blob {
    fn check(&self, found: &Found, expect: Expect) -> Result<(), BlobError> {
        self.conflict_unless(found.satisfies(expect))
    }

    /// The facts of what is there, if it is as expected. Who takes anything takes what is damaged, too.
    async fn stat_if(&self, term: &Term, expect: Expect) -> Result<Option<Stat>, BlobError> {
        if expect == Expect::Anything {
            return Ok(term.stat(self.path()).await?);
        }
        let Some(found) = self.look(term).await? else { return Ok(None) };
        self.check(&found, expect)?;
        Ok(Some(found.stat))
    }

    fn conflict_unless(&self, expected: bool) -> Result<(), BlobError> {
        if expected { Ok(()) } else { Err(BlobError::Conflict { path: self.path().to_owned() }) }
    }

    /// What is an error, unless it is one of our own parts, from `ours` on, that somebody was faster with.
    fn only_overtaken(&self, error: TransactionError, ours: usize) -> Result<(), BlobError> {
        match error {
            TransactionError::Part {
                index,
                source: CallError::BadVersion { .. } | CallError::NoZnode { .. },
            } if index >= ours => Ok(()),
            TransactionError::Part { source: CallError::NotEmpty { path }, .. } if path == self.path() => {
                Ok(())
            }
            TransactionError::Lost { ticket } => Err(BlobError::Lost { ticket }),
            TransactionError::Call(error) => Err(error.into()),
            source @ TransactionError::Part { .. } => {
                Err(BlobError::Refused { path: self.path().to_owned(), source })
            }
        }
    }
}

impl<'a> Pending<'a> {
    fn new(blob: &'a Blob, term: &Term, write: String, claimed: bool) -> Self {
        Self { blob, term: term.patient(), write, claimed, done: false }
    }

    /// What is there; an empty marker is made where there is nothing.
    async fn look_or_make(&self) -> Result<Found, BlobError> {
        loop {
            if let Some(found) = self.blob.look(&self.term).await? {
                return Ok(found);
            }
            retry::ensure(&self.term, self.blob.path(), b"").await?;
        }
    }

    /// Says that we write. `false`: there is no blob.
    async fn claim(&self) -> Result<bool, BlobError> {
        let claim = self.blob.child(&claim_name(&self.write));
        match retry::create(&self.term, claim.path(), b"").await {
            Ok(_) | Err(CallError::Exists { .. }) => Ok(true),
            Err(CallError::NoZnode { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Claims, and puts the shards there. `false`: the blob is gone.
    async fn place(&self, draft: &Draft) -> Result<bool, BlobError> {
        if !self.claim().await? {
            return Ok(false);
        }
        let shards = draft.shards().enumerate();
        let creations: Vec<_> = shards
            .map(|(index, shard)| async move {
                let place = self.blob.child(&shard_name(&self.write, index));
                retry::create_named(&self.term, place.path(), shard).await
            })
            .collect();
        let placed = stream::iter(creations).buffer_unordered(SHARDS_IN_FLIGHT).try_collect().await;
        match placed {
            Ok(()) => Ok(true),
            Err(CallError::NoZnode { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn commit(
        &mut self,
        transaction: &Transaction,
        draft: &Draft,
        expect: Expect,
        mut found: Found,
    ) -> Result<Step, BlobError> {
        let blob = self.blob;
        loop {
            blob.check(&found, expect)?;
            let ours = transaction.parts();
            let mut commit = transaction.clone();
            if self.claimed {
                commit = commit.delete(&blob.child(&claim_name(&self.write)), None);
            }
            commit = commit.set(&blob.znode, &Raw(draft.marker.clone()), Some(found.stat.version));
            let before = Version::of(&found.stat);
            match retry::commit(commit, || self.proof(before)).await {
                Ok(_) => {
                    self.done = true;
                    self.clear(&found).await;
                    return Ok(Step::Done(Version { version: before.version + 1, ..before }));
                }
                Err(error) => blob.only_overtaken(error, ours)?,
            }
            match blob.look(&self.term).await? {
                // It went on without us: the claim must be gone too, then.
                Some(again) if Version::of(&again.stat) == before => return Ok(Step::Again),
                Some(again) if again.stat.czxid == before.czxid => found = again,
                _ => return Ok(Step::Again),
            }
        }
    }

    /// Whether a commit whose reply was lost has happened.
    async fn proof(&self, before: Version) -> Result<Option<Vec<String>>, CallError> {
        let unknown = CallError::Unknown { path: self.blob.path().to_owned() };
        match self.blob.look(&self.term).await {
            Ok(Some(found)) if Version::of(&found.stat) == before => Ok(None),
            Ok(Some(found)) if found.is_of(&self.write) => Ok(Some(Vec::new())),
            Err(BlobError::Call(error)) => Err(error),
            // Another value came before ours, or instead of it. A claim that is still there tells.
            Ok(_) | Err(_) if self.claimed => {
                let claim = self.blob.child(&claim_name(&self.write));
                match self.term.stat(claim.path()).await? {
                    Some(_) => Ok(None),
                    None => Err(unknown),
                }
            }
            Ok(_) | Err(_) => Err(unknown),
        }
    }

    /// Removes the shards of the value that was replaced. If that fails they are litter, and removed by a later writer.
    async fn clear(&self, replaced: &Found) {
        if let Some(marker) = &replaced.marker {
            let _ = self.blob.remove(&self.term, marker.shard_names().collect()).await;
        }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if self.done || !self.claimed {
            return;
        }
        let (blob, term, write) = (self.blob.clone(), self.term.clone(), std::mem::take(&mut self.write));
        self.term.in_background(async move {
            // If even this fails, the claim goes with the session, and the shards with a later writer.
            let _ = withdraw(&blob, &term, &write).await;
        });
    }
}

/// Removes what a write has left that was not committed.
async fn withdraw(blob: &Blob, term: &Term, write: &str) -> Result<(), BlobError> {
    // Whatever was on its way has arrived after this, or never does.
    term.sync("/").await?;
    match blob.look(term).await {
        Ok(Some(found)) if found.is_of(write) => return Ok(()),
        // Nobody can tell whether the value is ours by now, so its shards stay: a later writer collects litter.
        Err(error @ BlobError::Call(_)) => return Err(error),
        // What cannot be read is not what we have written.
        Ok(_) | Err(_) => {}
    }
    let names = match term.children(blob.path()).await {
        Err(CallError::NoZnode { .. }) => return Ok(()),
        names => names?,
    };
    let ours = |name: &String| name.strip_prefix(write).is_some_and(|end| end.starts_with('-'));
    Ok(blob.remove(term, names.into_iter().filter(ours).collect()).await?)
}
