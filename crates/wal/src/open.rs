//! Opening a log: create it, or examine it and make it ready for the next record.
//!
//! A power cut while a log is being opened leaves something that opens again, with the same records: the mark says
//! `Still` before the last segment is cut or extended, and `Open` only once that is durable.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use tracing::{info, warn};

use crate::dir::Dir;
use crate::disk::{Disk, RealDisk};
use crate::error::Error;
use crate::examine::{self, Examiner, Files, Tail, Torn};
use crate::format::header::Previous;
use crate::format::mark::{Mark, State};
use crate::names;
use crate::options::Options;
use crate::segment::{self, Current};
use crate::spares::Spares;
use crate::wal::Wal;

/// Summary of opening a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovery {
    /// Last sequence number in the log.
    pub last_sequence: u64,
    /// The torn tail that was cut, if the process ended in the middle of a write.
    pub torn: Option<Torn>,
    /// Records replayed to the owner.
    pub records: u64,
    /// Bytes read.
    pub bytes: u64,
}

impl Wal {
    /// Opens the log in `dir`, an existing directory that the owner has locked, or creates one if there is none.
    ///
    /// `covered` is the last sequence number in the owner's durable snapshot, 0 without one. Each later record is
    /// passed to `replay`, in order. If damage is found, the records before it have been replayed already; the owner
    /// gets the error and must discard its state.
    pub fn open<E: From<Error>>(
        dir: &Path,
        options: Options,
        covered: u64,
        replay: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(Self, Recovery), E> {
        Self::open_on(real(dir)?, options, covered, replay)
    }

    /// [`Wal::open`] on another disk than the operating system's.
    pub fn open_on<E: From<Error>>(
        disk: Arc<dyn Disk>,
        options: Options,
        covered: u64,
        mut replay: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(Self, Recovery), E> {
        let dir = Dir::new(disk);
        let files = examine::survey(&dir)?;
        let Some(mark) = files.mark.filter(|mark| mark.state != State::New) else {
            let recovery = Recovery { last_sequence: covered, ..Recovery::default() };
            return Ok((begin(dir, options, files, covered)?, recovery));
        };
        let examiner = Examiner { dir: &dir, mark, covered, records: 0, bytes: 0, buffer: Vec::new() };
        let found = examiner.run(&files.segments, &mut replay)?;
        let recovery = Recovery {
            last_sequence: found.tail.last,
            torn: found.torn,
            records: found.records,
            bytes: found.bytes,
        };
        let mut wal = ready(dir, options, mark.log, found.tail, found.finished.into(), files.spares)?;
        wal.settle(mark, recovery.torn)?;
        for base in found.covered {
            wal.spares.take_back(base)?;
        }
        report(&recovery, mark.state);
        Ok((wal, recovery))
    }

    /// Creates a log whose first record follows `covered`, for an owner who begins with a snapshot from elsewhere.
    pub fn create(dir: &Path, options: Options, covered: u64) -> Result<Self, Error> {
        Self::create_on(real(dir)?, options, covered)
    }

    /// [`Wal::create`] on another disk than the operating system's.
    pub fn create_on(disk: Arc<dyn Disk>, options: Options, covered: u64) -> Result<Self, Error> {
        let dir = Dir::new(disk);
        let files = examine::survey(&dir)?;
        if files.mark.is_some_and(|mark| mark.state != State::New) {
            return Err(Error::Exists { directory: dir.path("") });
        }
        begin_new(dir, options, files, covered)
    }

    /// Makes the last segment ready for records. All that was read is made durable first: after a crash of the
    /// process alone it may be in the memory of the operating system only, and so may names.
    fn settle(&mut self, mark: Mark, torn: Option<Torn>) -> Result<(), Error> {
        self.current.file.sync_data()?;
        self.dir.sync()?;
        self.synced = self.last;
        if mark.state != State::Open || torn.is_some() {
            self.write_mark(State::Still)?;
            let length = self.options.reopened_bytes(self.current.end);
            match self.current.blank(length) {
                // Without room for records it can still be read, and a snapshot can free some.
                Err(full) if full.is_full() => self.current.blank(self.current.end)?,
                other => other?,
            }
        }
        self.write_mark(State::Open)
    }
}

fn real(dir: &Path) -> Result<Arc<dyn Disk>, Error> {
    let disk = RealDisk::new(dir).map_err(|source| Error::io("open", dir.to_owned(), source))?;
    Ok(Arc::new(disk))
}

/// Begins a log for which the disk shows no records; the owner must agree.
fn begin(dir: Dir, options: Options, files: Files, covered: u64) -> Result<Wal, Error> {
    let last = files.mark.map_or(0, |mark| mark.sequence);
    if last < covered {
        return Err(Error::Behind { directory: dir.path(""), last, covered });
    }
    if last > covered {
        return Err(Error::SegmentMissing {
            sequence: covered + 1,
            file: dir.path(&names::segment(covered + 1)),
        });
    }
    begin_new(dir, options, files, covered)
}

/// Begins a log after `last`. The mark comes first, so that segments without a mark are never the work of a crash.
fn begin_new(dir: Dir, options: Options, files: Files, last: u64) -> Result<Wal, Error> {
    let base = last + 1;
    if let Some(surplus) = files.segments.iter().find(|found| **found != base) {
        let file = dir.path(&names::segment(*surplus));
        return Err(Error::SegmentUnknown { file, sequence: last });
    }
    dir.sync()?;
    let log = match files.mark {
        Some(mark) => mark.log,
        None => u64::from_le_bytes(dir.random()?),
    };
    let fresh = Mark { log, state: State::New, sequence: last, base: 0, end: 0, length: 0 };
    if files.mark != Some(fresh) {
        segment::write_mark(&dir, &fresh)?;
    }
    let mut wal = if files.segments.is_empty() {
        let mut spares = Spares::new(dir.clone(), options.segment_bytes, files.spares)?;
        let spare = spares.take(options.first_bytes())?;
        let current = segment::place(&dir, spare, log, base, Previous::default())?;
        assemble(dir, options, log, current, VecDeque::new(), spares, last)
    } else {
        let tail = examine::open_unused(&dir, log, base)?;
        ready(dir, options, log, tail, VecDeque::new(), files.spares)?
    };
    wal.write_mark(State::Open)?;
    info!(directory = %wal.dir.path("").display(), base, "log created");
    Ok(wal)
}

/// A log whose last segment is open for writing, but not settled.
fn ready(
    dir: Dir,
    options: Options,
    log: u64,
    tail: Tail,
    finished: VecDeque<segment::Finished>,
    found: Vec<u64>,
) -> Result<Wal, Error> {
    let Tail { header, last, end, length } = tail;
    let file = dir.open(&names::segment(header.base))?;
    let current = Current { file, base: header.base, seed: header.seed(), end, length };
    let spares = Spares::new(dir.clone(), options.segment_bytes, found)?;
    Ok(assemble(dir, options, log, current, finished, spares, last))
}

fn assemble(
    dir: Dir,
    options: Options,
    log: u64,
    current: Current,
    finished: VecDeque<segment::Finished>,
    spares: Spares,
    last: u64,
) -> Wal {
    Wal {
        dir,
        options,
        log,
        current,
        finished,
        spares,
        group: Vec::new(),
        group_records: 0,
        last,
        synced: last,
        marked: false,
        poison: None,
    }
}

fn report(recovery: &Recovery, state: State) {
    let Recovery { last_sequence, records, bytes, .. } = *recovery;
    info!(last_sequence, records, bytes, clean = state == State::Closed, "log opened");
    if let Some(Torn { sequence, segment, offset, bytes }) = recovery.torn {
        warn!(sequence, segment, offset, bytes, "cut a torn tail off the log; none of it was acknowledged");
    }
}
