//! Writing a namespace from an export.
//!
//! A note in the namespace says that an import is in progress, and of which export; whoever owns things refuses to live
//! there until it is gone. Run again after a crash with the same export, the import goes on: what is there is compared,
//! what is missing is made. At its end, in one transaction, the note goes and the generation rises, so that every fence
//! given out from now on is greater than any before.

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
/// Bytes of data in one transaction, far below what a request may hold; a znode that is larger goes alone.
const BATCH_BYTES_MAX: usize = 256 * 1024;

/// How often the reply to one write may be lost before the write itself is believed to be the reason: servers close the
/// connection on a request that they do not like.
const UNKNOWN_MAX: u32 = 10;

/// What a record's data and path may take together. A server closes the connection on a request of 1 MiB or more, as
/// `jute.maxbuffer` is by default; the rest is room for headers and access lists.
const RECORD_BYTES_MAX: usize = 1024 * 1024 - 8 * 1024;

/// What the operator chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Whether what is there is deleted first.
    pub replace: bool,
    /// Whether all counters are raised, and not only those that matter.
    pub all_counters: bool,
}

/// What was imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Imported {
    /// Znodes.
    pub znodes: u64,
    /// The new generation.
    pub generation: u64,
    /// Whether an earlier attempt had begun.
    pub resumed: bool,
}

/// Why nothing was imported, or not all.
#[derive(Debug, Error)]
pub enum ImportError {
    /// It is no export.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// Something is there.
    #[error("{namespace} is not empty")]
    NotEmpty {
        /// The namespace.
        namespace: String,
    },
    /// Another import has begun there.
    #[error("an import of another export into {namespace} is not finished")]
    Other {
        /// The namespace.
        namespace: String,
    },
    /// Somebody is at work in what would be replaced.
    #[error("{namespace} is in use: ephemerals that sessions hold in it: {ephemerals}")]
    InUse {
        /// The namespace.
        namespace: String,
        /// How many.
        ephemerals: usize,
    },
    /// No server would take it.
    #[error(
        "{path} is too large: its path and data have {bytes} bytes, and at most {RECORD_BYTES_MAX} can be written"
    )]
    TooLarge {
        /// Which one.
        path: String,
        /// How large it is.
        bytes: usize,
    },
    /// ZooKeeper does not answer as it should.
    #[error("cannot write the namespace")]
    Call(#[from] CallError),
    /// It refuses a transaction.
    #[error("cannot write the namespace")]
    Transaction(#[from] TransactionError),
}

/// Writes an export below `namespace`. `term` sees the ensemble from its root.
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
        counters.note(&record);
        if record.path == "/" {
            // It is there, because the note is in it.
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

/// Where an import goes.
struct Target<'a> {
    /// A patient one: here every outcome is resolved.
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
