//! Verifies every checksum of a stopped journal.

use std::fs::File;
use std::path::Path;

use super::error::StoreError;
use super::folder::Folder;
use super::identity::FolderIdentity;
use super::recover::{heads, newest_image};
use super::segment::{self, Name};
use super::snapshot;
use crate::core::topic::Segment;

/// The result of a verification.
#[derive(Debug, Default)]
pub struct Report {
    /// Segments checked.
    pub segments: u64,
    /// Blocks read.
    pub blocks: u64,
    /// Bytes of segments and log.
    pub bytes: u64,
    /// Records of the log.
    pub records: u64,
    /// Every damage found.
    pub damaged: Vec<StoreError>,
}

/// Reads everything in a data folder, and changes nothing. An error means that it could not begin.
pub fn verify(path: &Path) -> Result<Report, StoreError> {
    if !path.join("format").exists() {
        return Err(missing(path));
    }
    verify_folder(&Folder::open_read_only(path)?)
}

/// Data without a format file is damaged; an empty folder is the wrong one.
pub(super) fn missing(path: &Path) -> StoreError {
    if path.join("log").exists() {
        StoreError::damaged(&path.join("format"), 0, "it is missing, but there is data")
    } else {
        StoreError::NoData { path: path.to_owned() }
    }
}

/// The same for a folder that is locked already.
pub(crate) fn verify_folder(folder: &Folder) -> Result<Report, StoreError> {
    let mut report = Report::default();
    let image = newest_image(folder)?;
    report.damaged.extend(FolderIdentity::read(&folder.identity_file()).err());
    for (sequence, _) in &image.ids {
        if let Err(error) = snapshot::read(&folder.ids(*sequence), snapshot::IDS) {
            report.damaged.push(error);
        }
    }
    match menagerie_wal::verify(&folder.log(), image.sequence) {
        Ok(log) => {
            report.records = log.records;
            report.bytes += log.bytes;
        }
        Err(source) => report.damaged.push(StoreError::Log { path: folder.log(), source }),
    }
    for topic in &image.topics {
        for (number, segment) in &topic.segments {
            let name = Name { topic: topic.number, number: *number };
            verify_segment(name, segment, &folder.segments(), &mut report);
        }
    }
    Ok(report)
}

fn verify_segment(name: Name, segment: &Segment, folder: &Path, report: &mut Report) {
    let path = name.path(folder);
    report.segments += 1;
    report.bytes += segment.bytes;
    let heads = match heads(name, segment, &path) {
        Ok(heads) => heads,
        Err(error) => return report.damaged.push(error),
    };
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) => return report.damaged.push(StoreError::io("open", &path)(error)),
    };
    for head in heads {
        report.blocks += 1;
        match segment::read_block(&file, &path, name, head.location(name.number)) {
            Ok((found, _)) if found == head => {}
            Ok(_) => {
                let what = "a block is not what the index says";
                report.damaged.push(StoreError::damaged(&path, u64::from(head.offset), what));
            }
            Err(error) => report.damaged.push(error),
        }
    }
}
