//! The one durable log, under the keeper and under the journal.
//! Not here: what records mean, and the folder around the log (`menagerie-datadir`).
//!
//! An owner appends records to a group, commits the group with one write and one fdatasync, and gets them back, in
//! order and whole, when it opens the log again. From time to time it makes a snapshot of its own state and tells the
//! log what that covers; the log drops segments that hold nothing else, and reuses their files.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! use menagerie_wal::{Error, Options, Wal};
//!
//! let mut state = Vec::new();
//! let (mut wal, recovery) = Wal::open(dir.path(), Options::default(), 0, |sequence, payload| {
//!     state.push((sequence, payload.to_vec()));
//!     Ok::<(), Error>(())
//! })?;
//! assert_eq!(recovery.last_sequence, 0);
//! assert_eq!(wal.append(&[b"two ", b"parts"])?, 1);
//! wal.append_with(|group| group.extend_from_slice(b"encoded in place"))?;
//! assert_eq!(wal.commit()?.records, 2); // durable now
//! wal.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it promises
//!
//! - Acknowledged commits survive any crash or power cut, or opening the log is refused. It never opens silently with
//!   less, with a gap, or with anything that was not written.
//! - After a clean close, *any* changed byte, and any changed length, of the mark or a segment is refused, with file,
//!   offset and sequence number.
//! - After a crash, damage to a record known to have been durable is refused. A torn tail (bytes of a group that was
//!   being written and never acknowledged) is cut and reported, and never comes back. Damage to the last group that
//!   *was* acknowledged looks exactly like a torn tail; it is cut too, and reported.
//! - An error of a write or a sync poisons the log: no later call succeeds, and no sync is tried twice. A full disk
//!   shows when a segment is begun, as a separate error after which the log goes on ([`Error::is_full`]); so does the
//!   limit of open files.
//!
//! It relies on a disk that writes sectors of 512 bytes whole or not at all and that tells the truth about syncs, on
//! renames that happen or do not, and on an owner who locks the directory.
//!
//! # Why it can promise that
//!
//! - *Every byte is covered.* Records have a CRC32C over the segment's secret salt, length, sequence number, `synced`,
//!   payload and padding; what is behind them in a segment is zero; the length of a finished segment is in the header
//!   of the next one, that of the last segment in the mark.
//! - *Each group says what was durable before it* (`synced`), so an intact record behind damage tells whether the
//!   damage hit something acknowledged. The module `scan` explains why an intact record alone proves nothing.
//! - *The name of a segment is evidence*: a segment gets its name when all before it is durable, and its header too.
//! - *The mark is a floor*, raised at every roll, opening and close: nothing at or below it can be a torn tail. It
//!   knows a segment before the first record is written there.
//! - *Zeroes really are zeroes.* Spares are written full of them and synced before use; a segment loses its name,
//!   durably, before it is overwritten; a torn tail is cut off, durably, before anything is appended. So no record
//!   of a former life can be taken for the successor of a new one.
//! - *The last segment changes its length only under a mark that says so* (`Still`), at open, close, and when a group
//!   does not fit into an empty segment; so a power cut there differs from a file that somebody truncated.
//!
//! The format and the table of recovery rules are in `docs/log-format.md`.
//!
//! # Layout
//!
//! | module | its job |
//! |---|---|
//! | `wal` | the log as its owner uses it: append, commit, roll, drop, close |
//! | `open` | create a log, or make one that was examined ready for the next record |
//! | `examine` | read a whole log and decide whether it is sound; changes nothing |
//! | `verify` | the same for its own sake |
//! | `scan` | what can be told from the bytes of one segment; no IO |
//! | `format` | bytes of records, headers and the mark, as values; no IO |
//! | `segment` | put segments in place, cut and extend them, replace the mark |
//! | `spares` | files of zeroes, made ready in the background; recycling |
//! | `names` | every file name |
//! | `dir`, `disk` | the disk, with errors that say what was done to which file |
//! | `sim` | a disk that loses power, fills up and fails; for tests, also of owners (feature `sim`) |

mod dir;
mod disk;
mod error;
mod examine;
mod format;
mod names;
mod open;
mod options;
mod scan;
mod segment;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
mod spares;
mod verify;
mod wal;

pub use disk::{Background, Disk, DiskFile, RealDisk};
pub use error::{Damage, Error, is_out_of_files};
pub use examine::Torn;
pub use open::Recovery;
pub use options::{Durability, Options};
pub use verify::{Report, verify, verify_on};
pub use wal::{Committed, Wal};
