//! The calls to the server.

use menagerie_znodes::Kind;
use zookeeper_client::{CreateMode, Error, MultiReadResult};

use super::flight::Undo;
use super::stat::Stat;
use super::term::Term;
use super::watch::{TreeWatch, Watch};
use crate::error::CallError;

/// Znodes read by one request: even with long paths it stays well below the server's limit.
const READS_MAX: usize = 1_000;

/// Bytes of data in one request, with room for paths and headers: a server closes the connection on more than 1 MiB,
/// which fails everybody else's requests.
pub(crate) const REQUEST_BYTES_MAX: usize = (1 << 20) - (32 << 10);

/// Refuses requests that are too long for any server.
pub(crate) fn fits(path: &str, bytes: usize) -> Result<(), CallError> {
    if bytes <= REQUEST_BYTES_MAX {
        return Ok(());
    }
    let why = format!("{bytes} bytes in one request, and ZooKeeper takes {REQUEST_BYTES_MAX}");
    Err(CallError::Refused { path: path.to_owned(), why })
}

/// A znode that was just created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// Its path; for a sequence znode with the number.
    pub path: String,
    /// As of its creation.
    pub stat: Stat,
}

impl Created {
    pub(super) fn new(
        path: String,
        kind: Kind,
        sequence: zookeeper_client::CreateSequence,
        stat: zookeeper_client::Stat,
    ) -> Self {
        let path = match kind {
            Kind::PersistentSequence | Kind::EphemeralSequence => format!("{path}{sequence}"),
            Kind::Persistent | Kind::Ephemeral | Kind::Container => path,
        };
        Self { path, stat: stat.into() }
    }
}

/// What to do when a creation happens after its caller has given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfLate {
    /// Delete the znode.
    Undo,
    /// Keep the znode, and report it ([`LateOutcome`](super::LateOutcome)).
    Report,
}

/// Calls that only read.
impl Term {
    /// Data and stat of a znode.
    pub async fn get(&self, path: &str) -> Result<(Vec<u8>, Stat), CallError> {
        let (data, stat) = self.ask(path, |client, path| async move { client.get_data(&path).await }).await?;
        Ok((data, stat.into()))
    }

    /// The same, and a watch for its next change.
    pub async fn get_watched(&self, path: &str) -> Result<(Vec<u8>, Stat, Watch), CallError> {
        let share = self.watching(path)?;
        let (data, stat, watcher) =
            self.ask(path, |client, path| async move { client.get_and_watch_data(&path).await }).await?;
        Ok((data, stat.into(), Watch { watcher, share }))
    }

    /// The stat of a znode, if it exists.
    pub async fn stat(&self, path: &str) -> Result<Option<Stat>, CallError> {
        let stat = self.ask(path, |client, path| async move { client.check_stat(&path).await }).await?;
        Ok(stat.map(Stat::from))
    }

    /// The same, and a watch for its creation, change or deletion.
    pub async fn stat_watched(&self, path: &str) -> Result<(Option<Stat>, Watch), CallError> {
        let share = self.watching(path)?;
        let (stat, watcher) =
            self.ask(path, |client, path| async move { client.check_and_watch_stat(&path).await }).await?;
        Ok((stat.map(Stat::from), Watch { watcher, share }))
    }

    /// The names of a znode's children, in no order.
    pub async fn children(&self, path: &str) -> Result<Vec<String>, CallError> {
        self.ask(path, |client, path| async move { client.list_children(&path).await }).await
    }

    /// The same with the parent's stat.
    pub async fn children_and_stat(&self, path: &str) -> Result<(Vec<String>, Stat), CallError> {
        let (children, stat) =
            self.ask(path, |client, path| async move { client.get_children(&path).await }).await?;
        Ok((children, stat.into()))
    }

    /// The same, and a watch for their next change.
    pub async fn children_watched(&self, path: &str) -> Result<(Vec<String>, Stat, Watch), CallError> {
        let share = self.watching(path)?;
        let (children, stat, watcher) =
            self.ask(path, |client, path| async move { client.get_and_watch_children(&path).await }).await?;
        Ok((children, stat.into(), Watch { watcher, share }))
    }

    /// Data and stat of many znodes in few round trips; `None` for those that do not exist.
    pub async fn get_many(&self, paths: &[String]) -> Result<Vec<Option<(Vec<u8>, Stat)>>, CallError> {
        let mut all = Vec::with_capacity(paths.len());
        for paths in paths.chunks(READS_MAX) {
            all.extend(self.get_chunk(paths).await?);
        }
        Ok(all)
    }

    async fn get_chunk(&self, paths: &[String]) -> Result<Vec<Option<(Vec<u8>, Stat)>>, CallError> {
        let Some(first) = paths.first() else { return Ok(Vec::new()) };
        let results = self
            .ask(first, |client, _| {
                let paths = paths.to_vec();
                async move {
                    let mut reader = client.new_multi_reader();
                    for path in &paths {
                        reader.add_get_data(path)?;
                    }
                    reader.commit().await
                }
            })
            .await?;
        let found = results.into_iter().zip(paths).map(|(result, path)| match result {
            MultiReadResult::Data { data, stat } => Ok(Some((data, stat.into()))),
            MultiReadResult::Error { err: Error::NoNode } => Ok(None),
            MultiReadResult::Error { err } => Err(CallError::from_client(err, path)),
            other => Err(CallError::Refused {
                path: path.clone(),
                why: format!("an answer of another kind: {other:?}"),
            }),
        });
        found.collect()
    }

    /// Waits until our server has seen every write that was acknowledged to anybody before.
    pub async fn sync(&self, path: &str) -> Result<(), CallError> {
        self.ask(path, |client, path| async move { client.sync(&path).await }).await
    }

    /// A watch on a path and all below it.
    pub async fn watch_tree(&self, path: &str) -> Result<TreeWatch, CallError> {
        self.watch(path, zookeeper_client::AddWatchMode::PersistentRecursive).await
    }

    /// A watch on one path and the list of its children.
    pub async fn watch_znode(&self, path: &str) -> Result<TreeWatch, CallError> {
        self.watch(path, zookeeper_client::AddWatchMode::Persistent).await
    }

    async fn watch(&self, path: &str, mode: zookeeper_client::AddWatchMode) -> Result<TreeWatch, CallError> {
        let share = self.watching(path)?;
        let watcher = self.ask(path, |client, path| async move { client.watch(&path, mode).await }).await?;
        Ok(TreeWatch { watcher, ended: false, _share: share })
    }
}

/// Calls that change one znode. None of them is repeated: after [`CallError::Unknown`] see [`crate::retry`].
impl Term {
    /// Creates a znode.
    pub async fn create(
        &self,
        path: &str,
        data: &[u8],
        kind: Kind,
        if_late: IfLate,
    ) -> Result<Created, CallError> {
        fits(path, data.len())?;
        let undo: Option<Undo<Created>> = match if_late {
            IfLate::Report => None,
            IfLate::Undo => {
                let term = self.patient();
                Some(Box::new(move |created: Created| {
                    Box::pin(async move {
                        // If this fails the session is over, and the znode with it. A chosen name may belong to
                        // somebody else by now.
                        let _ = crate::retry::remove_created(&term, &created.path, created.stat.czxid).await;
                    })
                }))
            }
        };
        let (data, acls) = (data.to_vec(), self.acls());
        self.write(path, undo, |client, path| async move {
            let mode = create_mode(kind).with_acls(acls);
            let (stat, sequence) = client.create(&path, &data, &mode).await?;
            Ok(Created::new(path, kind, sequence, stat))
        })
        .await
    }

    /// Sets data; with a version, only if it is still that one.
    pub async fn set(&self, path: &str, data: &[u8], version: Option<i32>) -> Result<Stat, CallError> {
        fits(path, data.len())?;
        let data = data.to_vec();
        let stat = self
            .write(path, None, |client, path| async move { client.set_data(&path, &data, version).await })
            .await?;
        Ok(stat.into())
    }

    /// Deletes a znode; with a version, only if it is still that one.
    pub async fn delete(&self, path: &str, version: Option<i32>) -> Result<(), CallError> {
        self.write(path, None, |client, path| async move { client.delete(&path, version).await }).await
    }
}

pub(crate) fn create_mode(kind: Kind) -> CreateMode {
    match kind {
        Kind::Persistent => CreateMode::Persistent,
        Kind::Ephemeral => CreateMode::Ephemeral,
        Kind::PersistentSequence => CreateMode::PersistentSequential,
        Kind::EphemeralSequence => CreateMode::EphemeralSequential,
        Kind::Container => CreateMode::Container,
    }
}

/// One of several reads in one round trip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// Data and stat.
    Data(String),
    /// The names of the children.
    Children(String),
}

/// The result of one [`Read`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadResult {
    /// Data and stat.
    Data(Vec<u8>, Stat),
    /// The names of the children, in no order.
    Children(Vec<String>),
    /// No such znode, or our user may not read it.
    Nothing,
}

/// Several reads in one request. All of them see the same state.
impl Term {
    /// Reads all in one round trip; results are in the order given.
    pub async fn read_together(&self, reads: &[Read]) -> Result<Vec<ReadResult>, CallError> {
        let Some(Read::Data(first) | Read::Children(first)) = reads.first() else { return Ok(Vec::new()) };
        let results = self
            .ask(first, |client, _| {
                let reads = reads.to_vec();
                async move {
                    let mut reader = client.new_multi_reader();
                    for read in &reads {
                        match read {
                            Read::Data(path) => reader.add_get_data(path)?,
                            Read::Children(path) => reader.add_get_children(path)?,
                        }
                    }
                    reader.commit().await
                }
            })
            .await?;
        Ok(results
            .into_iter()
            .map(|result| match result {
                zookeeper_client::MultiReadResult::Data { data, stat } => ReadResult::Data(data, stat.into()),
                zookeeper_client::MultiReadResult::Children { children } => ReadResult::Children(children),
                _ => ReadResult::Nothing,
            })
            .collect())
    }
}
