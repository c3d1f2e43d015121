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

/// The segment on a line: the text of one JSON object, without blanks around it. The error says why it is none.
pub fn segment(line: &[u8]) -> Result<&[u8], String> {
    let value: &RawValue = serde_json::from_slice(line).map_err(|error| format!("no JSON: {error}"))?;
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'{') => Ok(text.as_bytes()),
        _ => Err("JSON, but no object".to_owned()),
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
    }
}
