//! Snapshots and backups, taken while writes go on.
//!
//! A capture walks the tree in short steps, each under the server's lock, and writes between them. Transactions applied
//! meanwhile are copied into its tee and written after the znodes, so that the file is the exact state at its end.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use menagerie_datadir::private;
use tracing::warn;

use super::server::{Finished, Server, Shared, Tee};
use crate::store::snapshot::{self, Position, Writer};
use crate::store::{Folder, StoreError};

/// Writes the state to `out`. Returns its position, and the bytes written.
pub fn capture<W: Write>(shared: &Shared, out: W) -> io::Result<(W, Position, u64)> {
    let mut writer = Writer::new(out)?;
    let tee = OpenTee::open(shared);
    let mut block = Vec::with_capacity(snapshot::BLOCK_BYTES * 2);
    snapshot::encode_sessions(&shared.lock().state, &mut block);
    writer.sessions(&block)?;
    let mut at = Some(0);
    while let Some(slot) = at {
        block.clear();
        let mut server = shared.lock();
        if server.stopping {
            return Err(io::Error::other("the keeper is stopping"));
        }
        at = snapshot::encode_znodes(&server.state, slot, &mut block);
        let records = tee.drain(&mut server)?;
        drop(server);
        writer.znodes(&block)?;
        writer.records(&records)?;
    }
    let mut server = shared.lock();
    let records = tee.drain(&mut server)?;
    let position = Position {
        sequence: server.applied_sequence,
        zxid: server.state.applied_zxid(),
        last_session: server.state.last_session(),
    };
    drop(server);
    writer.records(&records)?;
    let (out, bytes) = writer.end(position)?;
    Ok((out, position, bytes))
}

/// A tee that exists as long as the capture.
struct OpenTee<'a> {
    shared: &'a Shared,
    number: u64,
}

impl<'a> OpenTee<'a> {
    fn open(shared: &'a Shared) -> Self {
        let mut server = shared.lock();
        let number = server.tees.iter().map(|tee| tee.number + 1).max().unwrap_or(0);
        server.tees.push(Tee { number, records: Vec::new(), overflowed: false });
        Self { shared, number }
    }

    fn drain(&self, server: &mut Server) -> io::Result<Vec<u8>> {
        match server.tees.iter_mut().find(|tee| tee.number == self.number) {
            Some(tee) if !tee.overflowed => Ok(std::mem::take(&mut tee.records)),
            _ => Err(io::Error::other("writes come in faster than the copy can be written")),
        }
    }
}

impl Drop for OpenTee<'_> {
    fn drop(&mut self) {
        self.shared.lock().tees.retain(|tee| tee.number != self.number);
    }
}

/// Takes a snapshot, and hands it to the log loop to put in place.
pub fn snapshot(shared: &Shared, folder: &Arc<Folder>) {
    let path = folder.snapshot_in_the_making();
    let result = write(shared, &path);
    let mut server = shared.lock();
    server.capturing = false;
    match result {
        Ok(finished) => {
            server.finished = Some(finished);
            shared.work.notify_one();
        }
        Err(_) if server.stopping => {
            let _ = std::fs::remove_file(&path);
        }
        Err(error) => {
            // Nothing is lost: the log goes on, it only gets longer.
            warn!(%error, path = %path.display(), "cannot take a snapshot; trying again when the log has grown");
            let _ = std::fs::remove_file(&path);
        }
    }
}

fn write(shared: &Shared, path: &std::path::Path) -> Result<Finished, StoreError> {
    let run = || -> io::Result<Finished> {
        let out = BufWriter::with_capacity(1 << 20, private::create(path)?);
        let (out, position, bytes) = capture(shared, out)?;
        out.into_inner()?.sync_all()?;
        Ok(Finished { path: path.to_owned(), sequence: position.sequence, bytes })
    };
    run().map_err(StoreError::io("write", path))
}
