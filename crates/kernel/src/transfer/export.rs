//! Reading a namespace.

use std::io;

use futures_util::{StreamExt as _, stream};
use menagerie_znodes::kernel;
use thiserror::Error;

use super::counters::created;
use super::format::{End, Header, Line, Record, VERSION};
use super::{Progress, full, place};
use crate::error::CallError;
use crate::session::{Term, TreeEvent, TreeWatch, now_ms};
use crate::subtree;

/// Znodes that are asked for at once.
const AT_ONCE: usize = 64;

/// What was exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exported {
    /// Znodes.
    pub znodes: u64,
    /// Ephemerals that were left out: somebody is at work.
    pub ephemerals: u64,
    /// Whether something changed meanwhile, so that parts may be of different times.
    pub changed: bool,
    /// Whether an engine has ever lived there: it has a generation.
    pub lived_in: bool,
}

/// Why there is no export.
#[derive(Debug, Error)]
pub enum ExportError {
    /// There is nothing.
    #[error("{namespace} does not exist")]
    NoNamespace {
        /// What was given.
        namespace: String,
    },
    /// Parts of it would be of different times.
    #[error("{namespace} changed while it was exported")]
    Changed {
        /// Which one.
        namespace: String,
    },
    /// It is half there.
    #[error("an import into {namespace} is not finished")]
    Importing {
        /// Which one.
        namespace: String,
    },
    /// ZooKeeper does not answer as it should.
    #[error("cannot read the namespace")]
    Call(#[from] CallError),
    /// It cannot be written.
    #[error("cannot write the export")]
    Write(#[from] io::Error),
}

/// What was found at a path.
enum Found {
    Znode { record: Record, children: Vec<String> },
    Ephemeral,
    Gone,
}

/// What to do when the namespace changes meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenChanged {
    /// Leave out the last line, so that nobody takes it for whole.
    Fail,
    /// Go on, and say so.
    Tell,
}

/// Reads a namespace, and gives it line by line to `put`. `term` sees the ensemble from its root.
pub async fn export(
    term: &Term,
    namespace: &str,
    when_changed: WhenChanged,
    put: &mut dyn FnMut(&Line) -> io::Result<()>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Exported, ExportError> {
    // Our server may be behind, and what comes meanwhile would look like a change.
    term.sync(namespace).await?;
    let generation = generation(term, namespace).await?;
    if term.stat(place(namespace, &kernel::importing()).path()).await?.is_some() {
        return Err(ExportError::Importing { namespace: namespace.to_owned() });
    }
    // Before 3.6 there are no such watches; whether something changes then nobody can tell.
    let mut watch = term.watch_tree(namespace).await.ok();
    let (namespace, exported_ms) = (namespace.to_owned(), now_ms());
    let lived_in = generation.is_some();
    // No fence was ever given out there: any generation is above.
    let generation = generation.unwrap_or(0);
    let export = format!("{exported_ms:x}-{:x}", term.session_id());
    let root = namespace.clone();
    put(&Line::Header(Header { version: VERSION, export, namespace, generation, exported_ms }))?;

    let mut exported = Exported { znodes: 0, ephemerals: 0, changed: false, lived_in };
    let mut level = vec!["/".to_owned()];
    while !level.is_empty() {
        let mut below = Vec::new();
        let mut looks = stream::iter(level).map(|path| look(term, &root, path)).buffered(AT_ONCE);
        while let Some(found) = looks.next().await {
            match found? {
                Found::Gone => {}
                Found::Ephemeral => exported.ephemerals += 1,
                Found::Znode { record, children } => {
                    below.extend(children);
                    put(&Line::Znode(record))?;
                    exported.znodes += 1;
                    progress(Progress { step: "exported", done: exported.znodes, total: None });
                }
            }
        }
        level = below;
    }
    exported.changed = has_changed(term, &root, watch.as_mut()).await?;
    if exported.changed && when_changed == WhenChanged::Fail {
        return Err(ExportError::Changed { namespace: root });
    }
    put(&Line::End(End { znodes: exported.znodes, ephemerals: exported.ephemerals }))?;
    Ok(exported)
}

/// None for a namespace in which no engine has ever lived: only they and imports make one.
async fn generation(term: &Term, namespace: &str) -> Result<Option<u64>, ExportError> {
    match term.read(&place(namespace, &kernel::generation())).await? {
        Some(generation) => Ok(Some(generation.value)),
        None => match term.stat(namespace).await? {
            Some(_) => Ok(None),
            None => Err(ExportError::NoNamespace { namespace: namespace.to_owned() }),
        },
    }
}

async fn look(term: &Term, namespace: &str, path: String) -> Result<Found, CallError> {
    let place = full(namespace, &path);
    let (children, data, access) =
        tokio::join!(term.children_and_stat(&place), term.get(&place), term.access(&place));
    let ((names, stat), (data, _), (access, _)) = match (children, data, access) {
        (Ok(children), Ok(data), Ok(access)) => (children, data, access),
        (Err(error), _, _) | (_, Err(error), _) | (_, _, Err(error)) => {
            return if error.is_no_znode() && path != "/" { Ok(Found::Gone) } else { Err(error) };
        }
    };
    if stat.ephemeral_owner != 0 {
        return Ok(Found::Ephemeral);
    }
    let ours = [kernel::generation().path().to_owned(), "/zookeeper".to_owned()];
    let mut children: Vec<String> = names.iter().map(|name| subtree::join(&path, name)).collect();
    children.retain(|child| !ours.contains(child));
    children.sort_unstable();
    Ok(Found::Znode { record: Record { path, data, access, children_created: created(&stat) }, children })
}

/// Whether anything was told since the watch was set. Events come before the answer to a later question.
async fn has_changed(term: &Term, namespace: &str, watch: Option<&mut TreeWatch>) -> Result<bool, CallError> {
    let Some(watch) = watch else { return Ok(false) };
    term.sync(namespace).await?;
    term.stat(namespace).await?;
    Ok(match watch.try_next() {
        None => false,
        // After a lost connection events may be missing.
        Some(TreeEvent::At(..) | TreeEvent::Suspended | TreeEvent::Resumed | TreeEvent::Ended) => true,
    })
}
