//! Exporting a namespace.

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

/// Znodes read at once.
const AT_ONCE: usize = 64;

/// Summary of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exported {
    /// Znodes exported.
    pub znodes: u64,
    /// Ephemerals, which are left out. If there are any, somebody is at work.
    pub ephemerals: u64,
    /// Whether the namespace changed meanwhile, so that parts may show different moments.
    pub changed: bool,
    /// Whether an engine has ever used the namespace: it has a generation.
    pub lived_in: bool,
}

/// Why an export failed.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the fields of errors name themselves")]
pub enum ExportError {
    /// The namespace does not exist.
    #[error("{namespace} does not exist")]
    NoNamespace { namespace: String },
    /// The namespace changed meanwhile: parts of the export would show different moments.
    #[error("{namespace} changed while it was exported")]
    Changed { namespace: String },
    /// An import into the namespace is in progress.
    #[error("an import into {namespace} is not finished")]
    Importing { namespace: String },
    /// A call to ZooKeeper failed.
    #[error("cannot read the namespace")]
    Call(#[from] CallError),
    /// The export cannot be written.
    #[error("cannot write the export")]
    Write(#[from] io::Error),
}

/// The result of reading a path.
enum ZnodeRead {
    Znode { record: Record, children: Vec<String> },
    Ephemeral,
    Gone,
}

/// What to do when the namespace changes meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenChanged {
    /// Omit the last line, so that nobody takes the export for complete.
    Fail,
    /// Go on, and report it.
    Tell,
}

/// Exports a namespace line by line to `put`. The root of `term` is the ensemble's.
pub async fn export(
    term: &Term,
    namespace: &str,
    when_changed: WhenChanged,
    put: &mut dyn FnMut(&Line) -> io::Result<()>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Exported, ExportError> {
    // Our server may lag, and what it catches up with would look like a change.
    term.sync(namespace).await?;
    let generation = generation(term, namespace).await?;
    if term.stat(place(namespace, &kernel::importing()).path()).await?.is_some() {
        return Err(ExportError::Importing { namespace: namespace.to_owned() });
    }
    // Servers before 3.6 have no such watches; then changes go unnoticed.
    let mut watch = term.watch_tree(namespace).await.ok();
    let (namespace, exported_ms) = (namespace.to_owned(), now_ms());
    let lived_in = generation.is_some();
    // No fence was ever issued there, so any generation is higher.
    let generation = generation.unwrap_or(0);
    let export = format!("{exported_ms:x}-{:x}", term.session_id());
    let root = namespace.clone();
    put(&Line::Header(Header { version: VERSION, export, namespace, generation, exported_ms }))?;

    let mut exported = Exported { znodes: 0, ephemerals: 0, changed: false, lived_in };
    let mut level = vec!["/".to_owned()];
    while !level.is_empty() {
        let mut below = Vec::new();
        let mut reads = stream::iter(level).map(|path| read_znode(term, &root, path)).buffered(AT_ONCE);
        while let Some(found) = reads.next().await {
            match found? {
                ZnodeRead::Gone => {}
                ZnodeRead::Ephemeral => exported.ephemerals += 1,
                ZnodeRead::Znode { record, children } => {
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

/// `None` for a namespace that no engine has ever used: only engines and imports create it.
async fn generation(term: &Term, namespace: &str) -> Result<Option<u64>, ExportError> {
    match term.read(&place(namespace, &kernel::generation())).await? {
        Some(generation) => Ok(Some(generation.value)),
        None => match term.stat(namespace).await? {
            Some(_) => Ok(None),
            None => Err(ExportError::NoNamespace { namespace: namespace.to_owned() }),
        },
    }
}

async fn read_znode(term: &Term, namespace: &str, path: String) -> Result<ZnodeRead, CallError> {
    let place = full(namespace, &path);
    let (children, data, access) =
        tokio::join!(term.children_and_stat(&place), term.get(&place), term.access(&place));
    let ((names, stat), (data, _), (access, _)) = match (children, data, access) {
        (Ok(children), Ok(data), Ok(access)) => (children, data, access),
        (Err(error), _, _) | (_, Err(error), _) | (_, _, Err(error)) => {
            return if error.is_no_znode() && path != "/" { Ok(ZnodeRead::Gone) } else { Err(error) };
        }
    };
    if stat.ephemeral_owner != 0 {
        return Ok(ZnodeRead::Ephemeral);
    }
    let ours = [kernel::generation().path().to_owned(), "/zookeeper".to_owned()];
    let mut children: Vec<String> = names.iter().map(|name| subtree::join(&path, name)).collect();
    children.retain(|child| !ours.contains(child));
    children.sort_unstable();
    Ok(ZnodeRead::Znode { record: Record { path, data, access, children_created: created(&stat) }, children })
}

/// Whether any event came since the watch was set. Events arrive before the reply to a later request.
async fn has_changed(term: &Term, namespace: &str, watch: Option<&mut TreeWatch>) -> Result<bool, CallError> {
    let Some(watch) = watch else { return Ok(false) };
    term.sync(namespace).await?;
    term.stat(namespace).await?;
    Ok(match watch.try_next() {
        None => false,
        // After a lost connection, events may be missing.
        Some(TreeEvent::At(..) | TreeEvent::Suspended | TreeEvent::Resumed | TreeEvent::Ended) => true,
    })
}
