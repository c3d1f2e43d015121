//! The one place that resolves "did it happen?" after a lost reply.
//!
//! | call | after a lost reply |
//! |---|---|
//! | reads, `sync`, watches | made again by [`Term`] itself: they change nothing |
//! | [`create`] of an ephemeral | ours if it exists with our session as its owner; else made again |
//! | [`create_unique`], a sequence whose name begins with something unique | looked for by that beginning; else made again |
//! | [`create_marked`], an ephemeral sequence whose data is unique | looked for by our session and that data; else made again |
//! | [`ensure`] | made again: all that matters is that it exists |
//! | [`create_named`], a persistent znode whose name nobody else ever uses | made again: if it exists it is ours |
//! | [`touch`], a write that only has to be the newest | made again: later still will do |
//! | [`commit`] of a transaction that leaves a proof | the caller's proof is looked for; else made again |
//! | [`set`] by version | made again if the version is still the old one; refused if somebody else has written; [`CallError::Unknown`] if what is there may be ours or another's |
//! | [`delete`] of a name that is never used again | made again: all that matters is that it is gone |
//! | [`remove`] and [`remove_created`], of a name that may be used again | made again only if the same znode is still there |
//! | anything else, transactions above all | [`CallError::Unknown`]: only the caller knows what would prove it, and can give that proof to [`resolve`] |
//!
//! Before it looks, [`resolve`] syncs: the server that we are connected to now may be behind the one that took the
//! request. A request that the server has not got by then never arrives: one connection delivers in order, and a leader
//! refuses what comes by the old one.

use std::future::Future;

use menagerie_znodes::Kind;
use tracing::warn;

use crate::backoff;
use crate::error::CallError;
use crate::session::{Created, IfLate, Stat, Term};
use crate::transaction::{Transaction, TransactionError};

/// What to report for a call whose outcome is unknown when its term ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AtTheEnd {
    /// The term is over: whatever the call did is gone with it, or the call can be repeated in the next term.
    Expired,
    /// It may have happened, and stays.
    Unknown,
}

impl AtTheEnd {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Ephemeral | Kind::EphemeralSequence => Self::Expired,
            Kind::Persistent | Kind::PersistentSequence | Kind::Container => Self::Unknown,
        }
    }
}

/// Repeats a call until its outcome is known. `probe` returns what the call would have returned if it has happened, or
/// `None` if it has not. Use a [patient](Term::patient) term: a call that was given up on may still happen. If the term
/// ends before the outcome is known, it stays [`CallError::Unknown`].
pub async fn resolve<T, A, P>(
    term: &Term,
    attempt: impl FnMut() -> A,
    probe: impl FnMut() -> P,
) -> Result<T, CallError>
where
    A: Future<Output = Result<T, CallError>>,
    P: Future<Output = Result<Option<T>, CallError>>,
{
    resolve_until(term, AtTheEnd::Unknown, attempt, probe).await
}

/// The same for effects that end with the term: if the term ends, it is [`CallError::Expired`], whether or not it
/// happened.
pub async fn resolve_ephemeral<T, A, P>(
    term: &Term,
    attempt: impl FnMut() -> A,
    probe: impl FnMut() -> P,
) -> Result<T, CallError>
where
    A: Future<Output = Result<T, CallError>>,
    P: Future<Output = Result<Option<T>, CallError>>,
{
    resolve_until(term, AtTheEnd::Expired, attempt, probe).await
}

async fn resolve_until<T, A, P>(
    term: &Term,
    at_the_end: AtTheEnd,
    mut attempt: impl FnMut() -> A,
    mut probe: impl FnMut() -> P,
) -> Result<T, CallError>
where
    A: Future<Output = Result<T, CallError>>,
    P: Future<Output = Result<Option<T>, CallError>>,
{
    let (mut unknown, mut lost) = (None, 0);
    loop {
        let looked = match attempt().await {
            Err(error @ CallError::Unknown { .. }) => {
                lost += 1;
                if let Some(pause) = backoff::pause(lost) {
                    warn!(%error, lost, "reply lost repeatedly; retrying");
                    tokio::time::sleep(pause).await;
                }
                unknown = Some(error);
                match term.patient().sync("/").await {
                    Ok(()) => probe().await,
                    Err(error) => Err(error),
                }
            }
            Ok(done) => return Ok(done),
            // A patient call waits for the connection; this one arrived over an old one, and was refused.
            Err(CallError::Suspended) => Ok(None),
            Err(error) => Err(error),
        };
        match (looked, unknown.clone(), at_the_end) {
            (Ok(Some(happened)), _, _) => return Ok(happened),
            (Ok(None), _, _) => {}
            (Err(error), Some(unknown), AtTheEnd::Unknown) if error.ends_term() => return Err(unknown),
            (Err(error), _, _) => return Err(error),
        }
    }
}

/// Repeats an idempotent call until it is answered, or the term is over.
async fn insist<T, A>(term: &Term, attempt: impl FnMut() -> A) -> Result<T, CallError>
where
    A: Future<Output = Result<T, CallError>>,
{
    resolve_until(term, AtTheEnd::Expired, attempt, async || Ok(None)).await
}

/// Creates an ephemeral znode with a name of our choice.
pub async fn create(term: &Term, path: &str, data: &[u8]) -> Result<Created, CallError> {
    let term = &term.patient();
    resolve_ephemeral(
        term,
        || term.create(path, data, Kind::Ephemeral, IfLate::Undo),
        || async move {
            Ok(term
                .stat(path)
                .await?
                .filter(|stat| stat.ephemeral_owner == term.session_id())
                .map(|stat| Created { path: path.to_owned(), stat }))
        },
    )
    .await
}

/// Creates a sequence znode `dir/<prefix><number>`, where nobody else ever uses `prefix`.
pub async fn create_unique(
    term: &Term,
    dir: &str,
    prefix: &str,
    data: &[u8],
    kind: Kind,
) -> Result<Created, CallError> {
    let term = &term.patient();
    let path = &format!("{dir}/{prefix}");
    resolve_until(
        term,
        AtTheEnd::of(kind),
        || term.create(path, data, kind, IfLate::Undo),
        || async move {
            let Some(name) = find(term, dir, prefix).await? else { return Ok(None) };
            let path = format!("{dir}/{name}");
            Ok(term.stat(&path).await?.map(|stat| Created { path, stat }))
        },
    )
    .await
}

/// The child whose name begins like this.
async fn find(term: &Term, dir: &str, prefix: &str) -> Result<Option<String>, CallError> {
    match term.children(dir).await {
        Ok(names) => Ok(names.into_iter().find(|name| name.starts_with(prefix))),
        Err(CallError::NoZnode { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Deletes what [`create_unique`] may have created, after its caller gave up. It ends when nothing is left, or with the
/// term, which ends ephemerals, too.
pub async fn withdraw(term: &Term, dir: &str, prefix: &str) -> Result<(), CallError> {
    let term = &term.patient();
    term.sync("/").await?;
    match find(term, dir, prefix).await? {
        Some(name) => delete(term, &format!("{dir}/{name}")).await,
        None => Ok(()),
    }
}

/// Creates an ephemeral sequence znode `dir/<prefix><number>`, where others use `prefix` too but nobody has such `data`.
pub async fn create_marked(term: &Term, dir: &str, prefix: &str, data: &[u8]) -> Result<Created, CallError> {
    let term = &term.patient();
    let path = &format!("{dir}/{prefix}");
    resolve(
        term,
        || term.create(path, data, Kind::EphemeralSequence, IfLate::Undo),
        || find_marked(term, dir, prefix, data),
    )
    .await
}

/// Deletes what [`create_marked`] may have created.
pub async fn withdraw_marked(term: &Term, dir: &str, prefix: &str, data: &[u8]) -> Result<(), CallError> {
    let term = &term.patient();
    term.sync("/").await?;
    match find_marked(term, dir, prefix, data).await? {
        Some(created) => delete(term, &created.path).await,
        None => Ok(()),
    }
}

async fn find_marked(
    term: &Term,
    dir: &str,
    prefix: &str,
    data: &[u8],
) -> Result<Option<Created>, CallError> {
    let names = match term.children(dir).await {
        Err(CallError::NoZnode { .. }) => return Ok(None),
        names => names?,
    };
    for name in names.iter().filter(|name| name.starts_with(prefix)) {
        let path = format!("{dir}/{name}");
        match term.get(&path).await {
            Ok((found, stat)) if stat.ephemeral_owner == term.session_id() && found == data => {
                return Ok(Some(Created { path, stat }));
            }
            Ok(_) | Err(CallError::NoZnode { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Sets data if its version is still this one. A znode does not show who wrote it: so after a lost reply the outcome
/// may stay [`CallError::Unknown`], also when the session ends before we could read it.
pub async fn set(term: &Term, path: &str, data: &[u8], version: i32) -> Result<Stat, CallError> {
    let term = &term.patient();
    let unknown = || CallError::Unknown { path: path.to_owned() };
    loop {
        match term.set(path, data, Some(version)).await {
            Err(CallError::Suspended) => continue,
            Err(CallError::Unknown { .. }) => {}
            outcome => return outcome,
        }
        let look = async {
            term.sync("/").await?;
            term.get(path).await
        };
        let (found, stat) = look.await.map_err(|_| unknown())?;
        match after_lost_set(version, data, stat.version, &found) {
            AfterLostSet::NotYet => {}
            AfterLostSet::Refused => return Err(CallError::BadVersion { path: path.to_owned() }),
            AfterLostSet::Unknown => return Err(unknown()),
        }
    }
}

/// What a later read proves about a conditional write whose reply was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterLostSet {
    /// It has not happened and will not: nobody has written since.
    NotYet,
    /// Somebody else has written, so ours was or would be refused.
    Refused,
    /// Ours, or another's.
    Unknown,
}

fn after_lost_set(version: i32, data: &[u8], now: i32, found: &[u8]) -> AfterLostSet {
    if now == version {
        AfterLostSet::NotYet
    } else if version.checked_add(1) == Some(now) && found != data {
        // Exactly one write since, and it is not ours.
        AfterLostSet::Refused
    } else {
        AfterLostSet::Unknown
    }
}

/// Makes sure that a persistent znode and its parents exist. Leaves existing data alone.
pub async fn ensure(term: &Term, path: &str, data: &[u8]) -> Result<(), CallError> {
    let term = &term.patient();
    match ensure_one(term, path, data).await {
        Err(CallError::NoZnode { .. }) => {}
        done => return done,
    }
    // From the top down: most often all but the last exist, and the first attempt has succeeded.
    for (end, _) in path.match_indices('/').skip(1) {
        ensure_one(term, &path[..end], b"").await?;
    }
    ensure_one(term, path, data).await
}

/// Creates a persistent znode with a name that nobody else ever uses. Its parent must be there.
pub async fn create_named(term: &Term, path: &str, data: &[u8]) -> Result<(), CallError> {
    ensure_one(&term.patient(), path, data).await
}

/// Sets data, repeating until it is answered: for callers that only need the newest change.
pub async fn touch(term: &Term, path: &str, data: &[u8]) -> Result<Stat, CallError> {
    let term = &term.patient();
    insist(term, || term.set(path, data, None)).await
}

/// Commits a transaction, repeating until its outcome is known. `proof` returns what the commit would have returned if
/// it has happened, or `None` if it has not.
pub async fn commit<P>(
    transaction: Transaction,
    proof: impl FnMut() -> P,
) -> Result<Vec<String>, TransactionError>
where
    P: Future<Output = Result<Option<Vec<String>>, CallError>>,
{
    commit_until(transaction, AtTheEnd::Unknown, proof).await
}

/// The same for a transaction that leaves nothing behind when the term ends.
pub async fn commit_ephemeral<P>(
    transaction: Transaction,
    proof: impl FnMut() -> P,
) -> Result<Vec<String>, TransactionError>
where
    P: Future<Output = Result<Option<Vec<String>>, CallError>>,
{
    commit_until(transaction, AtTheEnd::Expired, proof).await
}

async fn commit_until<P>(
    transaction: Transaction,
    at_the_end: AtTheEnd,
    mut proof: impl FnMut() -> P,
) -> Result<Vec<String>, TransactionError>
where
    P: Future<Output = Result<Option<Vec<String>>, CallError>>,
{
    let transaction = &transaction.patient();
    let attempt = || async move {
        match transaction.clone().commit().await {
            Err(TransactionError::Call(error)) => Err(error),
            outcome => Ok(outcome),
        }
    };
    let probe = || {
        let looked = proof();
        async move { Ok(looked.await?.map(Ok)) }
    };
    resolve_until(transaction.term(), at_the_end, attempt, probe).await?
}

async fn ensure_one(term: &Term, path: &str, data: &[u8]) -> Result<(), CallError> {
    let attempt = || async move {
        match term.create(path, data, Kind::Persistent, IfLate::Report).await {
            Err(CallError::Exists { .. }) => Ok(()),
            outcome => outcome.map(drop),
        }
    };
    insist(term, attempt).await
}

/// Makes sure that a znode with a name that is never used again is gone.
pub async fn delete(term: &Term, path: &str) -> Result<(), CallError> {
    let term = &term.patient();
    let attempt = || async move {
        match term.delete(path, None).await {
            Err(CallError::NoZnode { .. }) => Ok(()),
            outcome => outcome,
        }
    };
    insist(term, attempt).await
}

/// Deletes the znode that exists now, and spares one that somebody else creates in its place while the outcome of our
/// request is unknown. `false`: there was none.
pub async fn remove(term: &Term, path: &str) -> Result<bool, CallError> {
    match term.patient().stat(path).await? {
        Some(stat) => remove_seen(term, path, stat.czxid).await,
        None => Ok(false),
    }
}

/// The same for the znode that this transaction created. `false`: it does not exist any more.
pub async fn remove_created(term: &Term, path: &str, czxid: i64) -> Result<bool, CallError> {
    match term.patient().stat(path).await? {
        Some(stat) if stat.czxid == czxid => remove_seen(term, path, czxid).await,
        Some(_) | None => Ok(false),
    }
}

async fn remove_seen(term: &Term, path: &str, czxid: i64) -> Result<bool, CallError> {
    let term = &term.patient();
    let attempt = || async move {
        match term.delete(path, None).await {
            Err(CallError::NoZnode { .. }) => Ok(false),
            outcome => outcome.map(|()| true),
        }
    };
    let probe = || async move {
        let now = term.stat(path).await?;
        Ok(now.is_none_or(|now| now.czxid != czxid).then_some(true))
    };
    resolve(term, attempt, probe).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_set_is_judged_only_by_what_proves_it() {
        use AfterLostSet::{NotYet, Refused, Unknown};
        for (now, found, judged, why) in [
            (3, "old", NotYet, "nobody has written"),
            (4, "other", Refused, "one write, not ours"),
            (4, "ours", Unknown, "one write, ours or one like it"),
            (5, "other", Unknown, "ours may have been the first of two"),
            (0, "other", Unknown, "it was made anew"),
        ] {
            assert_eq!(after_lost_set(3, b"ours", now, found.as_bytes()), judged, "{why}");
        }
    }
}
