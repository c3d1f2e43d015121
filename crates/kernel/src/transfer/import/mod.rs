//! Importing a namespace from an export.
//!
//! A note in the namespace says that an import is in progress, and of which export; owners refuse to connect until it
//! is gone. Run again with the same export after a crash, the import continues: it compares existing znodes and creates
//! missing ones. At the end, one transaction deletes the note and raises the generation, so that every later fence is
//! greater than any before.

mod begin;
mod write;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use thiserror::Error;

use super::counters::Counters;
use super::format::{self, FormatError, Header, Line, Record};
use super::{Progress, full};
use crate::error::CallError;
use crate::session::Term;
use crate::transaction::TransactionError;

/// Znodes in one transaction.
const BATCH_MAX: usize = 200;
/// Bytes of data in one transaction, far below the limit of a request; a larger znode is written alone.
const BATCH_BYTES_MAX: usize = 256 * 1024;

/// How often the reply to one write may be lost before we blame the write itself: servers close the connection on a
/// request that they do not like.
const UNKNOWN_MAX: u32 = 10;

/// Bytes of a record's data and path together. A server closes the connection on a request of 1 MiB or more, the
/// default of `jute.maxbuffer`; the rest is room for headers and access lists.
const RECORD_BYTES_MAX: usize = 1024 * 1024 - 8 * 1024;

/// Options of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Delete the existing content first.
    pub replace: bool,
    /// Raise all counters, and not only those that matter.
    pub all_counters: bool,
}

/// Summary of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Imported {
    /// Znodes imported.
    pub znodes: u64,
    /// The new generation.
    pub generation: u64,
    /// Whether an earlier attempt had begun.
    pub resumed: bool,
}

/// Why an import failed, or is incomplete.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the fields of errors name themselves")]
pub enum ImportError {
    /// The file is no valid export.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The namespace is not empty.
    #[error("{namespace} is not empty")]
    NotEmpty { namespace: String },
    /// Another import has begun there.
    #[error("an import of another export into {namespace} is not finished")]
    Other { namespace: String },
    /// The namespace that would be replaced has ephemerals: somebody is at work.
    #[error("{namespace} is in use: ephemerals that sessions hold in it: {ephemerals}")]
    InUse { namespace: String, ephemerals: usize },
    /// A znode is too large for any server.
    #[error(
        "{path} is too large: its path and data have {bytes} bytes, and at most {RECORD_BYTES_MAX} can be written"
    )]
    TooLarge { path: String, bytes: usize },
    /// A call to ZooKeeper failed.
    #[error("cannot write the namespace")]
    Call(#[from] CallError),
    /// ZooKeeper refused a transaction.
    #[error("cannot write the namespace")]
    Transaction(#[from] TransactionError),
}

/// Imports below `namespace`. The root of `term` is the ensemble's.
pub async fn import(
    term: &Term,
    namespace: &str,
    file: &Path,
    options: Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<Imported, ImportError> {
    let open = || File::open(file).map(BufReader::new).map_err(FormatError::from);
    let (header, end) = format::check(open()?)?;
    // Before anything is changed, and above all before anything is deleted.
    for line in format::lines(open()?) {
        if let Line::Znode(record) = line? {
            refuse_if_too_large(namespace, &record)?;
        }
    }
    let term = &term.patient();
    let target = Target { term, namespace, header: &header };
    let resumed = target.begin(options.replace, progress).await?;

    let mut counters = Counters::default();
    let mut batch = Vec::new();
    let mut done = 0;
    for line in format::lines(open()?) {
        let Line::Znode(record) = line? else { continue };
        counters.add(&record);
        if record.path == "/" {
            // The root exists, because the note is below it.
            target.write_one(&record).await?;
            done += 1;
            continue;
        }
        let bytes: usize = batch.iter().map(|record: &Record| record.data.len()).sum();
        if batch.len() >= BATCH_MAX || bytes + record.data.len() > BATCH_BYTES_MAX {
            done += batch.len() as u64;
            target.write(std::mem::take(&mut batch)).await?;
            progress(Progress { step: "imported", done, total: Some(end.znodes) });
        }
        batch.push(record);
    }
    target.write(batch).await?;
    progress(Progress { step: "imported", done: end.znodes, total: Some(end.znodes) });
    target.raise(counters.targets(options.all_counters), progress).await?;
    let generation = target.finish().await?;
    Ok(Imported { znodes: end.znodes, generation, resumed })
}

/// The namespace that is imported into.
struct Target<'a> {
    /// A patient term: the import resolves every outcome.
    term: &'a Term,
    namespace: &'a str,
    header: &'a Header,
}

fn refuse_if_too_large(namespace: &str, record: &Record) -> Result<(), ImportError> {
    let path = full(namespace, &record.path);
    match path.len() + record.data.len() {
        bytes if bytes > RECORD_BYTES_MAX => Err(ImportError::TooLarge { path, bytes }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_no_server_takes_is_refused_by_name() {
        let record = |bytes: usize| Record {
            path: "/x".to_owned(),
            data: vec![0; bytes],
            access: Vec::new(),
            children_created: 0,
        };
        let fits = RECORD_BYTES_MAX - "/menagerie/x".len();
        assert!(refuse_if_too_large("/menagerie", &record(fits)).is_ok());
        let error = refuse_if_too_large("/menagerie", &record(fits + 1)).unwrap_err();
        assert!(error.to_string().starts_with("/menagerie/x is too large"), "{error}");
    }
}
