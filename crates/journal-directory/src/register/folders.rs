//! Folders and their servers in ZooKeeper.

use std::time::Duration;

use menagerie_journal::client::identify;
use menagerie_kernel::session::{Stat, Watch};
use menagerie_kernel::{CallError, Term, Transaction, TransactionError, retry};
use menagerie_znodes::Payload as _;
use menagerie_znodes::journals::{self, Folder, Server};

use super::claim::{FolderState, OwnServer};

/// How long to wait for a registered server to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Reads a folder: its state, the version of its record, and watches for the next change.
pub(super) async fn read_folder(
    term: &Term,
    folder: &str,
    ours: &OwnServer,
) -> Result<(FolderState, i32, [Watch; 2]), CallError> {
    let znode = journals::folder(folder);
    retry::ensure(term, journals::root().path(), b"").await?;
    retry::ensure(term, znode.path(), &Folder::default().encode()).await?;
    term.sync(znode.path()).await?;
    let (starts, _, servers_watch) = term.children_watched(znode.path()).await?;
    let record = term.read_watched(&znode).await?;
    let (record, folder_watch) = record.ok_or_else(|| CallError::no_znode(&znode))?;
    let found = read_servers(term, folder, &starts).await?;
    let own = &ours.server.start;
    let is_ours =
        found.iter().any(|(server, stat)| server.start == *own && stat.ephemeral_owner == term.session_id());
    let servers = found.into_iter().map(|(server, _)| server).collect();
    let version = record.version();
    Ok((FolderState { folder: record.value, servers, is_ours }, version, [folder_watch, servers_watch]))
}

/// The servers of these starts. Skips damaged entries: nobody can ask them, and they end with their sessions.
async fn read_servers(
    term: &Term,
    folder: &str,
    starts: &[String],
) -> Result<Vec<(Server, Stat)>, CallError> {
    let znodes: Vec<_> = starts.iter().map(|start| journals::server(folder, start).maybe_damaged()).collect();
    let found = term.read_many(&znodes).await?.into_iter().flatten();
    Ok(found.filter_map(|found| Some((found.value.sound()?, found.stat))).collect())
}

/// Claims the folder if its record has not changed. The next read shows whether that succeeded.
pub(super) async fn claim_folder(
    term: &Term,
    folder: &str,
    version: i32,
    seen: &FolderState,
    dead: &[&Server],
    ours: &OwnServer,
) -> Result<(), CallError> {
    let own = journals::server(folder, &ours.server.start);
    let record = Folder { last: Some(ours.server.clone()), contested_by: None };
    let mut transaction = Transaction::new(term).set(&journals::folder(folder), &record, Some(version));
    // Our own entry may be left over from the previous session.
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

/// A server of another folder that registered our name before us.
pub(super) async fn namesake(
    term: &Term,
    folder: &str,
    ours: &OwnServer,
) -> Result<Option<Server>, CallError> {
    let own = journals::server(folder, &ours.server.start);
    let since = term.stat(own.path()).await?.map_or(i64::MAX, |stat| stat.czxid);
    for other in term.children(journals::root().path()).await?.iter().filter(|other| *other != folder) {
        let starts = match term.children(journals::folder(other).path()).await {
            Err(CallError::NoZnode { .. }) => continue,
            starts => starts?,
        };
        let found = read_servers(term, other, &starts).await?.into_iter();
        let mut namesakes =
            found.filter(|(server, stat)| server.name == ours.server.name && stat.czxid < since);
        if let Some((server, _)) = namesakes.next() {
            return Ok(Some(server));
        }
    }
    Ok(None)
}

/// Whether this very start answers at its address, and not another journal that listens there by now.
pub(super) async fn is_alive(server: &Server) -> bool {
    let found = identify(&server.address, server.tls, ANSWER_TIMEOUT).await;
    found.is_ok_and(|identity| identity.start.to_string() == server.start)
}
