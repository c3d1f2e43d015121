//! Snapshots and backups: one file format.
//!
//! A snapshot is taken while writes go on. It holds every znode as it was when the walk visited it, and after that
//! every transaction applied during the walk; because transactions are final states, replaying those makes it the exact
//! state at its end. So a snapshot is consistent, covers the log up to its end, and is a backup as it stands.
//!
//! The file is a row of blocks: `length u32 | crc32c u32 | kind u8 | payload`, where the checksum covers the length,
//! the kind and the payload. The first block is the header, the last one the end; nothing follows it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use menagerie_datadir::DataError;
use menagerie_wire::{Reader, Write as _};

use super::StoreError;
use crate::core::sessions::Millis;
use crate::core::txn::{decode_session, decode_znode, encode_session, encode_znode};
use crate::core::znode::Znode;
use crate::core::{SessionId, State, Txn};

/// The first bytes of a file, after the first block's head.
const MAGIC: &[u8] = b"menagerie keeper snapshot";
/// The version of the format that we write.
const VERSION: i32 = 1;
/// Longest transaction.
pub const RECORD_BYTES_MAX: u32 = i32::MAX as u32;
/// A block of znodes is closed when it is this long.
pub const BLOCK_BYTES: usize = 256 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Block {
    Header = 1,
    Sessions = 2,
    Znodes = 3,
    Records = 4,
    End = 5,
}

/// The position of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The last record of the log that it covers.
    pub sequence: u64,
    /// The last transaction.
    pub zxid: i64,
    /// The last session number given out.
    pub last_session: i64,
}

/// Writes a snapshot, block by block.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Writer<W> {
    /// Begins with the header.
    pub fn new(out: W) -> io::Result<Self> {
        let mut writer = Self { out, bytes: 0 };
        let mut header = MAGIC.to_vec();
        header.put_int(VERSION);
        writer.block(Block::Header, &header)?;
        Ok(writer)
    }

    /// All sessions.
    pub fn sessions(&mut self, encoded: &[u8]) -> io::Result<()> {
        self.block(Block::Sessions, encoded)
    }

    /// Some znodes, encoded one behind the other.
    pub fn znodes(&mut self, encoded: &[u8]) -> io::Result<()> {
        self.block(Block::Znodes, encoded)
    }

    /// Some transactions that were applied meanwhile, each after its length.
    pub fn records(&mut self, encoded: &[u8]) -> io::Result<()> {
        if encoded.is_empty() { Ok(()) } else { self.block(Block::Records, encoded) }
    }

    /// Ends the file. Returns what it was written to, and how many bytes it has.
    pub fn end(mut self, position: Position) -> io::Result<(W, u64)> {
        let mut end = Vec::new();
        end.put_long(position.sequence.cast_signed());
        end.put_long(position.zxid);
        end.put_long(position.last_session);
        self.block(Block::End, &end)?;
        self.out.flush()?;
        Ok((self.out, self.bytes))
    }

    fn block(&mut self, kind: Block, payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len()).map_err(io::Error::other)?.to_be_bytes();
        let checksum = checksum(length, kind as u8, payload).to_be_bytes();
        for part in [&length[..], &checksum, &[kind as u8], payload] {
            self.out.write_all(part)?;
            self.bytes += part.len() as u64;
        }
        Ok(())
    }
}

fn checksum(length: [u8; 4], kind: u8, payload: &[u8]) -> u32 {
    let head = crc32c::crc32c(&[length[0], length[1], length[2], length[3], kind]);
    crc32c::crc32c_append(head, payload)
}

/// Appends all sessions of a state.
pub fn encode_sessions(state: &State, out: &mut Vec<u8>) {
    for (id, session) in state.sessions.iter() {
        encode_session(out, id, &session.password, session.timeout_ms);
    }
}

/// Appends znodes from slot `at` on until the block is full; returns the slot to continue with, or `None` at the end.
pub fn encode_znodes(state: &State, mut at: usize, out: &mut Vec<u8>) -> Option<usize> {
    while at < state.tree.slot_count() {
        if let Some(znode) = state.tree.peek(at) {
            encode_znode(out, &znode.path, znode.data.as_deref(), &znode.acl, &znode.meta);
        }
        at += 1;
        if out.len() >= BLOCK_BYTES {
            return Some(at);
        }
    }
    None
}

/// Appends one transaction as a [`Writer::records`] block holds it.
pub fn encode_record(txn: &Txn, out: &mut Vec<u8>) {
    menagerie_wire::framed(out, |out| txn.encode(out));
}

/// Reads a whole snapshot into `state`, which must be new.
pub fn load(path: &Path, state: &mut State) -> Result<Position, StoreError> {
    let mut source = Source::open(path)?;
    source.header()?;
    let mut later = Vec::new();
    loop {
        match source.next()? {
            Block::Header => return Err(source.damaged("a second header")),
            Block::Sessions => source.load_sessions(state)?,
            Block::Znodes => source.load_znodes(state)?,
            // A transaction can find its parents only once all znodes are loaded.
            Block::Records => later.push(std::mem::take(&mut source.payload)),
            Block::End => break,
        }
    }
    let position = source.end()?;
    for slot in 0..state.tree.slot_count() {
        if state.tree.peek(slot).is_some() {
            state.tree.link(slot as u32);
        }
    }
    for records in later {
        replay(&source, &records, state)?;
    }
    state.resume_at(position.zxid, position.last_session);
    Ok(position)
}

/// Walks a whole snapshot and checks every byte of it, without keeping anything.
pub fn verify(path: &Path) -> Result<Position, StoreError> {
    let mut source = Source::open(path)?;
    source.header()?;
    while source.next()? != Block::End {}
    source.end()
}

fn replay(source: &Source<'_>, mut records: &[u8], state: &mut State) -> Result<(), StoreError> {
    while !records.is_empty() {
        let Ok(Some((record, taken))) = menagerie_wire::frame::split(records, RECORD_BYTES_MAX as usize)
        else {
            return Err(source.damaged("a transaction that is cut short"));
        };
        let txn = Txn::decode(record, state.acls_mut()).map_err(|error| source.damaged(error))?;
        state.apply(txn.zxid, txn.changes, Millis(0), &mut |_| {});
        records = &records[taken..];
    }
    Ok(())
}

struct Source<'a> {
    path: &'a Path,
    input: io::BufReader<File>,
    length: u64,
    offset: u64,
    payload: Vec<u8>,
}

impl<'a> Source<'a> {
    fn open(path: &'a Path) -> Result<Self, StoreError> {
        let file = File::open(path).map_err(StoreError::io("open", path))?;
        let length = file.metadata().map_err(StoreError::io("look at", path))?.len();
        let input = io::BufReader::with_capacity(1 << 20, file);
        Ok(Self { path, input, length, offset: 0, payload: Vec::new() })
    }

    fn damaged(&self, what: impl ToString) -> StoreError {
        StoreError::damaged(self.path, self.offset, what.to_string())
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), StoreError> {
        self.input.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.damaged("the file ends too early"),
            _ => StoreError::io("read", self.path)(error),
        })
    }

    fn next(&mut self) -> Result<Block, StoreError> {
        let mut head = [0; 9];
        self.fill(&mut head)?;
        let [a, b, c, d, e, f, g, h, kind] = head;
        let length = [a, b, c, d];
        let bytes = u32::from_be_bytes(length) as usize;
        // Checked before it is allocated.
        if bytes as u64 > self.length.saturating_sub(self.offset) {
            return Err(self.damaged(format!("a block of {bytes} bytes in a file of {}", self.length)));
        }
        let mut payload = std::mem::take(&mut self.payload);
        payload.resize(bytes, 0);
        let filled = self.fill(&mut payload);
        self.payload = payload;
        filled?;
        if checksum(length, kind, &self.payload) != u32::from_be_bytes([e, f, g, h]) {
            return Err(self.damaged("the checksum does not match"));
        }
        let kind = [Block::Header, Block::Sessions, Block::Znodes, Block::Records, Block::End]
            .into_iter()
            .find(|known| *known as u8 == kind)
            .ok_or_else(|| self.damaged(format!("unknown kind of block {kind}")))?;
        self.offset += 9 + bytes as u64;
        Ok(kind)
    }

    fn header(&mut self) -> Result<(), StoreError> {
        match self.next() {
            Ok(Block::Header) => {}
            Ok(_) | Err(StoreError::Data(DataError::Damaged { .. })) => {
                self.offset = 0;
                return Err(self.damaged("it does not begin like a keeper snapshot or backup"));
            }
            Err(other) => return Err(other),
        }
        let version = self
            .payload
            .strip_prefix(MAGIC)
            .and_then(|rest| Reader::new(rest).int().ok())
            .ok_or_else(|| self.damaged("not a keeper snapshot"))?;
        if version > VERSION {
            let (path, found) = (self.path.to_owned(), version.cast_unsigned());
            return Err(DataError::Newer { path, found, known: VERSION as u32 }.into());
        }
        Ok(())
    }

    fn load_sessions(&self, state: &mut State) -> Result<(), StoreError> {
        let mut r = Reader::new(&self.payload);
        while !r.rest().is_empty() {
            let (id, password, timeout_ms) = decode_session(&mut r).map_err(|error| self.damaged(error))?;
            state.sessions.open(id, password, timeout_ms, Millis(0));
        }
        Ok(())
    }

    fn load_znodes(&self, state: &mut State) -> Result<(), StoreError> {
        let mut r = Reader::new(&self.payload);
        while !r.rest().is_empty() {
            let (path, data, acl, meta) =
                decode_znode(&mut r, state.acls_mut()).map_err(|error| self.damaged(error))?;
            state.tree.put(Znode::new(path, data, acl, meta));
        }
        Ok(())
    }

    fn end(&mut self) -> Result<Position, StoreError> {
        let mut r = Reader::new(&self.payload);
        let mut read = || -> Result<Position, menagerie_wire::DecodeError> {
            Ok(Position { sequence: r.long()?.cast_unsigned(), zxid: r.long()?, last_session: r.long()? })
        };
        let position = read().map_err(|error| self.damaged(error))?;
        match self.input.read(&mut [0]) {
            Ok(0) => Ok(position),
            Ok(_) => Err(self.damaged("bytes behind the end")),
            Err(error) => Err(StoreError::io("read", self.path)(error)),
        }
    }
}

/// Ends every session and removes its ephemerals: for a state that is not the one its clients last saw.
pub fn end_all_sessions(state: &mut State) {
    let mut ids: Vec<SessionId> = state.sessions.iter().map(|(id, _)| id).collect();
    ids.sort_unstable();
    for id in ids {
        if let Some(txn) = state.expire_session(id, 0) {
            state.apply(txn.zxid, txn.changes, Millis(0), &mut |_| {});
        }
    }
}
