//! Reads a whole log and decides whether it is sound. Changes nothing.

use crate::dir::{Dir, Handle};
use crate::error::{Damage, Error};
use crate::format::block::{BLOCK_BYTES, Block, Unreadable, VERSION};
use crate::format::header::{HEADER_BYTES, Header};
use crate::format::mark::{Mark, State};
use crate::names::{self, Name};
use crate::scan::{Ending, Proven, Segment, Stop};
use crate::segment::Finished;

/// The files of a log directory.
pub(crate) struct Files {
    pub(crate) mark: Option<Mark>,
    /// By first sequence number, in order.
    pub(crate) segments: Vec<u64>,
    pub(crate) spares: Vec<u64>,
}

/// A torn tail: bytes of a group that was being written when the power failed, and that was never acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Torn {
    /// The first sequence number that is lost. It will be used again.
    pub sequence: u64,
    /// The segment it is in, by its first sequence number (16 hexadecimal digits in the file's name).
    pub segment: u64,
    /// Where the cut is.
    pub offset: u64,
    /// How much was cut: up to the last byte that was not zero.
    pub bytes: u64,
}

/// The result of examining a log.
pub(crate) struct Examined {
    /// Segments that the owner's snapshot covers wholly, oldest first; not read.
    pub(crate) covered: Vec<u64>,
    pub(crate) finished: Vec<Finished>,
    pub(crate) tail: Tail,
    pub(crate) torn: Option<Torn>,
    /// Records replayed to the owner, and bytes of all records read.
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

/// The last segment.
pub(crate) struct Tail {
    pub(crate) header: Header,
    /// The last sequence number of the log.
    pub(crate) last: u64,
    pub(crate) end: u64,
    pub(crate) length: u64,
}

/// Lists the directory and reads the mark.
pub(crate) fn survey(dir: &Dir) -> Result<Files, Error> {
    let mut files = Files { mark: None, segments: Vec::new(), spares: Vec::new() };
    for name in dir.list()? {
        match names::parse(&name) {
            Name::Mark => files.mark = Some(read_mark(dir)?),
            Name::Segment(base) => files.segments.push(base),
            Name::Spare(number) => files.spares.push(number),
            Name::Other => {}
        }
    }
    files.segments.sort_unstable();
    files.spares.sort_unstable();
    match (files.mark, files.segments.first()) {
        (None, Some(base)) => {
            Err(Error::MarkMissing { mark: dir.path(names::MARK), segment: dir.path(&names::segment(*base)) })
        }
        _ => Ok(files),
    }
}

fn read_mark(dir: &Dir) -> Result<Mark, Error> {
    let file = dir.open_read(names::MARK)?;
    let found = file.len()?;
    if found != BLOCK_BYTES as u64 {
        let damage = Damage::Length { expected: BLOCK_BYTES as u64, found };
        return Err(damaged(&file, 0, 0, damage));
    }
    Mark::decode(&read_block(&file)?).map_err(|why| unreadable(&file, why, 0))
}

fn read_block(file: &Handle) -> Result<Block, Error> {
    let mut block = [0; BLOCK_BYTES];
    file.read_at(0, &mut block)?;
    Ok(block)
}

fn damaged(file: &Handle, offset: u64, sequence: u64, damage: Damage) -> Error {
    Error::Damaged { file: file.path(), offset, sequence, damage }
}

fn unreadable(file: &Handle, why: Unreadable, sequence: u64) -> Error {
    match why {
        Unreadable::Damaged => damaged(file, 0, sequence, Damage::Header),
        Unreadable::Newer(found) => Error::NewerFormat { file: file.path(), found, known: VERSION },
    }
}

/// An open segment with an intact header.
struct Opened {
    file: Handle,
    header: Header,
    length: u64,
}

/// Opens a segment and checks its header; of its length, only that it has one.
fn open_segment(dir: &Dir, log: u64, base: u64) -> Result<Opened, Error> {
    let file = dir.open_read(&names::segment(base))?;
    let length = file.len()?;
    if length < HEADER_BYTES {
        return Err(damaged(&file, length, base, Damage::Length { expected: HEADER_BYTES, found: length }));
    }
    let header = Header::decode(&read_block(&file)?).map_err(|why| unreadable(&file, why, base))?;
    if header.log != log {
        return Err(damaged(&file, 0, base, Damage::Foreign));
    }
    if header.base != base {
        return Err(damaged(&file, 0, base, Damage::Header));
    }
    Ok(Opened { file, header, length })
}

/// Checks that a segment was never used.
pub(crate) fn open_unused(dir: &Dir, log: u64, base: u64) -> Result<Tail, Error> {
    let Opened { file, header, length } = open_segment(dir, log, base)?;
    match file.last_nonzero(HEADER_BYTES)? {
        None => Ok(Tail { header, last: base - 1, end: HEADER_BYTES, length }),
        Some(end) => Err(damaged(&file, end - 1, base, Damage::NotEmpty)),
    }
}

/// One examination.
pub(crate) struct Examiner<'a> {
    pub(crate) dir: &'a Dir,
    pub(crate) mark: Mark,
    /// The last sequence number that the owner's snapshot covers.
    pub(crate) covered: u64,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    /// The segment being read; reused for each.
    pub(crate) buffer: Vec<u8>,
}

impl Examiner<'_> {
    /// Reads everything that is not covered, and passes each record above `covered` to `visit`.
    pub(crate) fn run<E: From<Error>>(
        mut self,
        segments: &[u64],
        visit: &mut impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<Examined, E> {
        let (covered, needed) = self.choose(segments)?;
        let mut opened = Vec::with_capacity(needed.len());
        for base in needed {
            opened.push(open_segment(self.dir, self.mark.log, *base)?);
        }
        for pair in opened.windows(2) {
            self.check_chain(&pair[0], &pair[1])?;
        }
        let Some(last) = opened.pop() else {
            return Err(self.missing(self.covered.saturating_add(1)).into());
        };
        let mut finished = Vec::with_capacity(opened.len());
        for (segment, next) in opened.iter().zip(needed.iter().skip(1)) {
            finished.push(self.read_finished(segment, *next, visit)?);
        }
        let (tail, torn) = self.read_tail(last, visit)?;
        let Self { records, bytes, .. } = self;
        Ok(Examined { covered: covered.to_vec(), finished, tail, torn, records, bytes })
    }

    /// Splits the segments into those wholly covered and those to read, and compares them with the mark.
    fn choose<'s>(&self, segments: &'s [u64]) -> Result<(&'s [u64], &'s [u64]), Error> {
        // The successor of the last covered record is in the last segment that begins at or before it.
        let begun = segments.partition_point(|base| *base <= self.covered.saturating_add(1));
        let Some(first) = begun.checked_sub(1) else {
            return Err(self.missing(self.covered.saturating_add(1)));
        };
        let (covered, needed) = segments.split_at(first);
        let unknown = &needed[needed.partition_point(|base| *base <= self.mark.base)..];
        // A roll makes the mark know the new segment before it begins another; so one may be unknown, if open.
        let allowed = usize::from(self.mark.state == State::Open);
        if let Some(surplus) = unknown.get(allowed) {
            let file = self.dir.path(&names::segment(*surplus));
            return Err(Error::SegmentUnknown { file, sequence: self.mark.sequence });
        }
        if needed.last().is_some_and(|last| *last < self.mark.base) {
            return Err(self.missing(self.mark.base));
        }
        Ok((covered, needed))
    }

    fn missing(&self, sequence: u64) -> Error {
        Error::SegmentMissing { sequence, file: self.dir.path(&names::segment(sequence)) }
    }

    fn check_chain(&self, segment: &Opened, next: &Opened) -> Result<(), Error> {
        let previous = next.header.previous;
        if previous.base != segment.header.base {
            return Err(self.missing(previous.base));
        }
        if previous.length != segment.length {
            let damage = Damage::Length { expected: previous.length, found: segment.length };
            let offset = previous.length.min(segment.length);
            return Err(damaged(&segment.file, offset, next.header.base, damage));
        }
        Ok(())
    }

    /// Reads a segment that has a successor: everything in it had been durable.
    fn read_finished<E: From<Error>>(
        &mut self,
        segment: &Opened,
        next: u64,
        visit: &mut impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<Finished, E> {
        let stop = self.replay(segment, segment.length, visit)?;
        let rest = self.segment(segment).rest(stop.offset);
        if stop.sequence != next || rest != 0 {
            let damage = Damage::LaterSegment { base: next };
            return Err(damaged(&segment.file, stop.offset as u64, stop.sequence, damage).into());
        }
        Ok(Finished { base: segment.header.base, used: stop.offset as u64 })
    }

    fn read_tail<E: From<Error>>(
        &mut self,
        segment: Opened,
        visit: &mut impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(Tail, Option<Torn>), E> {
        let base = segment.header.base;
        if base > self.mark.base {
            return Ok((self.read_unknown(base)?, None));
        }
        let (stop, torn) = match self.mark.state {
            State::Open => self.read_open(&segment, visit)?,
            State::New | State::Still | State::Closed => self.read_settled(&segment, visit)?,
        };
        let Opened { header, length, .. } = segment;
        let torn = torn.map(|bytes| Torn {
            sequence: stop.sequence,
            segment: base,
            offset: stop.offset as u64,
            bytes,
        });
        Ok((Tail { header, last: stop.sequence - 1, end: stop.offset as u64, length }, torn))
    }

    /// Reads the segment of a roll that was interrupted before the mark was written, and so before any record.
    fn read_unknown(&self, base: u64) -> Result<Tail, Error> {
        let tail = open_unused(self.dir, self.mark.log, base)?;
        if tail.last < self.mark.sequence {
            let file = self.dir.path(&names::segment(base));
            let damage = Damage::BelowMark { mark: self.mark.sequence };
            return Err(Error::Damaged { file, offset: 0, sequence: base, damage });
        }
        self.check_covered(tail.last)?;
        Ok(tail)
    }

    /// Reads the segment that was being written when the process ended.
    fn read_open<E: From<Error>>(
        &mut self,
        segment: &Opened,
        visit: &mut impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(Stop, Option<u64>), E> {
        self.check_length(segment, self.mark.length)?;
        let stop = self.replay(segment, segment.length, visit)?;
        let proven = Proven { mark: self.mark.sequence, covered: self.covered };
        match self.segment(segment).ending(stop, proven) {
            Ending::Clean => Ok((stop, None)),
            Ending::Torn { bytes } => Ok((stop, Some(bytes as u64))),
            Ending::Damaged(damage) => {
                Err(damaged(&segment.file, stop.offset as u64, stop.sequence, damage).into())
            }
        }
    }

    /// Reads the last segment of a log that was closed, or was being closed or recovered: it ends where the mark says.
    fn read_settled<E: From<Error>>(
        &mut self,
        segment: &Opened,
        visit: &mut impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(Stop, Option<u64>), E> {
        let end = self.mark.end;
        if self.mark.state == State::Closed || segment.length < end {
            self.check_length(segment, end)?;
        }
        let stop = self.replay(segment, end, visit)?;
        let last = self.mark.sequence;
        if stop.offset as u64 != end || stop.sequence != last + 1 {
            let damage = Damage::Closed { last };
            return Err(damaged(&segment.file, stop.offset as u64, stop.sequence, damage).into());
        }
        self.check_covered(last)?;
        Ok((stop, segment.file.last_nonzero(end)?.map(|to| to - end)))
    }

    fn check_covered(&self, last: u64) -> Result<(), Error> {
        if last >= self.covered {
            return Ok(());
        }
        Err(Error::Behind { directory: self.dir.path(""), last, covered: self.covered })
    }

    fn check_length(&self, segment: &Opened, expected: u64) -> Result<(), Error> {
        if segment.length == expected {
            return Ok(());
        }
        let damage = Damage::Length { expected, found: segment.length };
        Err(damaged(&segment.file, expected.min(segment.length), self.mark.sequence + 1, damage))
    }

    /// Reads the first `length` bytes of a segment, whose length is verified, and visits its records.
    fn replay<E: From<Error>>(
        &mut self,
        segment: &Opened,
        length: u64,
        visit: &mut impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<Stop, E> {
        self.buffer.resize(length as usize, 0);
        segment.file.read_at(0, &mut self.buffer)?;
        let (covered, mut records) = (self.covered, 0);
        let stop = self.segment(segment).walk(segment.header.base, |record| {
            if record.sequence <= covered {
                return Ok(());
            }
            records += 1;
            visit(record.sequence, record.payload)
        })?;
        self.records += records;
        self.bytes += stop.offset as u64;
        Ok(stop)
    }

    fn segment(&self, opened: &Opened) -> Segment<'_> {
        Segment { bytes: &self.buffer, seed: opened.header.seed() }
    }
}
