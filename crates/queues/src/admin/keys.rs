//! Adding, listing and revoking application keys. ZooKeeper stores their hashes only.

use menagerie_kernel::{CallError, Session, retry};
use menagerie_znodes::Payload as _;
use menagerie_znodes::queues::{self, ApplicationKey, KeyId};

use crate::error::QueueError;

/// Adds a key, valid at once on all servers. `false` if a key with this id exists; it is not changed.
pub async fn add(session: &Session, key: &ApplicationKey) -> Result<bool, QueueError> {
    let id = KeyId::of_hash(&key.sha256).map_err(|error| QueueError::Key(error.to_string()))?;
    let (term, znode) = (session.term(), queues::key(&id));
    retry::ensure(&term, znode.path(), &key.encode()).await?;
    term.sync(znode.path()).await?;
    let stored = term.read(&znode.maybe_damaged()).await?.ok_or_else(|| CallError::no_znode(&znode))?;
    Ok(stored.value.sound().as_ref() == Some(key))
}

/// All keys, sorted by id.
pub async fn list(session: &Session) -> Result<Vec<(KeyId, ApplicationKey)>, QueueError> {
    let term = session.term();
    let root = queues::keys();
    term.sync("/").await?;
    let names = match term.children(root.path()).await {
        Err(CallError::NoZnode { .. }) => return Ok(Vec::new()),
        names => names?,
    };
    let mut ids: Vec<KeyId> = names.iter().filter_map(|name| name.parse().ok()).collect();
    ids.sort();
    let znodes: Vec<_> = ids.iter().map(|id| queues::key(id).maybe_damaged()).collect();
    let found = ids.into_iter().zip(term.read_many(&znodes).await?);
    Ok(found.filter_map(|(id, found)| Some((id, found?.value.sound()?))).collect())
}

/// Revokes a key on all servers. `false` if there is none with this id.
pub async fn revoke(session: &Session, id: &KeyId) -> Result<bool, QueueError> {
    match retry::remove(&session.term(), queues::key(id).path()).await {
        Err(CallError::NoZnode { .. }) => Ok(false),
        outcome => Ok(outcome?),
    }
}
