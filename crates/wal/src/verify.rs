//! Verifies a whole log.

use std::path::Path;
use std::sync::Arc;

use crate::dir::Dir;
use crate::disk::{Disk, RealDisk};
use crate::error::Error;
use crate::examine::{self, Examiner, Torn};
use crate::format::mark::State;
use crate::names;

/// The result of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Closed cleanly; otherwise in use, or left by a crash.
    pub clean: bool,
    /// Sequence number of the first record, or of the next one if there is none.
    pub first_sequence: u64,
    /// Last sequence number; one less than the first if there is no record.
    pub last_sequence: u64,
    /// Number of segments.
    pub segments: usize,
    /// Number of records.
    pub records: u64,
    /// Bytes of headers and records.
    pub bytes: u64,
    /// The torn tail that opening it would cut.
    pub torn: Option<Torn>,
}

/// Reads the log in `dir` from end to end, including what the owner's snapshot covers (up to `covered`), and changes
/// nothing. Damage, or a gap between the snapshot and the log, is an error that says where. A log that is being written
/// meanwhile can look damaged.
pub fn verify(dir: &Path, covered: u64) -> Result<Report, Error> {
    let disk = RealDisk::new(dir).map_err(|source| Error::Io {
        action: "open",
        file: dir.to_owned(),
        source: Arc::new(source),
    })?;
    verify_on(Arc::new(disk), covered)
}

/// [`verify`] on another disk than the operating system's.
pub fn verify_on(disk: Arc<dyn Disk>, covered: u64) -> Result<Report, Error> {
    let dir = Dir::new(disk);
    let files = examine::survey(&dir)?;
    let Some(mark) = files.mark.filter(|mark| mark.state != State::New) else {
        let last = files.mark.map_or(0, |mark| mark.sequence);
        connect(&dir, covered, last + 1, last)?;
        return Ok(Report {
            clean: false,
            first_sequence: last + 1,
            last_sequence: last,
            segments: files.segments.len(),
            records: 0,
            bytes: 0,
            torn: None,
        });
    };
    let first = files.segments.first().copied().unwrap_or(mark.base);
    // Treats only missing records as covered, so that all the rest is read.
    let before = first.saturating_sub(1);
    let buffer = Vec::new();
    let examiner = Examiner { dir: &dir, mark, covered: before, records: 0, bytes: 0, buffer };
    let found = examiner.run(&files.segments, &mut |_, _| Ok::<(), Error>(()))?;
    connect(&dir, covered, first, found.tail.last)?;
    Ok(Report {
        clean: mark.state == State::Closed,
        first_sequence: first,
        last_sequence: found.tail.last,
        segments: found.finished.len() + 1,
        records: found.records,
        bytes: found.bytes,
        torn: found.torn,
    })
}

/// Checks that the owner's snapshot and a log from `first` to `last` have no gap between them.
fn connect(dir: &Dir, covered: u64, first: u64, last: u64) -> Result<(), Error> {
    if first > covered + 1 {
        let file = dir.path(&names::segment(covered + 1));
        return Err(Error::SegmentMissing { sequence: covered + 1, file });
    }
    if last < covered {
        return Err(Error::Behind { directory: dir.path(""), last, covered });
    }
    Ok(())
}
