//! The identity of a data folder: its file `identity`.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use menagerie_datadir::DataError;
use serde::{Deserialize, Serialize};

use super::error::StoreError;
use super::folder::{Folder, replace};
use super::verify::missing;
use crate::identity::RandomId;

/// Its name in the folder, and in backups.
pub(crate) const IDENTITY_FILE: &str = "identity";
/// Most starts and predecessors that are remembered. If ZooKeeper was restored to a state more starts ago, it does not
/// recognise the folder, and an operator must confirm it (`renew`).
const REMEMBERED_MAX: usize = 128;

/// The contents of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FolderIdentity {
    /// Drawn when the folder was created, restored, or renewed.
    pub(crate) folder: RandomId,
    /// The predecessors whose messages are in this folder, newest first: the backed-up folder, or this one before a
    /// renewal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) continues: Vec<RandomId>,
    /// The starts that may be registered in ZooKeeper, oldest first. A registered start that is missing here ran on a
    /// copy.
    #[serde(default)]
    pub(crate) starts: Vec<RandomId>,
}

/// What a journal registers about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineage {
    /// The folders whose messages are in this one.
    pub continues: Vec<RandomId>,
    /// All starts of this folder that may have been registered.
    pub starts: Vec<RandomId>,
    /// The folder as this machine's kernel identifies it. Another process that registered the same one has lost the
    /// folder's lock, because we hold it: it is dead. `None` if the kernel's boot id is unknown.
    pub place: Option<String>,
}

impl FolderIdentity {
    pub(crate) fn draw() -> io::Result<Self> {
        let folder = RandomId::draw()?;
        Ok(Self { folder, continues: Vec::new(), starts: Vec::new() })
    }

    /// A new identity with this one as its predecessor.
    pub(crate) fn successor(&self) -> io::Result<Self> {
        let continues = [self.folder].into_iter().chain(self.continues.iter().copied());
        Ok(Self { continues: continues.take(REMEMBERED_MAX).collect(), ..Self::draw()? })
    }

    pub(crate) fn read(path: &Path) -> Result<Option<Self>, StoreError> {
        match fs::read(path) {
            Ok(bytes) => Self::decode(&bytes).map(Some).ok_or_else(|| {
                let what = "it does not say any more which folder this is; `menagerie journal renew --continues FOLDER` makes \
                            it anew, with the id that queues name when they miss it";
                StoreError::damaged(path, 0, what)
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io("read", path)(error)),
        }
    }

    /// A line with the checksum of the rest, then JSON: without it, a flipped digit would be another folder.
    fn encode(&self) -> serde_json::Result<Vec<u8>> {
        let mut json = serde_json::to_vec_pretty(self)?;
        json.push(b'\n');
        let head = format!("crc32c {:08x}\n", crc32c::crc32c(&json));
        Ok([head.into_bytes(), json].concat())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let at = bytes.iter().position(|byte| *byte == b'\n')? + 1;
        let identity: Self = serde_json::from_slice(&bytes[at..]).ok()?;
        // Exactly what we write: any changed byte is damage.
        (bytes[..at] == *format!("crc32c {:08x}\n", crc32c::crc32c(&bytes[at..])).as_bytes())
            .then_some(identity)
    }
}

impl Folder {
    pub(crate) fn identity_file(&self) -> PathBuf {
        self.path().join(IDENTITY_FILE)
    }

    /// The folder's identity. A folder of an old version without one gets it now.
    pub(crate) fn identity(&self) -> Result<FolderIdentity, StoreError> {
        match FolderIdentity::read(&self.identity_file())? {
            Some(identity) => Ok(identity),
            None => self.draw_identity(),
        }
    }

    /// Gives the folder a new identity without predecessors.
    pub(crate) fn draw_identity(&self) -> Result<FolderIdentity, StoreError> {
        let path = self.identity_file();
        let identity = FolderIdentity::draw().map_err(StoreError::io("draw an id for", &path))?;
        self.set_identity(&identity)?;
        Ok(identity)
    }

    pub(crate) fn set_identity(&self, identity: &FolderIdentity) -> Result<(), StoreError> {
        let path = self.identity_file();
        let bytes =
            identity.encode().map_err(|error| StoreError::io("write", &path)(io::Error::other(error)))?;
        replace(&path, &bytes)?;
        self.sync()
    }

    /// Removes the identity of a folder whose data is gone.
    pub(crate) fn forget_identity(&self) -> Result<(), StoreError> {
        match fs::remove_file(self.identity_file()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(StoreError::io("remove", self.identity_file())(error))
            }
            _ => Ok(()),
        }
    }

    /// Durably records that this start may be registered from now on.
    pub(crate) fn note_start(&self, start: RandomId) -> Result<(), StoreError> {
        let mut identity = self.identity()?;
        if identity.starts.last() == Some(&start) {
            return Ok(());
        }
        identity.starts.push(start);
        let surplus = identity.starts.len().saturating_sub(REMEMBERED_MAX);
        identity.starts.drain(..surplus);
        self.set_identity(&identity)
    }

    pub(crate) fn lineage(&self) -> Result<Lineage, StoreError> {
        let FolderIdentity { continues, starts, .. } = self.identity()?;
        Ok(Lineage { continues, starts, place: self.place() })
    }

    /// The kernel's boot id, and the file that is locked while the folder is in use.
    fn place(&self) -> Option<String> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let lock = self.lock_metadata().ok()?;
        Some(format!("{}:{:x}:{:x}", boot.trim(), lock.dev(), lock.ino()))
    }
}

/// Gives a stopped folder a new id, with its old one, or `continues`, as predecessor; returns the new id. For the one
/// of several copies that is to be used: the id that they share is worthless. Also for a folder that has lost its id.
pub fn renew(path: &Path, continues: Option<RandomId>) -> Result<RandomId, StoreError> {
    if !path.join("format").exists() {
        return Err(missing(path));
    }
    let folder = Folder::open(path)?;
    let before = match (folder.identity(), continues) {
        (Ok(before), None) => before,
        (Ok(FolderIdentity { folder, mut continues, .. }), Some(other)) => {
            continues.insert(0, folder);
            FolderIdentity { folder: other, continues, starts: Vec::new() }
        }
        (Err(StoreError::Data(DataError::Damaged { .. })), Some(folder)) => {
            FolderIdentity { folder, continues: Vec::new(), starts: Vec::new() }
        }
        (Err(error), _) => return Err(error),
    };
    let next = before.successor().map_err(StoreError::io("draw an id for", folder.identity_file()))?;
    folder.set_identity(&next)?;
    Ok(next.folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_keeps_its_id_and_a_renewed_one_knows_what_it_was() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("journal");
        let first = Folder::open(&path).unwrap().identity().unwrap();
        let start = RandomId::draw().unwrap();
        Folder::open(&path).unwrap().note_start(start).unwrap();
        assert_eq!(Folder::open(&path).unwrap().lineage().unwrap().starts, [start]);
        assert_eq!(Folder::open(&path).unwrap().identity().unwrap().folder, first.folder);
        let (before, after) = (first.folder, renew(&path, None).unwrap());
        let folder = Folder::open(&path).unwrap();
        let renewed = folder.identity().unwrap();
        assert_eq!((renewed.folder, &renewed.continues[..]), (after, &[before][..]));
        assert_eq!(renewed.starts, [], "ZooKeeper knows nothing of this one");
        folder.note_start(start).unwrap();
        folder.note_start(start).unwrap();
        let lineage = folder.lineage().unwrap();
        assert_eq!((&lineage.starts[..], &lineage.continues[..]), (&[start][..], &[before][..]));
        assert!(lineage.place.is_some());
    }

    #[test]
    fn only_so_many_starts_are_remembered() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::open(&parent.path().join("journal")).unwrap();
        let starts: Vec<RandomId> = (0..=REMEMBERED_MAX).map(|_| RandomId::draw().unwrap()).collect();
        starts.iter().for_each(|start| folder.note_start(*start).unwrap());
        assert_eq!(folder.lineage().unwrap().starts, starts[1..]);
    }

    #[test]
    fn data_that_was_removed_takes_its_id_along_and_a_lost_id_can_be_given_back() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("journal");
        let first = Folder::open(&path).unwrap().identity().unwrap();
        for name in ["log", "segments"] {
            fs::remove_dir_all(path.join(name)).unwrap();
        }
        fs::remove_file(path.join("format")).unwrap();
        assert_ne!(Folder::open(&path).unwrap().identity().unwrap().folder, first.folder);
        fs::write(path.join(IDENTITY_FILE), "nonsense").unwrap();
        assert!(matches!(
            Folder::open(&path).unwrap().identity(),
            Err(StoreError::Data(DataError::Damaged { .. }))
        ));
        assert!(matches!(renew(&path, None), Err(StoreError::Data(DataError::Damaged { .. }))));
        let lost = RandomId::draw().unwrap();
        let found = renew(&path, Some(lost)).unwrap();
        assert_eq!(Folder::open(&path).unwrap().lineage().unwrap().continues, [lost]);
        renew(&path, Some(first.folder)).unwrap();
        let continues = Folder::open(&path).unwrap().lineage().unwrap().continues;
        assert_eq!(continues, [first.folder, found, lost]);
        assert!(matches!(renew(parent.path(), None), Err(StoreError::NoData { .. })));
    }
}
