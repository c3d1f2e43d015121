//! Input files: which ones, and their lines.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use crate::segments::SEGMENT_BYTES_MAX;

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 1 << 20;

/// The files that a pattern means, sorted. The error says what is wrong with it.
pub fn matching(pattern: &Path) -> Result<Vec<String>, String> {
    let text = pattern.to_str().ok_or_else(|| format!("{} is not UTF-8", pattern.display()))?;
    let found = glob::glob(text).map_err(|error| format!("{text} is no pattern of file names: {error}"))?;
    let mut files = Vec::new();
    for file in found {
        let file = file.map_err(|error| format!("cannot look for {text}: {error}"))?;
        if !file.is_file() {
            continue;
        }
        let name = file.to_str().ok_or_else(|| format!("{} is not UTF-8", file.display()))?;
        files.push(name.to_owned());
    }
    if files.is_empty() {
        return Err(match pattern.metadata() {
            Ok(found) if found.is_dir() => format!("{text} is a folder; its files would be {text}/*"),
            Ok(_) => format!("{text} is no regular file"),
            Err(_) => format!("no file matches {text}"),
        });
    }
    files.sort_unstable();
    Ok(files)
}

/// Deals files to partitions, in turn.
pub fn deal(files: &[String], partitions: u32) -> Vec<Vec<String>> {
    let mut dealt = vec![Vec::new(); partitions as usize];
    for (index, file) in files.iter().enumerate() {
        dealt[index % partitions as usize].push(file.clone());
    }
    dealt
}

/// A file being read, from a line's beginning.
#[derive(Debug)]
pub struct LineReader {
    file: File,
    path: PathBuf,
    /// What was read, and not returned yet.
    buffer: Vec<u8>,
    is_at_end: bool,
}

/// Whole lines of a file.
#[derive(Debug)]
pub struct Lines {
    /// The lines, each with its line end; the last of a file may have none.
    pub bytes: Vec<u8>,
    /// Whether there are no more.
    pub is_last: bool,
}

impl LineReader {
    /// Opens a file, and goes to an offset.
    pub fn open(path: &Path, offset: u64) -> Result<Self, String> {
        let failed = |error: io::Error| format!("cannot read {}: {error}", path.display());
        let mut file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        if length < offset {
            return Err(format!(
                "{} has become shorter: it has {length} bytes, and {offset} were read",
                path.display()
            ));
        }
        file.seek(SeekFrom::Start(offset)).map_err(failed)?;
        Ok(Self { file, path: path.to_owned(), buffer: Vec::new(), is_at_end: false })
    }

    /// The next whole lines: a chunk of them, at least one unless the file is at its end; or the beginning of a line that is
    /// too long.
    pub fn next_lines(&mut self) -> Result<Lines, String> {
        loop {
            let before = self.buffer.len();
            if !self.is_at_end {
                let chunk = (&mut self.file).take(CHUNK_BYTES as u64).read_to_end(&mut self.buffer);
                let read = chunk.map_err(|error| format!("cannot read {}: {error}", self.path.display()))?;
                self.is_at_end = read == 0;
            }
            if self.is_at_end {
                return Ok(Lines { bytes: std::mem::take(&mut self.buffer), is_last: true });
            }
            if let Some(end) = self.buffer[before..].iter().rposition(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(before + end + 1);
                return Ok(Lines { bytes: std::mem::replace(&mut self.buffer, rest), is_last: false });
            }
            if self.buffer.len() > SEGMENT_BYTES_MAX {
                // Too long for a segment: whoever takes it refuses it, and knows its line.
                return Ok(Lines { bytes: std::mem::take(&mut self.buffer), is_last: false });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_whatever_the_chunks_and_wherever_reading_begins() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let lines: Vec<String> = (0..120_000).map(|n| format!("{{\"n\":{n}}}\n", n = n * 7_919)).collect();
        let text = lines.concat().trim_end().to_owned() + "\n{\"last\":1}";
        std::fs::write(&path, &text).unwrap();
        assert!(text.len() > CHUNK_BYTES);
        for skipped in [0, 1, 30_000] {
            let offset: usize = lines[..skipped].iter().map(String::len).sum();
            let mut reader = LineReader::open(&path, offset as u64).unwrap();
            let mut all = Vec::new();
            loop {
                let Lines { bytes, is_last } = reader.next_lines().unwrap();
                all.extend(bytes);
                if is_last {
                    break;
                }
                assert_eq!(all.last(), Some(&b'\n'));
            }
            assert_eq!(all, text.as_bytes()[offset..]);
        }
        assert!(LineReader::open(&path, text.len() as u64 + 1).unwrap_err().contains("shorter"));
    }

    #[test]
    fn a_pattern_means_sorted_files_and_no_folders() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.jsonl", "a.jsonl", "c.txt"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::fs::create_dir(folder.path().join("d.jsonl")).unwrap();
        let names = matching(&folder.path().join("*.jsonl")).unwrap();
        assert!(names.len() == 2 && names[0].ends_with("a.jsonl"), "{names:?}");
        assert!(matching(&folder.path().join("*.csv")).unwrap_err().starts_with("no file matches"));
        assert_eq!(deal(&names, 2), [vec![names[0].clone()], vec![names[1].clone()]]);
    }
}
