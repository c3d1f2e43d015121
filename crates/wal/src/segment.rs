//! Writes what surrounds the records: puts segments in place, and replaces the mark.

use crate::dir::{Dir, Handle};
use crate::error::Error;
use crate::format::header::{HEADER_BYTES, Header, Previous};
use crate::format::mark::Mark;
use crate::names;

/// A file of zeroes, durable in content and length, that is not part of the log yet.
pub(crate) struct Spare {
    pub(crate) number: u64,
    pub(crate) file: Handle,
    pub(crate) length: u64,
}

/// The segment that is being written.
pub(crate) struct Current {
    pub(crate) file: Handle,
    pub(crate) base: u64,
    pub(crate) seed: u32,
    /// Where the next group goes.
    pub(crate) end: u64,
    /// Up to where the file is zero behind `end`.
    pub(crate) length: u64,
}

/// A segment that is full; it stays until it is covered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Finished {
    pub(crate) base: u64,
    /// Bytes of it that are header and records.
    pub(crate) used: u64,
}

impl Current {
    pub(crate) fn is_empty(&self) -> bool {
        self.end == HEADER_BYTES
    }

    pub(crate) fn as_previous(&self) -> Previous {
        Previous { base: self.base, length: self.length }
    }

    /// Truncates the file at `end` and writes zeroes up to `length`. The mark must say that bytes after `end` are
    /// meaningless. Truncating first, so that no byte of a torn group survives: an intact record of it could otherwise
    /// be mistaken, one day, for the successor of a record written in place of its predecessor.
    pub(crate) fn blank(&mut self, length: u64) -> Result<(), Error> {
        self.file.set_len(self.end)?;
        self.file.write_zeroes(self.end, length).map_err(Error::or_full)?;
        self.file.sync_all().map_err(Error::or_full)?;
        self.length = length;
        Ok(())
    }

    /// Adds zeroes up to `length`, or leaves the file as it was if there is no room. The mark must say that bytes after
    /// `end` are meaningless.
    pub(crate) fn extend(&mut self, length: u64) -> Result<(), Error> {
        let grown = self.file.write_zeroes(self.length, length).and_then(|()| self.file.sync_all());
        match grown.map_err(Error::or_full) {
            Ok(()) => self.length = length,
            Err(full) if full.is_full() => {
                self.file.set_len(self.length)?;
                self.file.sync_all()?;
                return Err(full);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Makes a spare the segment that begins with `base`.
///
/// The header is durable before the file gets its name, so a segment without an intact header is never the work of
/// a power cut. And the caller has synced all records before `base`, so the name alone proves that they were durable.
pub(crate) fn place(
    dir: &Dir,
    spare: Spare,
    log: u64,
    base: u64,
    previous: Previous,
) -> Result<Current, Error> {
    let Spare { number, mut file, length } = spare;
    let header = Header { log, base, previous, salt: dir.random()? };
    let (from, to) = (names::spare(number), names::segment(base));
    file.write_at(0, &header.encode()).map_err(Error::or_full)?;
    file.sync_data().map_err(Error::or_full)?;
    dir.rename(&from, &to).map_err(Error::or_full)?;
    dir.sync()?;
    file.renamed(dir.path(&to));
    Ok(Current { file, base, seed: header.seed(), end: HEADER_BYTES, length })
}

/// Replaces the mark. Everything that it claims must be durable already, names included.
pub(crate) fn write_mark(dir: &Dir, mark: &Mark) -> Result<(), Error> {
    let next = dir.create(names::MARK_NEXT).map_err(Error::or_full)?;
    next.write_at(0, &mark.encode()).map_err(Error::or_full)?;
    next.sync_all().map_err(Error::or_full)?;
    dir.rename(names::MARK_NEXT, names::MARK).map_err(Error::or_full)?;
    dir.sync()
}
