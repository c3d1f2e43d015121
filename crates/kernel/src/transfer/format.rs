//! The format of an export: a header, a line per znode with parents before their children, and an end with their
//! number. A file without its end is incomplete.

use std::collections::HashSet;
use std::io::{self, BufRead};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::session::Access;

/// The version of this format.
pub const VERSION: u32 = 1;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line {
    /// The first line.
    Header(Header),
    /// A znode.
    Znode(Record),
    /// The last line.
    End(End),
}

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The format's version.
    pub version: u32,
    /// A unique name: an interrupted import continues only with the same export.
    pub export: String,
    /// The path of the exported namespace.
    pub namespace: String,
    /// The generation of its fences.
    pub generation: u64,
    /// When the export began.
    pub exported_ms: u64,
}

/// One persistent znode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Its path below the namespace; `/` is the namespace itself.
    pub path: String,
    /// Its data, base64.
    #[serde(with = "base64_text")]
    pub data: Vec<u8>,
    /// Its access list.
    pub access: Vec<Access>,
    /// How many children were ever created in it: the number that the next sequence znode gets.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub children_created: u32,
}

/// The last line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// How many znodes there are.
    pub znodes: u64,
    /// How many ephemerals were left out.
    pub ephemerals: u64,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

mod base64_text {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(data: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(data))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map_err(D::Error::custom)
    }
}

/// Why an export cannot be imported.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the fields of errors name themselves")]
pub enum FormatError {
    /// The file cannot be read.
    #[error("cannot read the export")]
    Read(#[from] io::Error),
    /// A line cannot be parsed.
    #[error("line {number} is not a line of an export: {why}")]
    Line {
        /// Which one, from 1.
        number: u64,
        why: String,
    },
    /// The file has a later version of the format.
    #[error("this export has format {0}, and this program knows format {VERSION} at most")]
    Newer(u32),
    /// The end is missing, or its counts do not match.
    #[error("the export is not whole: {why}")]
    Torn { why: String },
}

/// Reads line by line.
pub fn lines(source: impl BufRead) -> impl Iterator<Item = Result<Line, FormatError>> {
    source.lines().zip(1_u64..).map(|(line, number)| {
        serde_json::from_str(&line?).map_err(|error| FormatError::Line { number, why: error.to_string() })
    })
}

/// Reads and checks the whole file, so that nothing is imported from a damaged one. Returns its first and last line.
pub fn check(source: impl BufRead) -> Result<(Header, End), FormatError> {
    let mut lines = lines(source).zip(1_u64..);
    let header = match lines.next() {
        Some((Ok(Line::Header(header)), _)) => header,
        Some((Err(error), _)) => return Err(error),
        _ => return Err(FormatError::Line { number: 1, why: "the header is missing".to_owned() }),
    };
    if header.version > VERSION {
        return Err(FormatError::Newer(header.version));
    }
    let mut paths = HashSet::new();
    let mut end = None;
    for (line, number) in lines {
        let bad = |why: String| Err(FormatError::Line { number, why });
        match line? {
            _ if end.is_some() => return bad("there is something behind the end".to_owned()),
            Line::Header(_) => return bad("there is a second header".to_owned()),
            Line::End(found) => end = Some(found),
            Line::Znode(record) => {
                if !is_path(&record.path) {
                    return bad(format!("{:?} is not a path", record.path));
                }
                if record.path != "/" && !paths.contains(parent(&record.path)) {
                    return bad(format!("{} comes before its parent", record.path));
                }
                if !paths.insert(record.path.clone()) {
                    return bad(format!("{} is there twice", record.path));
                }
            }
        }
    }
    let Some(end) = end else {
        return Err(FormatError::Torn { why: "its last line is missing".to_owned() });
    };
    let found = paths.len() as u64;
    if end.znodes != found {
        let why = format!("it says that it has {} znodes, and holds {found}", end.znodes);
        return Err(FormatError::Torn { why });
    }
    Ok((header, end))
}

/// The parent of a path.
pub fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(at) => &path[..at],
    }
}

fn is_path(path: &str) -> bool {
    let component =
        |part: &str| !part.is_empty() && part != "." && part != ".." && !part.chars().any(char::is_control);
    path == "/" || path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(component))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Line {
        Line::Header(Header {
            version: VERSION,
            export: "e1".to_owned(),
            namespace: "/menagerie".to_owned(),
            generation: 7,
            exported_ms: 1,
        })
    }

    fn znode(path: &str) -> Line {
        let access = vec!["world:anyone:cdrwa".parse().unwrap()];
        Line::Znode(Record { path: path.to_owned(), data: vec![0, 255], access, children_created: 3 })
    }

    fn end(znodes: u64) -> Line {
        Line::End(End { znodes, ephemerals: 0 })
    }

    fn text(lines: &[Line]) -> String {
        lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect()
    }

    #[test]
    fn lines_survive_being_written_down() {
        let all = [header(), znode("/"), znode("/a"), end(2)];
        let read: Vec<Line> = lines(text(&all).as_bytes()).map(Result::unwrap).collect();
        assert_eq!(read, all);
        let (Line::Header(expected), (read, end)) = (&all[0], check(text(&all).as_bytes()).unwrap()) else {
            panic!("the first line is the header")
        };
        assert_eq!((&read, end.znodes), (expected, 2));
    }

    #[test]
    fn damaged_exports_are_refused_with_the_reason() {
        for (lines, why) in [
            (vec![], "header"),
            (vec![znode("/")], "header"),
            (vec![header(), znode("/")], "last line is missing"),
            (vec![header(), znode("/"), end(2)], "holds 1"),
            (vec![header(), znode("/a"), end(1)], "before its parent"),
            (vec![header(), znode("/"), znode("/a"), znode("/a"), end(3)], "twice"),
            (vec![header(), znode("/"), znode("/../x"), end(2)], "not a path"),
            (vec![header(), znode("/"), end(1), znode("/a")], "behind the end"),
        ] {
            let error = check(text(&lines).as_bytes()).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        let newer = text(&[header()]).replace("\"version\":1", "\"version\":9");
        assert!(matches!(check(newer.as_bytes()), Err(FormatError::Newer(9))));
    }
}
