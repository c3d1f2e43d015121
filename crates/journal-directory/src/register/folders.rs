//! What ZooKeeper knows of folders and who serves them.

use std::time::Duration;

use menagerie_journal::client::identify;
use menagerie_kernel::session::{Stat, Watch};
use menagerie_kernel::{CallError, Term, Transaction, TransactionError, retry};
use menagerie_znodes::Payload as _;
use menagerie_znodes::journals::{self, Folder, Server};

use super::claim::{Ours, Seen};

/// How long one that is registered may take to answer.
const ANSWER: Duration = Duration::from_secs(2);

/// What ZooKeeper knows of the folder, the version of that, and watches for its next change.
pub(super) async fn look(
    term: &Term,
    folder: &str,
    ours: &Ours,
) -> Result<(Seen, i32, [Watch; 2]), CallError> {
    let znode = journals::folder(folder);
    retry::ensure(term, journals::root().path(), b"").await?;
    retry::ensure(term, znode.path(), &Folder::default().encode()).await?;
    term.sync(znode.path()).await?;
    let (starts, _, servers_watch) = term.children_watched(znode.path()).await?;
    let record = term.read_watched(&znode).await?;
    let (record, folder_watch) = record.ok_or_else(|| CallError::no_znode(&znode))?;
    let found = read(term, folder, &starts).await?;
    let own = &ours.server.start;
    let is_ours =
        found.iter().any(|(server, stat)| server.start == *own && stat.ephemeral_owner == term.session_id());
    let servers = found.into_iter().map(|(server, _)| server).collect();
    let version = record.version();
    Ok((Seen { folder: record.value, servers, is_ours }, version, [folder_watch, servers_watch]))
}

/// The processes of these starts. What cannot be read is nobody who could be asked, and goes with its session.
async fn read(term: &Term, folder: &str, starts: &[String]) -> Result<Vec<(Server, Stat)>, CallError> {
    let znodes: Vec<_> = starts.iter().map(|start| journals::server(folder, start).maybe_damaged()).collect();
    let found = term.read_many(&znodes).await?.into_iter().flatten();
    Ok(found.filter_map(|found| Some((found.value.sound()?, found.stat))).collect())
}

/// Takes the folder, if it is still as it was seen. Whether it is ours then, the next look shows.
pub(super) async fn take(
    term: &Term,
    folder: &str,
    version: i32,
    seen: &Seen,
    dead: &[&Server],
    ours: &Ours,
) -> Result<(), CallError> {
    let own = journals::server(folder, &ours.server.start);
    let record = Folder { last: Some(ours.server.clone()), contested_by: None };
    let mut transaction = Transaction::new(term).set(&journals::folder(folder), &record, Some(version));
    // Our own entry may be there from the session before.
    let former = seen.servers.iter().filter(|server| server.start == ours.server.start);
    for server in dead.iter().copied().chain(former) {
        transaction = transaction.delete(&journals::server(folder, &server.start), None);
    }
    match transaction.create(&own, &ours.server).commit().await {
        Ok(_) => Ok(()),
        Err(TransactionError::Part { source, .. } | TransactionError::Call(source)) => match source {
            CallError::BadVersion { .. }
            | CallError::NoZnode { .. }
            | CallError::Exists { .. }
            | CallError::Unknown { .. } => Ok(()),
            error => Err(error),
        },
        Err(TransactionError::Lost { .. }) => Ok(()),
    }
}

/// Another folder's process of our name that was registered before us.
pub(super) async fn namesake(term: &Term, folder: &str, ours: &Ours) -> Result<Option<Server>, CallError> {
    let own = journals::server(folder, &ours.server.start);
    let since = term.stat(own.path()).await?.map_or(i64::MAX, |stat| stat.czxid);
    for other in term.children(journals::root().path()).await?.iter().filter(|other| *other != folder) {
        let starts = match term.children(journals::folder(other).path()).await {
            Err(CallError::NoZnode { .. }) => continue,
            starts => starts?,
        };
        let found = read(term, other, &starts).await?.into_iter();
        let mut namesakes =
            found.filter(|(server, stat)| server.name == ours.server.name && stat.czxid < since);
        if let Some((server, _)) = namesakes.next() {
            return Ok(Some(server));
        }
    }
    Ok(None)
}

/// Whether this very start answers where it said: another journal that listens there by now is not it.
pub(super) async fn answers(server: &Server) -> bool {
    let found = identify(&server.address, server.tls, ANSWER).await;
    found.is_ok_and(|identity| identity.start.to_string() == server.start)
}
