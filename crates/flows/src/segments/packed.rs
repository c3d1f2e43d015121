//! The layout of a batch: a version (1 byte), the number of segments (4, little endian), and for each the length of its
//! key, the key, the length of its text, the text. Lengths have 7 bits a byte, the lowest first. A segment without a key
//! has an empty one.

use bytes::Bytes;
use thiserror::Error;

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 5;
/// Longest key and text: a message of the journal is shorter.
const LENGTH_MAX: usize = 16 << 20;

/// A batch that this version cannot read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a batch of segments is damaged: {0}")]
pub struct Malformed(&'static str);

/// Builds a batch.
#[derive(Debug)]
pub struct Packer {
    bytes: Vec<u8>,
    count: u32,
}

impl Default for Packer {
    fn default() -> Self {
        Self { bytes: vec![VERSION, 0, 0, 0, 0], count: 0 }
    }
}

impl Packer {
    /// Adds a segment.
    pub fn push(&mut self, key: &[u8], text: &[u8]) {
        put_length(key.len(), &mut self.bytes);
        self.bytes.extend_from_slice(key);
        put_length(text.len(), &mut self.bytes);
        self.bytes.extend_from_slice(text);
        self.count += 1;
    }

    /// Number of segments.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The batch, if it has any segments; and an empty one is left.
    pub fn take(&mut self) -> Option<Bytes> {
        if self.count == 0 {
            return None;
        }
        let Self { mut bytes, count } = std::mem::take(self);
        bytes[1..HEAD_BYTES].copy_from_slice(&count.to_le_bytes());
        Some(bytes.into())
    }
}

/// A batch being read: an iterator over (key, text).
#[derive(Debug, Clone)]
pub struct Packed<'a> {
    rest: &'a [u8],
    left: u32,
}

impl<'a> Packed<'a> {
    /// Begins to read.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        match bytes {
            [VERSION, a, b, c, d, rest @ ..] => {
                let left = u32::from_le_bytes([*a, *b, *c, *d]);
                // A segment has two lengths at least.
                if left as usize > rest.len() / 2 {
                    return Err(Malformed("it has fewer segments than it says"));
                }
                Ok(Self { rest, left })
            }
            [VERSION, ..] | [] => Err(Malformed("it is cut off")),
            _ => Err(Malformed("it is of a version that is not known here")),
        }
    }

    fn segment(&mut self) -> Result<(&'a [u8], &'a [u8]), Malformed> {
        Ok((self.piece()?, self.piece()?))
    }

    fn piece(&mut self) -> Result<&'a [u8], Malformed> {
        let length = take_length(&mut self.rest)?;
        let (piece, rest) = self.rest.split_at_checked(length).ok_or(Malformed("it is cut off"))?;
        self.rest = rest;
        Ok(piece)
    }
}

impl<'a> Iterator for Packed<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return match std::mem::take(&mut self.rest) {
                [] => None,
                _ => Some(Err(Malformed("something follows its last segment"))),
            };
        }
        self.left -= 1;
        let segment = self.segment();
        if segment.is_err() {
            (self.left, self.rest) = (0, &[]);
        }
        Some(segment)
    }
}

fn put_length(mut length: usize, out: &mut Vec<u8>) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

fn take_length(rest: &mut &[u8]) -> Result<usize, Malformed> {
    let mut length = 0;
    for shift in [0, 7, 14, 21] {
        let (byte, behind) = rest.split_first().ok_or(Malformed("it is cut off"))?;
        *rest = behind;
        length |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return if length <= LENGTH_MAX { Ok(length) } else { Err(Malformed("a segment is too long")) };
        }
    }
    Err(Malformed("a segment is too long"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Segments = Vec<(Vec<u8>, Vec<u8>)>;

    fn unpack(bytes: &[u8]) -> Result<Segments, Malformed> {
        Packed::new(bytes)?.map(|found| found.map(|(key, text)| (key.to_vec(), text.to_vec()))).collect()
    }

    proptest! {
        #[test]
        fn segments_come_out_as_they_went_in_and_what_is_cut_or_longer_is_refused(
            segments in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..200), prop::collection::vec(any::<u8>(), 0..400)), 1..50),
            cut in any::<prop::sample::Index>(),
            flip in (any::<prop::sample::Index>(), 1..=255_u8),
        ) {
            let mut packer = Packer::default();
            for (key, text) in &segments {
                packer.push(key, text);
            }
            prop_assert_eq!(packer.count() as usize, segments.len());
            let mut bytes = packer.take().unwrap().to_vec();
            prop_assert!(packer.take().is_none());
            prop_assert_eq!(unpack(&bytes), Ok(segments));
            prop_assert!(unpack(&bytes[..cut.index(bytes.len())]).is_err());
            let longer = [bytes.as_slice(), &[0]].concat();
            prop_assert!(unpack(&longer).is_err());
            // Whatever a flipped byte makes of it, reading ends.
            let at = flip.0.index(bytes.len());
            bytes[at] ^= flip.1;
            drop(unpack(&bytes));
        }
    }
}
