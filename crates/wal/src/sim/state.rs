//! The contents of the simulated disk: what is durable, and what is not yet.

use std::collections::BTreeMap;
use std::io;

use super::{Chance, Operation};

const SECTOR_BYTES: usize = 512;

pub(super) struct State {
    pub(super) inodes: Vec<Inode>,
    pub(super) names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    name_changes: Vec<NameChange>,
    pub(super) operations: u64,
    pub(super) counts: BTreeMap<Operation, u64>,
    pub(super) power_until: Option<u64>,
    pub(super) faults: Vec<(Operation, u64, io::ErrorKind)>,
    /// Writes that fail for want of room after this many bytes.
    pub(super) short_writes: Vec<(u64, usize)>,
    pub(super) capacity: Option<u64>,
    /// No file can be opened.
    pub(super) out_of_files: bool,
    pub(super) entropy: Chance,
}

#[derive(Default)]
pub(super) struct Inode {
    pub(super) current: Vec<u8>,
    durable: Vec<u8>,
    changes: Vec<Change>,
}

/// A change of a file's contents that is not durable.
enum Change {
    /// Within one sector.
    Write {
        offset: usize,
        bytes: Vec<u8>,
    },
    SetLen(usize),
}

/// A change of names that is not durable.
enum NameChange {
    Link(String, usize),
    Unlink(String),
    Rename(String, String, usize),
}

impl Change {
    fn apply(&self, contents: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => {
                let end = offset + bytes.len();
                if contents.len() < end {
                    contents.resize(end, 0);
                }
                contents[*offset..end].copy_from_slice(bytes);
            }
            Self::SetLen(length) => contents.resize(*length, 0),
        }
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Link(name, inode) => {
                names.insert(name.clone(), *inode);
            }
            Self::Unlink(name) => {
                names.remove(name);
            }
            Self::Rename(from, to, inode) => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
        }
    }
}

impl State {
    pub(super) fn with_files(files: BTreeMap<String, Vec<u8>>) -> Self {
        let mut state = Self {
            inodes: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            name_changes: Vec::new(),
            operations: 0,
            counts: BTreeMap::new(),
            power_until: None,
            faults: Vec::new(),
            short_writes: Vec::new(),
            capacity: None,
            out_of_files: false,
            entropy: Chance::new(0),
        };
        for (name, contents) in files {
            state.names.insert(name, state.inodes.len());
            state.inodes.push(Inode { durable: contents.clone(), current: contents, changes: Vec::new() });
        }
        state.durable_names = state.names.clone();
        state
    }

    pub(super) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        self.names.iter().map(|(name, inode)| (name.clone(), self.inodes[*inode].current.clone())).collect()
    }

    pub(super) fn power_cut(&self, chance: &mut Chance) -> Self {
        // Nothing, everything, and two mixtures: uniform subsets alone hardly ever contain the extremes.
        let keep_of_8 = [0, 8, 4, 7][chance.below(4) as usize];
        let mut keep = || chance.below(8) < keep_of_8;
        let mut names = self.durable_names.clone();
        self.name_changes.iter().filter(|_| keep()).for_each(|change| change.apply(&mut names));
        let mut contents: Vec<Vec<u8>> = Vec::new();
        for inode in &self.inodes {
            let mut found = inode.durable.clone();
            inode.changes.iter().filter(|_| keep()).for_each(|change| change.apply(&mut found));
            contents.push(found);
        }
        let mut survived = Self::with_files(
            names.into_iter().map(|(name, inode)| (name, contents[inode].clone())).collect(),
        );
        survived.entropy = Chance::new(chance.next());
        survived
    }

    pub(super) fn powered(&self) -> io::Result<()> {
        match self.power_until {
            Some(until) if self.operations > until => Err(io::Error::other("the power is out")),
            _ => Ok(()),
        }
    }

    /// Fails with EMFILE while no file can be opened.
    pub(super) fn openable(&self) -> io::Result<()> {
        if self.out_of_files { Err(io::Error::from_raw_os_error(24)) } else { Ok(()) }
    }

    pub(super) fn find(&self, name: &str) -> io::Result<usize> {
        self.powered()?;
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Counts an operation, and fails it if that is planned. `true`: the power fails during this one; then it is
    /// recorded as a change that is not durable, and fails.
    fn begin(&mut self, operation: Operation) -> io::Result<bool> {
        self.powered()?;
        self.operations += 1;
        let count = self.counts.entry(operation).or_default();
        let index = *count;
        *count += 1;
        let fault = self.faults.iter().find(|(kind, at, _)| *kind == operation && *at == index);
        fault.map_or(Ok(()), |(_, _, kind)| Err(io::Error::from(*kind)))?;
        Ok(self.powered().is_err())
    }

    fn finish(&self, cut: bool) -> io::Result<()> {
        if cut { self.powered() } else { Ok(()) }
    }

    fn change_names(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.name_changes.push(change);
    }

    pub(super) fn create(&mut self, name: &str) -> io::Result<()> {
        self.powered()?;
        if self.names.contains_key(name) {
            return Ok(());
        }
        let cut = self.begin(Operation::Create)?;
        self.inodes.push(Inode::default());
        self.change_names(NameChange::Link(name.to_owned(), self.inodes.len() - 1));
        self.finish(cut)
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let inode = self.find(from)?;
        let cut = self.begin(Operation::Rename)?;
        self.change_names(NameChange::Rename(from.to_owned(), to.to_owned(), inode));
        self.finish(cut)
    }

    pub(super) fn remove(&mut self, name: &str) -> io::Result<()> {
        self.find(name)?;
        let cut = self.begin(Operation::Remove)?;
        self.change_names(NameChange::Unlink(name.to_owned()));
        self.finish(cut)
    }

    pub(super) fn write(&mut self, inode: usize, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let index = self.counts.get(&Operation::Write).copied().unwrap_or(0);
        if let Some((_, short)) = self.short_writes.iter().find(|(at, _)| *at == index).copied() {
            self.put(inode, offset, &bytes[..short.min(bytes.len())])?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.put(inode, offset, bytes)
    }

    fn put(&mut self, inode: usize, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let cut = self.begin(Operation::Write)?;
        self.reserve(inode, offset + bytes.len())?;
        let mut at = 0;
        while at < bytes.len() {
            let sector_end = (offset + at + 1).next_multiple_of(SECTOR_BYTES) - offset;
            let piece = &bytes[at..sector_end.min(bytes.len())];
            self.change(inode, Change::Write { offset: offset + at, bytes: piece.to_vec() });
            at += piece.len();
        }
        self.finish(cut)
    }

    pub(super) fn set_len(&mut self, inode: usize, length: usize) -> io::Result<()> {
        let cut = self.begin(Operation::SetLen)?;
        self.reserve(inode, length)?;
        self.change(inode, Change::SetLen(length));
        self.finish(cut)
    }

    fn change(&mut self, inode: usize, change: Change) {
        let inode = &mut self.inodes[inode];
        change.apply(&mut inode.current);
        inode.changes.push(change);
    }

    /// A file that is only overwritten needs no room.
    fn reserve(&self, inode: usize, length: usize) -> io::Result<()> {
        let Some(capacity) = self.capacity else { return Ok(()) };
        let grown = length.saturating_sub(self.inodes[inode].current.len()) as u64;
        let used: u64 = self.names.values().map(|inode| self.inodes[*inode].current.len() as u64).sum();
        if grown > 0 && used + grown > capacity { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    pub(super) fn sync(&mut self, inode: usize) -> io::Result<()> {
        let cut = self.begin(Operation::Sync)?;
        if !cut {
            let inode = &mut self.inodes[inode];
            for change in inode.changes.drain(..) {
                change.apply(&mut inode.durable);
            }
            debug_assert!(inode.durable == inode.current);
        }
        self.finish(cut)
    }

    pub(super) fn sync_dir(&mut self) -> io::Result<()> {
        let cut = self.begin(Operation::SyncDir)?;
        if !cut {
            self.durable_names = self.names.clone();
            self.name_changes.clear();
        }
        self.finish(cut)
    }
}
