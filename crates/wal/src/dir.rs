//! The log's directory on a disk, with errors that name the action and the file.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::{Background, Disk, DiskFile};
use crate::error::Error;

/// Written over files that must be zero; a static, so that zeroing never allocates.
pub(crate) static ZEROES: [u8; 1 << 20] = [0; 1 << 20];

/// The log's directory.
#[derive(Clone)]
pub(crate) struct Dir {
    disk: Arc<dyn Disk>,
}

/// An open file that knows its name.
pub(crate) struct Handle {
    file: Box<dyn DiskFile>,
    path: PathBuf,
}

fn disk_error(action: &'static str, file: PathBuf) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::io(action, file, source)
}

impl Dir {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk }
    }

    pub(crate) fn disk(&self) -> Arc<dyn Disk> {
        self.disk.clone()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.disk.locate(name)
    }

    pub(crate) fn background(&self) -> Background {
        self.disk.background()
    }

    pub(crate) fn list(&self) -> Result<Vec<String>, Error> {
        self.disk.list().map_err(disk_error("list", self.path("")))
    }

    pub(crate) fn open_read(&self, name: &str) -> Result<Handle, Error> {
        self.handle(name, self.disk.open_read(name), "open")
    }

    pub(crate) fn open(&self, name: &str) -> Result<Handle, Error> {
        self.handle(name, self.disk.open(name), "open")
    }

    pub(crate) fn create(&self, name: &str) -> Result<Handle, Error> {
        self.handle(name, self.disk.create(name), "create")
    }

    fn handle(
        &self,
        name: &str,
        opened: io::Result<Box<dyn DiskFile>>,
        action: &'static str,
    ) -> Result<Handle, Error> {
        let path = self.path(name);
        match opened {
            Ok(file) => Ok(Handle { file, path }),
            Err(error) => Err(disk_error(action, path)(error)),
        }
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        self.disk.rename(from, to).map_err(disk_error("rename", self.path(from)))
    }

    pub(crate) fn remove(&self, name: &str) -> Result<(), Error> {
        self.disk.remove(name).map_err(disk_error("remove", self.path(name)))
    }

    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.disk.sync_dir().map_err(disk_error("sync", self.path("")))
    }

    pub(crate) fn random<const N: usize>(&self) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.disk.random(&mut bytes).map_err(disk_error("draw random bytes for", self.path("")))?;
        Ok(bytes)
    }
}

impl Handle {
    pub(crate) fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Records a new name after a rename, for error messages.
    pub(crate) fn renamed(&mut self, path: PathBuf) {
        self.path = path;
    }

    pub(crate) fn len(&self) -> Result<u64, Error> {
        self.file.len().map_err(|e| self.error("measure", e))
    }

    pub(crate) fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        self.file.read_at(offset, out).map_err(|e| self.error("read", e))
    }

    pub(crate) fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_at(offset, bytes).map_err(|e| self.error("write", e))
    }

    pub(crate) fn set_len(&self, length: u64) -> Result<(), Error> {
        self.file.set_len(length).map_err(|e| self.error("resize", e))
    }

    pub(crate) fn sync_data(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(|e| self.error("sync", e))
    }

    pub(crate) fn sync_all(&self) -> Result<(), Error> {
        self.file.sync_all().map_err(|e| self.error("sync", e))
    }

    fn error(&self, action: &'static str, source: io::Error) -> Error {
        disk_error(action, self.path())(source)
    }

    /// Really writes zeroes: blocks that are only reserved would have to be committed to the file system's own
    /// journal at each sync of a group, at twice the price.
    pub(crate) fn write_zeroes(&self, from: u64, to: u64) -> Result<(), Error> {
        let mut at = from;
        while at < to {
            let chunk = (to - at).min(ZEROES.len() as u64);
            self.write_at(at, &ZEROES[..chunk as usize])?;
            at += chunk;
        }
        Ok(())
    }

    /// The end of the last nonzero byte between `from` and the end of the file, if there is any. Reads in pieces,
    /// because the length is not verified yet.
    pub(crate) fn last_nonzero(&self, from: u64) -> Result<Option<u64>, Error> {
        let length = self.len()?;
        let mut piece = vec![0; ZEROES.len().min(length.saturating_sub(from) as usize)];
        let (mut at, mut last) = (from, None);
        while at < length {
            let want = (length - at).min(piece.len() as u64) as usize;
            self.read_at(at, &mut piece[..want])?;
            last = match nonzero_bytes(&piece[..want]) {
                0 => last,
                bytes => Some(at + bytes as u64),
            };
            at += want as u64;
        }
        Ok(last)
    }
}

/// Number of bytes up to and including the last nonzero one.
pub(crate) fn nonzero_bytes(bytes: &[u8]) -> usize {
    // By pages first: comparing with a page of zeroes runs at memory speed, which a byte loop does not.
    let mut end = bytes.len();
    while end > 0 {
        let start = end.saturating_sub(4096);
        if bytes[start..end] != ZEROES[..end - start] {
            return bytes[..end].iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        }
        end = start;
    }
    0
}
