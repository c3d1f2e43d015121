//! Segments: JSON objects, carried as the text that they arrived as. A batch of them is one message of the journal.
//!
//! - [`packed`]: the layout of a batch. [`key`]: the key of a segment. This file: what a segment is.
//!
//! Nobody builds a tree of values per segment: the order of keys and numbers of any length survive, and a hop costs a
//! copy.

pub mod key;
pub mod packed;

pub use key::KeyPath;
pub use packed::{Malformed, Packed, Packer};
use serde_json::value::RawValue;

/// Longest segment. A commit has a copy of it for each link out of a task, and the journal bounds commits.
pub const SEGMENT_BYTES_MAX: usize = 1 << 20;
/// Longest key of a segment: it travels with it.
pub const KEY_BYTES_MAX: usize = 64 << 10;

/// The segment on a line: the text of one JSON object, without blanks around it. The error says why it is none.
pub fn segment(line: &[u8]) -> Result<&[u8], String> {
    if line.len() > SEGMENT_BYTES_MAX {
        return Err(format!("longer than {} MiB", SEGMENT_BYTES_MAX >> 20));
    }
    let value: &RawValue =
        serde_json::from_slice(line).map_err(|error| format!("no JSON: {}", without_line(&error)))?;
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'{') => Ok(text.as_bytes()),
        _ => Err("JSON, but no object".to_owned()),
    }
}

/// An error without the line that serde counts: a segment is one line.
pub fn without_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => format!("{} in column {}", &text[..end], error.column()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_one_object() {
        let text = br#"{"z":1,"a":[{"b":12345678901234567890123456789.10}]}"#;
        assert_eq!(segment(&[b"  ".as_slice(), text, b"\r"].concat()), Ok(text.as_slice()));
        for bad in ["", "[1]", "7", "{\"a\":1} {\"b\":2}", "{\"a\":}", "{'a':1}", "{\"a\":\"\u{1}\"}"] {
            assert!(segment(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(segment(b"{\"a\":\"\xff\"}").is_err());
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(SEGMENT_BYTES_MAX));
        assert_eq!(segment(long.as_bytes()), Err("longer than 1 MiB".to_owned()));
    }
}
