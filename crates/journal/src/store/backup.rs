//! Backups: a snapshot and all files that it refers to, in one stream, taken while the journal runs.
//!
//! The stream: the magic word and version; for each file a name of at most 255 bytes after its length, a length of
//! eight bytes, and the contents; an empty name; and a CRC32C of all before it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use menagerie_datadir::private;
use menagerie_wal::{Options as LogOptions, Wal};

use super::Store;
use super::error::StoreError;
use super::folder::{Folder, sync_dir};
use super::identity::{FolderIdentity, IDENTITY_FILE};
use super::recover::{newest_image, read_image};
use super::segment::Name;
use super::shared::Shared;
use super::verify::verify_folder;

const MAGIC: &[u8; 8] = b"menagJBK";
/// Since 2, a backup includes the folder's identity.
const VERSION: u32 = 2;
const VERSION_OLDEST: u32 = 1;
const CHUNK: usize = 256 << 10;

/// A file of a backup: its name in the folder, and its length.
struct Piece {
    name: String,
    /// Opened at once if the file may be replaced.
    file: Option<File>,
    bytes: u64,
}

/// A consistent copy that is ready to be written: its files are kept until it is dropped.
pub struct Backup {
    pieces: Vec<Piece>,
    folder: PathBuf,
    shared: Arc<Shared>,
    /// While it exists, no files are removed. Opening everything at once instead would take a descriptor for each
    /// segment.
    hold: Option<Arc<()>>,
}

impl Backup {
    /// Length of the stream.
    pub fn bytes(&self) -> u64 {
        let pieces =
            self.pieces.iter().map(|piece| (1 + piece.name.len() + 8) as u64 + piece.bytes).sum::<u64>();
        // The magic word and the version in front; an empty name and the checksum behind.
        12 + pieces + 5
    }

    /// Writes all of it, or fails.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let written = write(&self.pieces, &self.folder, out)?;
        debug_assert_eq!(written, self.bytes());
        Ok(())
    }
}

impl Drop for Backup {
    /// The next checkpoint removes the files that were kept meanwhile.
    fn drop(&mut self) {
        self.hold = None;
        self.shared.queue().checkpoints.push(Box::new(|_| {}));
        self.shared.wake();
    }
}

impl Store {
    /// Prepares a consistent copy of everything up to now.
    pub fn backup(&self) -> Result<Backup, StoreError> {
        let hold = Some(self.shared.files.hold());
        self.checkpoint()?;
        let (folder, shared) = (self.folder.path().to_owned(), self.shared.clone());
        Ok(Backup { pieces: self.pieces()?, folder, shared, hold })
    }

    /// All files that the newest snapshot refers to.
    fn pieces(&self) -> Result<Vec<Piece>, StoreError> {
        let folder = &self.folder;
        let image = newest_image(folder)?;
        let mut pieces = Vec::new();
        let replaced = [folder.identity_file(), folder.snapshot(image.sequence)];
        for path in image.ids.iter().map(|(at, _)| folder.ids(*at)).chain(replaced.clone()) {
            let file = File::open(&path).map_err(StoreError::io("open", &path))?;
            let bytes = file.metadata().map_err(StoreError::io("look at", &path))?.len();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            pieces.push(Piece { name, file: replaced.contains(&path).then_some(file), bytes });
        }
        for topic in &image.topics {
            for (number, segment) in &topic.segments {
                let name = Name { topic: topic.number, number: *number };
                let path = name.path(Path::new("segments"));
                let name = path.to_str().unwrap_or_default().to_owned();
                pieces.push(Piece { name, file: None, bytes: segment.bytes });
            }
        }
        Ok(pieces)
    }
}

/// Computes a checksum of all that is read or written.
struct Summed<T> {
    inner: T,
    sum: u32,
    bytes: u64,
}

impl<T> Summed<T> {
    fn add(&mut self, bytes: &[u8]) {
        self.sum = crc32c::crc32c_append(self.sum, bytes);
        self.bytes += bytes.len() as u64;
    }
}

impl Summed<&mut dyn Write> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.add(bytes);
        self.inner.write_all(bytes)
    }
}

impl<R: Read> Summed<R> {
    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.inner.read(&mut bytes[filled..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    self.add(&bytes[filled..filled + read]);
                    filled += read;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn write(pieces: &[Piece], folder: &Path, out: &mut dyn Write) -> io::Result<u64> {
    let mut out = Summed { inner: out, sum: 0, bytes: 0 };
    out.put(MAGIC)?;
    out.put(&VERSION.to_le_bytes())?;
    let mut buffer = vec![0; CHUNK];
    for piece in pieces {
        out.put(&[piece.name.len() as u8])?;
        out.put(piece.name.as_bytes())?;
        out.put(&piece.bytes.to_le_bytes())?;
        let opened;
        let file = match &piece.file {
            Some(file) => file,
            None => {
                opened = File::open(folder.join(&piece.name))?;
                &opened
            }
        };
        let mut at = 0;
        while at < piece.bytes {
            let chunk = buffer.len().min(usize::try_from(piece.bytes - at).unwrap_or(usize::MAX));
            file.read_exact_at(&mut buffer[..chunk], at)?;
            out.put(&buffer[..chunk])?;
            at += chunk as u64;
        }
    }
    out.put(&[0])?;
    let sum = out.sum;
    out.inner.write_all(&sum.to_le_bytes())?;
    out.inner.flush()?;
    Ok(out.bytes + 4)
}

/// Creates a data folder from a backup, and checks all of it. Returns the number of segments. If it fails, the folder
/// is left as it was.
pub fn restore(backup: &Path, data: &Path) -> Result<u64, StoreError> {
    let file = File::open(backup).map_err(StoreError::io("open", backup))?;
    let mut source = Summed { inner: io::BufReader::with_capacity(CHUNK, file), sum: 0, bytes: 0 };
    check_head(&mut source, backup)?;
    let folder = Folder::prepare(data)?;
    let restored = fill(&folder, &mut source, backup);
    if restored.is_err() {
        // Report the first error.
        let _ = folder.clear();
    }
    restored
}

fn check_head<R: Read>(source: &mut Summed<R>, backup: &Path) -> Result<(), StoreError> {
    let no = |what: String| StoreError::NoBackup { path: backup.to_owned(), what };
    let head = source.take::<8>().and_then(|magic| Ok((magic, source.take()?)));
    match head.map(|(magic, version)| (&magic == MAGIC, u32::from_le_bytes(version))) {
        Ok((true, VERSION_OLDEST..=VERSION)) => Ok(()),
        Ok((true, other)) => {
            Err(no(format!("it has version {other}, and this program reads {VERSION_OLDEST} to {VERSION}")))
        }
        Ok((false, _)) => Err(no("it is no backup of a journal".to_owned())),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(no(format!("it ends after {} bytes and is no backup of a journal", source.bytes)))
        }
        Err(error) => Err(StoreError::io("read", backup)(error)),
    }
}

/// Fills a folder, checks it, and only then lets it be opened.
fn fill<R: Read>(folder: &Folder, source: &mut Summed<R>, backup: &Path) -> Result<u64, StoreError> {
    folder.create_subfolders()?;
    folder.forget_identity()?;
    unpack(source, folder).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            StoreError::damaged(backup, source.bytes, "it ends there, but more must follow")
        }
        io::ErrorKind::InvalidData => StoreError::damaged(backup, source.bytes, error.to_string()),
        _ => StoreError::io("restore", backup)(error),
    })?;
    sync_dir(&folder.segments())?;
    let (_, snapshot) = folder
        .numbered("snapshot-")?
        .pop()
        .ok_or_else(|| StoreError::damaged(backup, source.bytes, "there is no snapshot in it"))?;
    let covered = read_image(&snapshot)?.sequence;
    Wal::create(&folder.log(), LogOptions::default(), covered)
        .and_then(Wal::close)
        .map_err(|source| StoreError::Log { path: folder.log(), source })?;
    let mut report = verify_folder(folder)?;
    match report.damaged.pop() {
        Some(damaged) => Err(damaged),
        // First the files, then the format file that allows it to be opened.
        None => {
            become_successor(folder)?;
            folder.sync()?;
            folder.seal()?;
            Ok(report.segments)
        }
    }
}

/// A restored folder gets a new identity, because the original may still exist and have newer messages; it records the
/// original as its predecessor.
fn become_successor(folder: &Folder) -> Result<(), StoreError> {
    let path = folder.identity_file();
    let successor = match FolderIdentity::read(&path)? {
        Some(backed_up) => backed_up.successor(),
        None => FolderIdentity::draw(),
    };
    folder.set_identity(&successor.map_err(StoreError::io("draw an id for", &path))?)
}

fn unpack<R: Read>(source: &mut Summed<R>, folder: &Folder) -> io::Result<()> {
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
    loop {
        let [len] = source.take()?;
        if len == 0 {
            break;
        }
        let mut name = vec![0; usize::from(len)];
        source.fill(&mut name)?;
        let name = String::from_utf8(name).map_err(|_| bad("a file in it has no name"))?;
        // Only names that we use: a backup must not write elsewhere.
        let ours = match name.strip_prefix("segments/") {
            Some(segment) => Name::parse(segment).is_some(),
            None => name == IDENTITY_FILE || is_numbered(&name),
        };
        if !ours {
            return Err(bad("a file in it is none of a journal"));
        }
        copy(source, &private::open(&folder.path().join(name))?)?;
    }
    let sum = source.sum;
    if u32::from_le_bytes(source.take()?) != sum {
        return Err(bad("it does not have its checksum"));
    }
    Ok(())
}

/// Whether this is the name of a snapshot or of a file of dedup ids.
fn is_numbered(name: &str) -> bool {
    ["ids-", "snapshot-"].iter().any(|prefix| {
        name.strip_prefix(prefix)
            .is_some_and(|digits| digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
    })
}

fn copy<R: Read>(source: &mut Summed<R>, mut file: &File) -> io::Result<()> {
    let mut left = u64::from_le_bytes(source.take()?);
    let mut buffer = vec![0; CHUNK];
    while left > 0 {
        let chunk = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        source.fill(&mut buffer[..chunk])?;
        file.write_all(&buffer[..chunk])?;
        left -= chunk as u64;
    }
    file.sync_all()
}
