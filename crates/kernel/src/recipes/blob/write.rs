//! Writing and deleting: a claim, the shards, and one transaction that commits them.
//!
//! | step | what is there | the value |
//! |---|---|---|
//! | 1 | the marker, empty if there was none | old |
//! | 2 | an ephemeral claim `<write>-writing` | old |
//! | 3 | the shards `<write>-NNNNNN` | old |
//! | 4 | the transaction: claim deleted, marker set if it still has the version that was read | new |
//! | 5 | the old shards deleted | new |
//!
//! A value that fits into the marker, and whose version does not matter or is guarded by a fence, needs only 1 and 4.
//! The claim tells live writers from dead ones; and because step 4 deletes it, step 4 fails if the marker was deleted
//! and created again with the same version.

use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use menagerie_znodes::Raw;

use super::format::{Draft, claim_name, shard_name};
use super::{Blob, BlobError, CurrentValue, Expect, LONG_BYTES, SHARDS_IN_FLIGHT, Version, run_blocking};
use crate::error::CallError;
use crate::retry;
use crate::session::{Stat, Term};
use crate::transaction::{Transaction, TransactionError};
use crate::unique;

/// One write in progress. Dropping it before its commit removes what it has created.
struct Pending<'a> {
    blob: &'a Blob,
    term: Term,
    /// The name of this write.
    write: String,
    claimed: bool,
    done: bool,
}

/// Outcome of an attempt to commit.
enum Step {
    Done(Version),
    /// Somebody deleted the blob, and with it our claim and shards. Begin again.
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
        let mut found = pending.read_or_create_marker().await?;
        blob.check(&found, expect)?;
        if found.has_others() {
            blob.collect_in(&pending.term).await?;
        }
        if claimed {
            if !pending.place(&draft).await? {
                continue;
            }
            let Some(again) = blob.read_marker(&pending.term).await? else { continue };
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
        // Deleted is deleted, whoever did it; and a new blob in its place belongs to somebody else.
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

/// Without a fence, only a child proves that the marker is still the expected znode and not a new one.
fn needs_claim(transaction: &Transaction, expect: Expect) -> bool {
    matches!(expect, Expect::Version(_)) && transaction.ticket().is_none()
}

async fn draft(blob: &Blob, content: &[u8], write: &str) -> Result<Arc<Draft>, BlobError> {
    let draft = if content.len() < LONG_BYTES {
        Draft::new(content, write)
    } else {
        let (content, write) = (content.to_vec(), write.to_owned());
        run_blocking(move || Draft::new(&content, &write)).await
    };
    let bytes = content.len();
    draft.map(Arc::new).ok_or_else(|| BlobError::TooLong { path: blob.path().to_owned(), bytes })
}

impl Blob {
    fn check(&self, found: &CurrentValue, expect: Expect) -> Result<(), BlobError> {
        self.conflict_unless(found.satisfies(expect))
    }

    /// The current marker's stat, if the value is the expected one. [`Expect::Anything`] includes a damaged value.
    async fn stat_if(&self, term: &Term, expect: Expect) -> Result<Option<Stat>, BlobError> {
        if expect == Expect::Anything {
            return Ok(term.stat(self.path()).await?);
        }
        let Some(found) = self.read_marker(term).await? else { return Ok(None) };
        self.check(&found, expect)?;
        Ok(Some(found.stat))
    }

    fn conflict_unless(&self, expected: bool) -> Result<(), BlobError> {
        if expected { Ok(()) } else { Err(BlobError::Conflict { path: self.path().to_owned() }) }
    }

    /// `Ok` if one of our own parts, from `ours` on, was refused because somebody was faster; else the error.
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

    /// Reads the marker; creates an empty one if it is missing.
    async fn read_or_create_marker(&self) -> Result<CurrentValue, BlobError> {
        loop {
            if let Some(found) = self.blob.read_marker(&self.term).await? {
                return Ok(found);
            }
            retry::ensure(&self.term, self.blob.path(), b"").await?;
        }
    }

    /// Creates the claim. `false`: there is no blob.
    async fn claim(&self) -> Result<bool, BlobError> {
        let claim = self.blob.child(&claim_name(&self.write));
        match retry::create(&self.term, claim.path(), b"").await {
            Ok(_) | Err(CallError::Exists { .. }) => Ok(true),
            Err(CallError::NoZnode { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates the claim and the shards. `false`: the blob is gone.
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
        mut found: CurrentValue,
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
            match blob.read_marker(&self.term).await? {
                // The marker was not replaced, so the refusal means that the claim is gone.
                Some(again) if Version::of(&again.stat) == before => return Ok(Step::Again),
                Some(again) if again.stat.czxid == before.czxid => found = again,
                _ => return Ok(Step::Again),
            }
        }
    }

    /// Whether a commit whose reply was lost has happened.
    async fn proof(&self, before: Version) -> Result<Option<Vec<String>>, CallError> {
        let unknown = CallError::Unknown { path: self.blob.path().to_owned() };
        match self.blob.read_marker(&self.term).await {
            Ok(Some(found)) if Version::of(&found.stat) == before => Ok(None),
            Ok(Some(found)) if found.is_of(&self.write) => Ok(Some(Vec::new())),
            Err(BlobError::Call(error)) => Err(error),
            // Another value came after ours, or instead of it. If our claim still exists, ours was not committed.
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

    /// Removes the shards of the replaced value. If that fails, a later writer collects them.
    async fn clear(&self, replaced: &CurrentValue) {
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
            // If this fails, the claim ends with the session, and a later writer collects the shards.
            let _ = withdraw(&blob, &term, &write).await;
        });
    }
}

/// Removes the claim and shards of a write that was not committed.
async fn withdraw(blob: &Blob, term: &Term, write: &str) -> Result<(), BlobError> {
    // After this, every request of ours has arrived or never will.
    term.sync("/").await?;
    match blob.read_marker(term).await {
        Ok(Some(found)) if found.is_of(write) => return Ok(()),
        // The value may be ours by now, so its shards stay; a later writer collects them if not.
        Err(error @ BlobError::Call(_)) => return Err(error),
        // A value that cannot be read is not ours.
        Ok(_) | Err(_) => {}
    }
    let names = match term.children(blob.path()).await {
        Err(CallError::NoZnode { .. }) => return Ok(()),
        names => names?,
    };
    let ours = |name: &String| name.strip_prefix(write).is_some_and(|end| end.starts_with('-'));
    Ok(blob.remove(term, names.into_iter().filter(ours).collect()).await?)
}
