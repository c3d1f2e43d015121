//! Output files. Each peer appends to hidden files of its own, one for each time that it opens a partition, and syncs
//! them before the commit that records their length. Whoever seals copies the recorded parts into `part-*.jsonl`, and
//! writes `_SUCCESS` last. So a zombie's lines are in no recorded part; and sealing twice makes the same files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Says that all parts are there.
pub const SUCCESS: &str = "_SUCCESS";
/// Says which job has a folder, from when it is submitted.
const CLAIM: &str = ".job";

/// What a commit records of a hidden file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// Its place among those of its partition.
    pub order: u64,
    /// How much of it counts.
    pub length: u64,
}

/// Whether a job can write to a folder. The error says why not.
pub fn check(folder: &Path) -> Result<(), String> {
    if let Ok(job) = fs::read_to_string(folder.join(CLAIM)) {
        return Err(format!("the output folder {} is in use by job {}", folder.display(), job.trim()));
    }
    match fs::read_dir(folder) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                return Err(format!("the output folder {} is not empty", folder.display()));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(format!("cannot read the output folder {}: {error}", folder.display())),
    }
    // The nearest folder that is there must let us write.
    let existing = folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    let probe = existing.join(format!(".menagerie-{}", std::process::id()));
    match File::create_new(&probe).and_then(|_| fs::remove_file(&probe)) {
        Ok(()) => Ok(()),
        Err(error) => Err(format!("cannot write to {}: {error}", existing.display())),
    }
}

/// Makes the folder a job's own. The error says whose it is.
pub fn claim(folder: &Path, job: &str) -> Result<(), String> {
    let failed =
        |error: io::Error| format!("cannot write to the output folder {}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    match File::create_new(folder.join(CLAIM)) {
        Ok(mut file) => file.write_all(job.as_bytes()).map_err(failed),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => check(folder),
        Err(error) => Err(failed(error)),
    }
}

/// Gives up a folder that a job has claimed and will not finish: what it has hidden there goes, and so does the folder
/// if nothing else is in it.
pub fn discard(folder: &Path, job: &str) {
    // What stays only matters to whoever submits the job again, and they are told.
    let _ = remove_hidden(folder, job).and_then(|()| fs::remove_dir(folder));
}

fn is_claimed(folder: &Path, job: &str) -> bool {
    fs::read_to_string(folder.join(CLAIM)).is_ok_and(|claimed| claimed == job)
}

/// A hidden file being written.
#[derive(Debug)]
pub struct HiddenFile {
    file: File,
    /// Its name in the folder.
    pub name: String,
    length: u64,
}

impl HiddenFile {
    /// Makes a new one, of this name, which must be unique. The folder must still be the job's: a peer that comes too late
    /// leaves nothing in a folder that is finished or given back.
    pub fn create(folder: &Path, job: &str, name: String) -> io::Result<Self> {
        if !is_claimed(folder, job) {
            let why = format!("{} is not the job's any more", folder.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        }
        let file = OpenOptions::new().append(true).create_new(true).open(folder.join(&name))?;
        // Or the file may be gone after a power cut, and the commit that records it is not.
        File::open(folder)?.sync_all()?;
        Ok(Self { file, name, length: 0 })
    }

    /// Appends, syncs, and returns the length.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        self.file.write_all(bytes)?;
        self.file.sync_data()?;
        self.length += bytes.len() as u64;
        Ok(self.length)
    }
}

/// The recorded files of a partition, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The partition.
    pub number: u32,
    /// Names of hidden files, and how much of each counts.
    pub files: Vec<(String, u64)>,
}

/// Makes `part-*.jsonl` of the recorded parts, then `_SUCCESS`, and removes what is hidden. `unique` names our copies.
pub fn publish(folder: &Path, job: &str, parts: &[Part], unique: &str) -> io::Result<()> {
    match publish_parts(folder, job, parts, unique) {
        // Somebody else has done it meanwhile, and removed the hidden files.
        Err(_) if folder.join(SUCCESS).exists() => {}
        published => published?,
    }
    remove_hidden(folder, job)
}

fn publish_parts(folder: &Path, job: &str, parts: &[Part], unique: &str) -> io::Result<()> {
    if folder.join(SUCCESS).exists() {
        // Somebody has done it, and died before it was known.
        return Ok(());
    }
    for part in parts.iter().filter(|part| part.files.iter().any(|(_, length)| *length > 0)) {
        let copy = folder.join(format!(".part-{job}-{unique}-{}", part.number));
        copy_part(folder, part, &copy)?;
        fs::rename(&copy, folder.join(format!("part-{:05}.jsonl", part.number)))?;
    }
    File::open(folder)?.sync_all()?;
    let mark = folder.join(format!(".success-{job}-{unique}"));
    File::create(&mark)?.sync_all()?;
    fs::rename(&mark, folder.join(SUCCESS))?;
    File::open(folder)?.sync_all()
}

fn copy_part(folder: &Path, part: &Part, copy: &Path) -> io::Result<()> {
    let mut out = File::create(copy)?;
    for (name, length) in &part.files {
        let copied = io::copy(&mut File::open(folder.join(name))?.take(*length), &mut out)?;
        if copied < *length {
            let why = format!("{name} has {copied} bytes, and {length} are recorded");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
        }
    }
    out.sync_all()
}

/// The name of a hidden file of a job.
pub fn hidden_name(job: &str, partition: u32, unique: &str) -> String {
    format!(".hidden-{job}-{partition}-{unique}")
}

fn remove_hidden(folder: &Path, job: &str) -> io::Result<()> {
    let ours = [".hidden", ".part", ".success"].map(|kind| format!("{kind}-{job}-"));
    let is_claimed = is_claimed(folder, job);
    let hidden: Vec<PathBuf> = fs::read_dir(folder)?
        .filter_map(|entry| entry.ok())
        .filter(|entry| {
            let name = entry.file_name();
            let is_ours = |name: &str| ours.iter().any(|ours| name.starts_with(ours));
            is_claimed && name == CLAIM || name.to_str().is_some_and(is_ours)
        })
        .map(|entry| entry.path())
        .collect();
    for path in hidden {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_recorded_lines_are_published_and_twice_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        check(&out).unwrap();
        claim(&out, "j1").unwrap();
        assert!(claim(&out, "j2").unwrap_err().contains("in use by job j1"));
        let mut first = HiddenFile::create(&out, "j1", hidden_name("j1", 1, "a")).unwrap();
        let mut second = HiddenFile::create(&out, "j1", hidden_name("j1", 1, "b")).unwrap();
        let recorded = first.append(b"one\n").unwrap();
        first.append(b"by a zombie\n").unwrap();
        let length = second.append(b"two\n").unwrap();
        let files = vec![(first.name.clone(), recorded), (second.name.clone(), length)];
        let parts = [Part { number: 1, files }, Part { number: 2, files: Vec::new() }];
        for unique in ["x", "y"] {
            publish(&out, "j1", &parts, unique).unwrap();
            let mut names: Vec<String> = fs::read_dir(&out)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            assert_eq!(names, [SUCCESS, "part-00001.jsonl"]);
            assert_eq!(fs::read(out.join("part-00001.jsonl")).unwrap(), b"one\ntwo\n");
        }
        // A second one who publishes finds the hidden files gone.
        assert!(publish_parts(&out, "j1", &parts, "z").is_ok());
        fs::remove_file(out.join(SUCCESS)).unwrap();
        assert!(publish(&out, "j1", &parts, "z").is_err());
        fs::write(out.join(SUCCESS), "").unwrap();
        assert!(check(&out).unwrap_err().contains("not empty"));
        discard(&out, "j1");
        assert!(out.join(SUCCESS).exists());
    }

    #[test]
    fn what_a_job_has_not_finished_can_be_discarded() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        claim(&out, "j1").unwrap();
        HiddenFile::create(&out, "j1", hidden_name("j1", 1, "a")).unwrap();
        assert!(HiddenFile::create(&out, "j2", hidden_name("j2", 1, "a")).is_err());
        discard(&out, "j2");
        assert!(claim(&out, "j2").unwrap_err().contains("in use by job j1"));
        discard(&out, "j1");
        assert!(!out.exists());
        check(&out).unwrap();
    }
}
