//! The log as its owner uses it: append to a group, commit the group, drop what a snapshot covers, close.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::dir::Dir;
use crate::error::Error;
use crate::format::header::HEADER_BYTES;
use crate::format::mark::{Mark, State};
use crate::format::record::{self, PREFIX_BYTES};
use crate::options::{Durability, Options};
use crate::segment::{self, Current, Finished};
use crate::spares::Spares;

/// The buffer of a group is released if a rare large group has made it longer than this.
const GROUP_BYTES_KEPT: usize = 4 << 20;

/// A durable log with one owner.
///
/// Dropping it without [`Wal::close`] is like a crash of the process: the next opening reads it as after a crash.
pub struct Wal {
    pub(crate) dir: Dir,
    pub(crate) options: Options,
    /// Names the log in its mark and segments.
    pub(crate) log: u64,
    pub(crate) current: Current,
    /// Full segments, oldest first.
    pub(crate) finished: VecDeque<Finished>,
    pub(crate) spares: Spares,
    /// Records appended since the last commit, encoded except for what only the commit knows.
    pub(crate) group: Vec<u8>,
    pub(crate) group_records: u64,
    /// Last committed sequence number.
    pub(crate) last: u64,
    /// Last sequence number known durable; behind `last` only with [`Durability::Os`].
    pub(crate) synced: u64,
    /// Whether the mark on disk allows records in `current`. `false` only between the two steps of a roll whose second
    /// step failed for want of room.
    pub(crate) marked: bool,
    /// The error after which the contents of the disk are uncertain.
    pub(crate) poison: Option<Error>,
}

/// What a commit did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Committed {
    /// Bytes written.
    pub bytes: u64,
    /// Records of the group.
    pub records: u64,
    /// Time for the write, including a roll if there was one.
    pub write_time: Duration,
    /// Time for the sync.
    pub sync_time: Duration,
}

impl Wal {
    /// Adds a record, made of `parts` one after the other, to the group. Nothing reaches the disk before
    /// [`Wal::commit`]. Returns its sequence number.
    pub fn append(&mut self, parts: &[&[u8]]) -> Result<u64, Error> {
        // Checked first, so that an oversized record is refused before it is copied.
        self.check_len(parts.iter().map(|part| part.len()).sum())?;
        self.append_with(|group| parts.iter().for_each(|part| group.extend_from_slice(part)))
    }

    /// Like [`Wal::append`], for a record that is encoded straight into the group's buffer. `encode` may only add to
    /// the buffer; what is in it before belongs to other records.
    pub fn append_with(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Result<u64, Error> {
        self.check()?;
        let start = self.group.len();
        let sequence = self.last + self.group_records + 1;
        record::begin(&mut self.group, sequence);
        encode(&mut self.group);
        let len = self.group.len().checked_sub(start + PREFIX_BYTES);
        let len = len.expect("an encoder only adds to the buffer");
        if let Err(error) = self.check_len(len) {
            self.group.truncate(start);
            return Err(error);
        }
        record::finish(&mut self.group, start);
        self.group_records += 1;
        Ok(sequence)
    }

    /// Writes the group and, with [`Durability::Fsync`], returns when it is durable.
    ///
    /// If [`Error::is_full`], nothing of the group is in the log: commit again, or [`Wal::abandon`] it. After any
    /// other error the log is poisoned and the owner should end its process; but if [`Error::is_unwritten`], it may
    /// [`Wal::reopen`] it instead.
    pub fn commit(&mut self) -> Result<Committed, Error> {
        self.check()?;
        let committed = self.try_commit();
        self.guard(committed)
    }

    fn try_commit(&mut self) -> Result<Committed, Error> {
        self.spares.collect()?;
        if self.group_records == 0 {
            return Ok(Committed::default());
        }
        let begun = Instant::now();
        let bytes = self.group.len() as u64;
        self.make_room(bytes)?;
        record::seal(&mut self.group, self.synced, self.current.seed);
        self.current.file.write_at(self.current.end, &self.group)?;
        let written = Instant::now();
        if self.options.durability == Durability::Fsync {
            self.current.file.sync_data()?;
        }
        let sync_time = written.elapsed();
        let records = self.group_records;
        self.current.end += bytes;
        self.last += records;
        if self.options.durability == Durability::Fsync {
            self.synced = self.last;
        }
        self.clear_group();
        // Early enough that it is ready when this segment is full, late enough that a log that is hardly used
        // does not write a whole segment of zeroes for nothing.
        if self.current.end > self.current.length / 4 {
            self.spares.want()?;
        }
        Ok(Committed { bytes, records, write_time: written - begun, sync_time })
    }

    /// Reopens the log in place, after a group could not be written for want of room: only the disk knows how much of
    /// it is there. Returns how many of its records are; these are durable and committed, and the others are gone.
    /// `covered` is as in [`Wal::open`]. From now on the log is thrifty, see [`Wal::set_thrifty`].
    ///
    /// If [`Error::is_full`], nothing has changed, except that there are no spares: try again when there is room. After
    /// any other error, end the process.
    pub fn reopen(&mut self, covered: u64) -> Result<u64, Error> {
        if !self.poison.as_ref().is_some_and(Error::is_unwritten) {
            return self.check().map(|()| 0);
        }
        // The thread that prepares spares must be gone before the directory is opened again.
        self.spares.stop()?;
        self.spares.set_thrifty(true)?;
        let ignore = |_: u64, _: &[u8]| Ok::<(), Error>(());
        let (mut fresh, _) = Self::open_on(self.dir.disk(), self.options, covered, ignore)?;
        fresh.set_thrifty(true)?;
        let Some(there) = fresh.last.checked_sub(self.last) else {
            return Err(Error::Behind { directory: self.dir.path(""), last: fresh.last, covered: self.last });
        };
        *self = fresh;
        Ok(there)
    }

    /// Discards the records appended since the last commit; their sequence numbers will be used again.
    pub fn abandon(&mut self) {
        self.clear_group();
    }

    /// With [`Durability::Os`], makes all commits durable. An owner must do so before it makes a snapshot durable that
    /// covers them: a log that ends before its snapshot is refused.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.check()?;
        let synced = self.sync_current();
        self.guard(synced)
    }

    /// Declares that a durable snapshot covers everything up to `upto`. Segments that hold nothing else leave the log,
    /// in the background; their files become spares, or are removed. Returns how many.
    pub fn drop_covered(&mut self, upto: u64) -> Result<usize, Error> {
        self.check()?;
        let dropped = self.try_drop_covered(upto);
        self.guard(dropped)
    }

    fn try_drop_covered(&mut self, upto: u64) -> Result<usize, Error> {
        if upto > self.synced {
            self.sync_current()?;
        }
        let next_bases = self.finished.iter().skip(1).map(|next| next.base).chain([self.current.base]);
        let count = self.finished.iter().zip(next_bases).take_while(|(_, next)| next - 1 <= upto).count();
        for covered in self.finished.drain(..count) {
            self.spares.take_back(covered.base)?;
        }
        Ok(count)
    }

    /// While thrifty, the log keeps no spares, removes those that it has, and begins short segments: for an owner that
    /// has no room for its snapshot. Calling it again also removes spares that were being made the last time.
    pub fn set_thrifty(&mut self, thrifty: bool) -> Result<(), Error> {
        self.check()?;
        let set = self.spares.set_thrifty(thrifty);
        self.guard(set)
    }

    /// Last committed sequence number; 0 in a new log.
    pub fn last_sequence(&self) -> u64 {
        self.last
    }

    /// Last sequence number known to be durable; behind [`Wal::last_sequence`] only with [`Durability::Os`].
    pub fn synced_sequence(&self) -> u64 {
        self.synced
    }

    /// Bytes of records in all segments, with their headers; preallocated bytes do not count.
    pub fn log_bytes(&self) -> u64 {
        self.current.end + self.finished.iter().map(|segment| segment.used).sum::<u64>()
    }

    /// Number of segments, the current one included.
    pub fn segments(&self) -> usize {
        self.finished.len() + 1
    }

    /// Closes the log so that the next opening can verify every byte. Records that were not committed are discarded.
    pub fn close(mut self) -> Result<(), Error> {
        self.check()?;
        self.spares.stop()?;
        self.sync_current()?;
        // Two marks: a power cut between the truncation and the second mark must not look like damage, nor may a file
        // that somebody else truncated look like a clean close.
        self.write_mark(State::Still)?;
        self.current.file.set_len(self.current.end)?;
        self.current.file.sync_all()?;
        self.current.length = self.current.end;
        self.write_mark(State::Closed)
    }

    /// Makes sure that a group of `bytes` fits into the current segment and may be written there.
    fn make_room(&mut self, bytes: u64) -> Result<(), Error> {
        if self.current.end + bytes > self.current.length {
            if self.current.is_empty() {
                // A new segment would have the same name.
                self.write_mark(State::Still)?;
                self.current.extend(HEADER_BYTES + bytes)?;
                self.marked = false;
            } else {
                self.roll(bytes)?;
            }
        }
        if !self.marked {
            self.write_mark(State::Open)?;
        }
        Ok(())
    }

    /// Begins a new segment. Nothing is changed unless it succeeds.
    fn roll(&mut self, bytes: u64) -> Result<(), Error> {
        self.sync_current()?;
        let spare = self.spares.take(self.options.rolled_bytes(bytes, self.spares.is_thrifty()))?;
        let number = spare.number;
        let placed = segment::place(&self.dir, spare, self.log, self.last + 1, self.current.as_previous());
        let fresh = match placed {
            Ok(fresh) => fresh,
            Err(error) => {
                if error.is_full() {
                    self.spares.give_up(number);
                }
                return Err(error);
            }
        };
        let full = std::mem::replace(&mut self.current, fresh);
        self.finished.push_back(Finished { base: full.base, used: full.end });
        self.marked = false;
        tracing::debug!(base = self.current.base, length = self.current.length, "log segment begun");
        Ok(())
    }

    fn sync_current(&mut self) -> Result<(), Error> {
        if self.synced < self.last {
            self.current.file.sync_data()?;
            self.synced = self.last;
        }
        Ok(())
    }

    pub(crate) fn write_mark(&mut self, state: State) -> Result<(), Error> {
        // Even if it fails: then it is unknown which of the two is on disk.
        self.marked = false;
        let Current { base, end, length, .. } = self.current;
        let mark = Mark { log: self.log, state, sequence: self.synced, base, end, length };
        segment::write_mark(&self.dir, &mark)?;
        self.marked = state == State::Open;
        Ok(())
    }

    fn clear_group(&mut self) {
        self.group.clear();
        self.group.shrink_to(GROUP_BYTES_KEPT);
        self.group_records = 0;
    }

    fn check_len(&self, bytes: usize) -> Result<(), Error> {
        let max = self.options.record_bytes_max as usize;
        if bytes > max { Err(Error::TooLarge { bytes, max }) } else { Ok(()) }
    }

    fn check(&self) -> Result<(), Error> {
        self.poison.clone().map_or(Ok(()), Err)
    }

    /// Poisons the log with any error but want of room.
    fn guard<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &result
            && !error.is_full()
        {
            self.poison = Some(error.clone());
        }
        result
    }
}
