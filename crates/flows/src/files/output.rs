//! Output files. Each peer appends to hidden files of its own, one for each time that it opens a partition, and syncs
//! them before the commit that records their length. Whoever seals copies the recorded parts into `part-*.jsonl`, and
//! writes `_SUCCESS` last. So a zombie's lines are in no recorded part; and sealing twice makes the same files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use menagerie_kernel::unique;
use serde::{Deserialize, Serialize};

/// Says that all parts are there, and whose they are: it holds the job's id, as JSON.
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

/// Why a job cannot write to a folder, and what to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    /// Why not.
    pub why: String,
    /// What to try.
    pub help: &'static str,
}

impl Unusable {
    fn new(why: String, help: &'static str) -> Self {
        Self { why, help }
    }

    fn io(doing: &str, folder: &Path, error: &io::Error) -> Self {
        let help = match error.kind() {
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                "a file is in the way: name another folder"
            }
            _ => "let this user write there, or name another folder",
        };
        Self::new(format!("cannot {doing} the output folder {}: {error}", folder.display()), help)
    }
}

/// Whether a job can write to a folder.
pub fn check(folder: &Path) -> Result<(), Unusable> {
    let name = folder.display();
    if let Ok(job) = fs::read_to_string(folder.join(CLAIM)) {
        let why = format!("the output folder {name} is in use by job {}", job.trim());
        return Err(Unusable::new(
            why,
            "name another folder; if that job has ended or is not known, delete this one",
        ));
    }
    match fs::read_dir(folder) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                let why = format!("the output folder {name} is not empty");
                return Err(Unusable::new(why, "name a new or an empty folder"));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if folder.is_symlink() {
                let why = format!("the output folder {name} is a link to nothing");
                return Err(Unusable::new(why, "make the folder that it points to, or name another"));
            }
        }
        Err(error) => return Err(Unusable::io("read", folder, &error)),
    }
    // The nearest folder that is there must let us write.
    let existing = folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    // Its name is never used again: others may look at the same moment.
    let probe = existing.join(format!(".menagerie-{}", unique::hex()));
    File::create_new(&probe)
        .and_then(|_| fs::remove_file(&probe))
        .map_err(|error| Unusable::io("write to", existing, &error))
}

/// Makes the folder a job's own, unless it is another's. Done twice, it is the same.
pub fn claim(folder: &Path, job: &str) -> Result<(), Unusable> {
    let failed = |error: io::Error| Unusable::io("write to", folder, &error);
    fs::create_dir_all(folder).map_err(failed)?;
    // A link appears with its content, so nobody ever reads half of a claim.
    let draft = folder.join(format!("{CLAIM}-{job}"));
    fs::write(&draft, job).map_err(failed)?;
    let linked = fs::hard_link(&draft, folder.join(CLAIM));
    let removed = fs::remove_file(&draft);
    match linked.and(removed) {
        // By an earlier try of the same submission, or by one at the same time.
        Err(_) if is_claimed(folder, job) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            check(folder)?;
            Err(failed(error))
        }
        linked => linked.map_err(failed),
    }
}

/// Gives up a folder that a job has claimed and will not finish: what it has hidden there goes, and so does the folder
/// if nothing else is in it.
pub fn discard(folder: &Path, job: &str) {
    // What stays only matters to whoever submits the job again, and they are told.
    let _ = remove_hidden(folder, job).and_then(|()| fs::remove_dir(folder));
}

/// Whether a folder is this job's.
pub fn is_claimed(folder: &Path, job: &str) -> bool {
    fs::read_to_string(folder.join(CLAIM)).is_ok_and(|claimed| claimed == job)
}

/// Whether this job has published its output there: the mark names it.
fn is_published(folder: &Path, job: &str) -> bool {
    fs::read(folder.join(SUCCESS)).is_ok_and(|published| published == success(job))
}

/// What the mark holds.
fn success(job: &str) -> Vec<u8> {
    format!("{}\n", serde_json::json!({ "job": job })).into_bytes()
}

fn require_claim(folder: &Path, job: &str) -> io::Result<()> {
    if is_claimed(folder, job) {
        return Ok(());
    }
    let why = format!("the folder {} is not the job's any more: its claim is gone", folder.display());
    Err(io::Error::new(io::ErrorKind::NotFound, why))
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
        require_claim(folder, job)?;
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
        Err(_) if is_published(folder, job) => {}
        published => published?,
    }
    remove_hidden(folder, job)
}

fn publish_parts(folder: &Path, job: &str, parts: &[Part], unique: &str) -> io::Result<()> {
    if is_published(folder, job) {
        // Somebody has done it, and died before it was known.
        return Ok(());
    }
    require_claim(folder, job)?;
    for part in parts.iter().filter(|part| part.files.iter().any(|(_, length)| *length > 0)) {
        let copy = folder.join(format!(".part-{job}-{unique}-{}", part.number));
        copy_part(folder, part, &copy)?;
        fs::rename(&copy, folder.join(format!("part-{:05}.jsonl", part.number)))?;
    }
    File::open(folder)?.sync_all()?;
    let mark = folder.join(format!(".success-{job}-{unique}"));
    let mut file = File::create(&mark)?;
    file.write_all(&success(job))?;
    file.sync_all()?;
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
        assert!(claim(&out, "j2").unwrap_err().why.contains("in use by job j1"));
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
        for other in ["", "j2"] {
            fs::write(out.join(SUCCESS), other).unwrap();
            let refused = publish(&out, "j1", &parts, "z").unwrap_err();
            assert!(refused.to_string().contains("not the job's any more"), "{refused}");
        }
        assert!(check(&out).unwrap_err().why.contains("not empty"));
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
        assert!(claim(&out, "j2").unwrap_err().why.contains("in use by job j1"));
        discard(&out, "j1");
        assert!(!out.exists());
        check(&out).unwrap();
    }
}
