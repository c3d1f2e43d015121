//! Errors of the log, with file and offset.

#![allow(missing_docs, reason = "the fields of errors name themselves")]

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// An error of the log.
///
/// Cloneable, because an error of the disk poisons the log: each later call answers with the first cause.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The operating system refused. The log is poisoned: after a failed write or sync the contents of the disk are
    /// uncertain, and another sync would report success without having written.
    #[error("cannot {action} {}", file.display())]
    Io { action: &'static str, file: PathBuf, source: Arc<io::Error> },
    /// The disk is full, and a new segment is needed. The log is as it was: nothing of the group is in it. Abandon the
    /// group, or make room and commit again.
    #[error("no room left to {action} {}", file.display())]
    Full { action: &'static str, file: PathBuf, source: Arc<io::Error> },
    /// The limit of open files is reached, of this process or this machine. The log is as it was, as after
    /// [`Error::Full`]: a file that could not be opened was not changed.
    #[error("too many files are open to {action} {}", file.display())]
    OutOfFiles { action: &'static str, file: PathBuf, source: Arc<io::Error> },
    /// Something that had been durable is missing or changed.
    #[error("{} is damaged at offset {offset} (sequence {sequence}): {damage}", file.display())]
    Damaged {
        file: PathBuf,
        /// The first byte that is wrong, as far as known.
        offset: u64,
        /// The sequence number expected there; for the mark and headers, the next one after those that they cover.
        sequence: u64,
        /// What is wrong, or how we know that this was once durable.
        damage: Damage,
    },
    /// There are segments but no mark, so it is unknown how far the log was durable.
    #[error("{} is missing, but there is a log: {}", mark.display(), segment.display())]
    MarkMissing {
        /// Where the mark should be.
        mark: PathBuf,
        /// The first segment found.
        segment: PathBuf,
    },
    /// Records that are neither covered by the owner's snapshot nor in any segment.
    #[error("the log has a gap at sequence {sequence}: {} is missing", file.display())]
    SegmentMissing {
        /// The first missing sequence number.
        sequence: u64,
        /// The missing file; where its exact name is not known, the name it would have if it began right there.
        file: PathBuf,
    },
    /// A segment that the mark does not know, although the mark is written before a segment is used.
    #[error("{} is not known to the mark, which ends at sequence {sequence}", file.display())]
    SegmentUnknown {
        file: PathBuf,
        /// The last sequence number the mark knows.
        sequence: u64,
    },
    /// A newer program wrote the file.
    #[error("{} has format version {found}; this program knows {known}", file.display())]
    NewerFormat {
        file: PathBuf,
        found: u32,
        /// Ours.
        known: u32,
    },
    /// The owner's snapshot covers more than the log has ever held, or the log had more before it was reopened: one of
    /// the two is from another time or place.
    #[error("the log in {} ends at sequence {last}, before sequence {covered}, which the snapshot covers", directory.display())]
    Behind {
        directory: PathBuf,
        /// The last sequence number in the log.
        last: u64,
        /// The last sequence number that the owner's snapshot covers.
        covered: u64,
    },
    /// There is already a log in the directory.
    #[error("there is a log in {} already", directory.display())]
    Exists { directory: PathBuf },
    /// The record is longer than the log's options allow. It was not appended.
    #[error("a record of {bytes} bytes is longer than the maximum of {max}")]
    TooLarge {
        /// Length of the refused payload.
        bytes: usize,
        max: usize,
    },
}

/// What is damaged, or how we know that it had been durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// The mark or a segment's header does not have its checksum, or contradicts the file's name.
    Header,
    /// The header belongs to another log.
    Foreign,
    /// The file's length is not what was synced.
    Length {
        /// The length that was made durable.
        expected: u64,
        /// The length found.
        found: u64,
    },
    /// The log was closed cleanly, or recovered, with everything up to this sequence number durable.
    Closed {
        /// The last sequence number when it was closed.
        last: u64,
    },
    /// The mark says that everything up to here was durable.
    BelowMark {
        /// The sequence number in the mark.
        mark: u64,
    },
    /// The owner's snapshot covers it, and only durable records are covered.
    Covered {
        /// The last sequence number that the snapshot covers.
        covered: u64,
    },
    /// A later segment was begun, which happens only when everything before it is durable.
    LaterSegment {
        /// First sequence number of that segment.
        base: u64,
    },
    /// A later record is intact and says that this one had been durable when it was written.
    LaterRecord {
        /// Offset of that record in the same file.
        offset: u64,
        /// Its sequence number.
        sequence: u64,
        /// What had been durable when it was written.
        synced: u64,
    },
    /// Bytes where a segment that has not been used must be zero.
    NotEmpty,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => write!(f, "its header is not intact"),
            Self::Foreign => write!(f, "it belongs to another log"),
            Self::Length { expected, found } => write!(f, "it has {found} bytes instead of {expected}"),
            Self::Closed { last } => write!(f, "the log was settled with sequence {last} durable"),
            Self::BelowMark { mark } => write!(f, "the mark says that sequence {mark} was durable"),
            Self::Covered { covered } => write!(f, "the snapshot covers sequence {covered}"),
            Self::LaterSegment { base } => write!(f, "a later segment begins with sequence {base}"),
            Self::LaterRecord { offset, sequence, synced } => write!(
                f,
                "the intact record {sequence} at offset {offset} says that sequence {synced} was durable"
            ),
            Self::NotEmpty => write!(f, "there are bytes in a segment that was never used"),
        }
    }
}

impl Error {
    /// An error of the operating system.
    pub(crate) fn io(action: &'static str, file: PathBuf, source: io::Error) -> Self {
        let (passes, source) = (is_out_of_files(&source), Arc::new(source));
        if passes { Self::OutOfFiles { action, file, source } } else { Self::Io { action, file, source } }
    }

    /// What an operator can try.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Io { .. } => "look at the disk and its permissions, then start again",
            Self::Full { .. } => "free space on this file system; nothing that was acknowledged is lost",
            Self::OutOfFiles { .. } => {
                "raise the limit of open files (ulimit -n), or see which processes have them open; nothing that was acknowledged is \
                 lost"
            }
            Self::Damaged { .. }
            | Self::MarkMissing { .. }
            | Self::SegmentMissing { .. }
            | Self::SegmentUnknown { .. } => {
                "copy the directory away, look at the disk, and restore all its files from one backup; \
                 nothing was changed"
            }
            Self::NewerFormat { .. } => "use the newer program that wrote this log",
            Self::Behind { .. } => {
                "restore the snapshot and the log from the same backup; nothing was changed"
            }
            Self::Exists { .. } => "open it, or choose an empty directory",
            Self::TooLarge { .. } => "send less at once, or raise the maximum record length",
        }
    }

    /// Turns the error into [`Error::Full`] if the disk is full; for files that the log can do without.
    pub(crate) fn or_full(self) -> Self {
        match self {
            Self::Io { action, file, source } if is_full(&source) => Self::Full { action, file, source },
            other => other,
        }
    }

    /// Whether the disk or the table of open files is full: the log goes on.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::OutOfFiles { .. })
    }

    /// Whether a group could not be written for want of room although its segment existed, as on file systems that
    /// never write in place. The group was not acknowledged, and only the group itself is in doubt. A failed sync is
    /// different: it puts earlier writes in doubt, too.
    pub fn is_unwritten(&self) -> bool {
        matches!(self, Self::Io { action: "write", source, .. } if is_full(source))
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether the limit of open files is reached, of this process or this machine: temporary, like a full disk.
pub fn is_out_of_files(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn want_of_room_is_told_by_its_kind_and_does_not_end_the_log() {
        let failed =
            |errno| Error::io("create", "spare-1".into(), io::Error::from_raw_os_error(errno)).or_full();
        for errno in [23, 24] {
            let error = failed(errno);
            assert!(error.is_full() && error.help().contains("ulimit"), "errno {errno}: {error:?}");
        }
        let full = failed(28);
        assert!(full.is_full() && full.help().contains("free space"), "{full:?}");
        assert!(!failed(5).is_full());
    }
}
